package mirror

import "slices"

// Filter is the deny and allow lists MIRROR_EXCLUDE_* and MIRROR_INCLUDE_*.
// Entries are domain ids and canonical flow ids.
type Filter struct {
	IncludeDomains, IncludeFlows []string
	ExcludeDomains, ExcludeFlows []string
}

// Excludes says whether the flow may not be mirrored. Exclude wins; a
// non-empty domain list and a non-empty flow list must both match
// (agent API reference §15.2).
func (f Filter) Excludes(k Key) bool {
	switch {
	case slices.Contains(f.ExcludeDomains, k.DomainID):
		return true
	case len(f.IncludeDomains) > 0 && !slices.Contains(f.IncludeDomains, k.DomainID):
		return true
	case len(f.ExcludeFlows) == 0 && len(f.IncludeFlows) == 0:
		return false
	}
	flow := k.FlowID.String()
	return slices.Contains(f.ExcludeFlows, flow) || len(f.IncludeFlows) > 0 && !slices.Contains(f.IncludeFlows, flow)
}
