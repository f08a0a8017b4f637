package mirror

import (
	"slices"
	"strings"
)

// Filter is the deny and allow lists MIRROR_EXCLUDE_* and MIRROR_INCLUDE_*.
// Entries are domain ids and flow ids, in whatever case somebody wrote them.
type Filter struct {
	IncludeDomains, IncludeFlows []string
	ExcludeDomains, ExcludeFlows []string
}

// Excludes says whether the flow may not be mirrored. Exclude wins; a
// non-empty domain list and a non-empty flow list must both match
// (agent API reference §15.2).
func (f Filter) Excludes(k Key) bool {
	switch {
	case named(f.ExcludeDomains, k.DomainID):
		return true
	case len(f.IncludeDomains) > 0 && !named(f.IncludeDomains, k.DomainID):
		return true
	case len(f.ExcludeFlows) == 0 && len(f.IncludeFlows) == 0:
		return false
	}
	flow := k.FlowID.String()
	return named(f.ExcludeFlows, flow) || len(f.IncludeFlows) > 0 && !named(f.IncludeFlows, flow)
}

func named(list []string, id string) bool {
	return slices.ContainsFunc(list, func(entry string) bool { return strings.EqualFold(entry, id) })
}
