package mirror

import (
	"maps"
	"slices"
)

// sighting is what one pass finds about a flow. A pass has thousands of flows and
// comes several times a second, so it asks the maps of its facts once for each.
type sighting struct {
	offer   *Offer // never nil
	offered bool
	demand  bool
	on      *FlowOnDisk // nil: not on disk, or without a data file
}

// look notes what the facts say about each flow; each has its record from here on.
// It gives the domains of which a flow is wanted that is nowhere.
func (l *Ledger) look(f *Facts) (elsewhere map[string]bool) {
	for _, r := range l.flows {
		r.seen = sighting{offer: &l.nobodys}
	}
	for i := range f.Offers {
		r := l.meet(f.Offers[i].Key)
		r.seen.offer, r.seen.offered = &f.Offers[i], true
	}
	for i := range f.OnDisk {
		for j := range f.OnDisk[i].Flows {
			on := &f.OnDisk[i].Flows[j]
			l.meet(on.Key).seen.on = on
		}
	}
	for k, wanted := range f.Demand {
		switch r := l.flows[k]; {
		case !wanted:
		case r != nil:
			r.seen.demand = true
		default:
			if elsewhere == nil {
				elsewhere = map[string]bool{}
			}
			elsewhere[k.DomainID] = true
		}
	}
	if l.sorted == nil {
		l.sorted = slices.SortedFunc(maps.Values(l.flows), func(a, b *flowRecord) int { return compareKeys(a.key, b.key) })
	}
	return elsewhere
}

// meet makes the record of a flow that is new.
func (l *Ledger) meet(k Key) *flowRecord {
	r := l.flows[k]
	if r == nil {
		r = &flowRecord{key: k, seen: sighting{offer: &l.nobodys}}
		l.flows[k], l.sorted = r, nil
	}
	return r
}

// surroundingDomain is what the flows of a domain have in common.
type surroundingDomain struct {
	id      string
	source  string // of its marker
	going   bool   // it goes as a whole
	local   bool
	foreign bool
	settled bool
}

func (f *Facts) domainAround(id, source string) surroundingDomain {
	return surroundingDomain{
		id: id, source: source, local: f.LocalDomains[id], foreign: f.Foreign[id], settled: f.settled(id, source),
	}
}
