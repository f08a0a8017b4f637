package nmos

import (
	"cmp"
	"maps"
	"slices"
	"strings"
)

// State is the state of a demand entry or of a receiver in GET /api/v1/demand.
type State string

const (
	// StateLocal: not enabled, not routed, or the domain is on this host.
	StateLocal State = "local"
	// StateReplicating: an up peer lists the flow.
	StateReplicating State = "replicating"
	// StateUnresolved: no up peer lists the domain.
	StateUnresolved State = "unresolved"
	// StateStaleReference: an up peer lists the domain, none lists the flow.
	StateStaleReference State = "stale_reference"
)

// FlowKey names a flow in a domain, both ids in lower case.
type FlowKey struct{ DomainID, FlowID string }

// String gives "domain/flow", the form of the origin_conflict log event.
func (k FlowKey) String() string { return k.DomainID + "/" + k.FlowID }

// NewFlowKey lower-cases both ids: they are only comparable that way
// (NMOS reference §10).
func NewFlowKey(domainID, flowID string) FlowKey {
	return FlowKey{strings.ToLower(domainID), strings.ToLower(flowID)}
}

// PeerInventory is what one peer that is up offers.
type PeerInventory struct {
	HostID  string
	Domains []PeerDomain
}

// PeerDomain is a domain in a peer's inventory.
type PeerDomain struct {
	ID    string
	Flows []PeerFlow
}

// PeerFlow is a flow in a peer's inventory.
type PeerFlow struct {
	ID     string
	Live   bool // being written now
	Active bool // a writer holds it
}

// DemandFacts is the input of ComputeDemand.
type DemandFacts struct {
	Receivers    []Receiver
	LocalDomains []string           // ids of domains that are on this host (not mirrors)
	Peers        []PeerInventory    // of the peers that are up
	Chosen       map[FlowKey]string // host id chosen so far, per flow
}

// Demand is what the local receivers want.
type Demand struct {
	Receivers []ReceiverDemand // every receiver on a local node, in the order given
	Entries   []DemandEntry    // one per wanted (domain, flow) that is not local, sorted
	Origins   map[FlowKey]Origin
	Conflicts []OriginConflict // sorted
}

// ReceiverDemand is a receiver with its state.
type ReceiverDemand struct {
	Receiver   Receiver
	State      State
	SourceHost string // chosen origin; empty when there is none
}

// DemandEntry is a wanted flow of another host with the receivers that share it.
type DemandEntry struct {
	Key        FlowKey
	State      State  // never StateLocal
	SourceHost string // only while replicating
	Receivers  []string
}

// Origin is the choice among the hosts that offer one flow.
type Origin struct {
	HostID string
	Live   bool
	Active bool
}

// OriginConflict is a flow that more than one peer offers.
type OriginConflict struct {
	Key    FlowKey
	Hosts  string // comma list sorted by host id, marked "(live)" or "(writer)"
	Chosen string
}

// ComputeDemand joins receivers, local domains and the up peers' inventories
// (interface reference §14). It is pure and keeps nothing.
func ComputeDemand(f DemandFacts) Demand {
	origins, conflicts := ChooseOrigins(f.Peers, f.Chosen)
	d := Demand{Origins: origins, Conflicts: conflicts}
	local := make(map[string]bool, len(f.LocalDomains))
	for _, id := range f.LocalDomains {
		local[strings.ToLower(id)] = true
	}
	offered := map[string]bool{}
	for _, p := range f.Peers {
		for _, dom := range p.Domains {
			offered[strings.ToLower(dom.ID)] = true
		}
	}
	entries := map[FlowKey]*DemandEntry{}
	for _, r := range f.Receivers {
		if !r.Local {
			continue
		}
		rd := ReceiverDemand{Receiver: r, State: StateLocal}
		key := NewFlowKey(r.DomainID, r.FlowID)
		if r.Wanted() && !local[key.DomainID] {
			e := entries[key]
			if e == nil {
				e = &DemandEntry{Key: key}
				switch o, ok := origins[key]; {
				case ok:
					e.State, e.SourceHost = StateReplicating, o.HostID
				case offered[key.DomainID]:
					e.State = StateStaleReference
				default:
					e.State = StateUnresolved
				}
				entries[key] = e
			}
			e.Receivers = append(e.Receivers, r.ID)
			rd.State, rd.SourceHost = e.State, e.SourceHost
		}
		d.Receivers = append(d.Receivers, rd)
	}
	for _, k := range slices.SortedFunc(maps.Keys(entries), compareKeys) {
		e := *entries[k]
		slices.Sort(e.Receivers)
		d.Entries = append(d.Entries, e)
	}
	return d
}

// ChooseOrigins picks one host for every flow the up peers offer: live before
// writer-held before the rest; among equals the current choice, else the lowest
// host id. Flows with more than one host are also listed as conflicts.
func ChooseOrigins(peers []PeerInventory, chosen map[FlowKey]string) (map[FlowKey]Origin, []OriginConflict) {
	hosts := map[FlowKey][]Origin{}
	for _, p := range peers {
		for _, dom := range p.Domains {
			for _, fl := range dom.Flows {
				k := NewFlowKey(dom.ID, fl.ID)
				o := Origin{HostID: p.HostID, Live: fl.Live, Active: fl.Active}
				at := slices.IndexFunc(hosts[k], func(h Origin) bool { return h.HostID == p.HostID })
				switch {
				case at < 0:
					hosts[k] = append(hosts[k], o)
				case o.rank() > hosts[k][at].rank(): // one host listing a flow twice is one origin
					hosts[k][at] = o
				}
			}
		}
	}
	origins := make(map[FlowKey]Origin, len(hosts))
	var conflicts []OriginConflict
	for k, list := range hosts {
		slices.SortFunc(list, func(a, b Origin) int { return cmp.Compare(a.HostID, b.HostID) })
		best := list[0]
		for _, o := range list[1:] {
			if o.rank() > best.rank() || (o.rank() == best.rank() && o.HostID == chosen[k]) {
				best = o
			}
		}
		origins[k] = best
		if len(list) > 1 {
			conflicts = append(conflicts, OriginConflict{Key: k, Hosts: hostList(list), Chosen: best.HostID})
		}
	}
	slices.SortFunc(conflicts, func(a, b OriginConflict) int { return compareKeys(a.Key, b.Key) })
	return origins, conflicts
}

func (o Origin) rank() int {
	switch {
	case o.Live:
		return 2
	case o.Active:
		return 1
	default:
		return 0
	}
}

func hostList(list []Origin) string {
	names := make([]string, len(list))
	for i, o := range list {
		names[i] = o.HostID + [...]string{"", "(writer)", "(live)"}[o.rank()]
	}
	return strings.Join(names, ",")
}

func compareKeys(a, b FlowKey) int {
	return cmp.Or(cmp.Compare(a.DomainID, b.DomainID), cmp.Compare(a.FlowID, b.FlowID))
}
