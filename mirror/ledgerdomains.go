package mirror

import "time"

// domain decides about one mirror domain.
func (l *Ledger) domain(f *Facts, d DomainOnDisk, wants DomainFacts, out *Outcome) DomainStep {
	r := l.domains[d.DomainID]
	if r == nil {
		r = &domainRecord{}
		l.domains[d.DomainID] = r
	}
	keys := make([]Key, 0, len(d.Flows))
	for _, on := range d.Flows {
		keys = append(keys, on.Key)
	}
	facts := wants
	facts.Local, facts.Listed, facts.Source = f.LocalDomains[d.DomainID], f.listed(d.DomainID), f.sightOf(d.SourceHost)
	facts.Settled, facts.IdleGrace = f.settled(d.DomainID, d.SourceHost), f.IdleGrace
	if facts.Demand || facts.Hold || facts.LiveEager {
		r.idleSince = time.Time{}
	} else if r.idleSince.IsZero() {
		r.idleSince = f.Now
	}
	if !r.idleSince.IsZero() {
		facts.IdleFor = age(f.Now, r.idleSince)
	}
	readers := f.Readers.DomainFacts(d.DomainID, keys)
	v := JudgeDomain(facts, f.around(), readers)
	if v.Go() && f.tooSoon(r.refused) {
		v.Guard = ReadersUnknown
	}
	if v.Reason == "" {
		r.blocked = ""
	}
	l.tellDomain(f, r, d, v, readers, out)
	return DomainStep{
		DomainID: d.DomainID, DomainVerdict: v, IdleSince: r.idleSince, Demand: facts.Demand || facts.Hold, Blocked: r.blocked,
	}
}

// wants says what wants a flow of each domain: the Demand, Hold and LiveEager of
// its facts. A live origin is one that eager mode keeps a mirror of: one with a
// writer. A writer without a signal counts, else its mirror would be removed and
// made again every MIRROR_IDLE_GRACE_S.
func (l *Ledger) wants(f *Facts) map[string]DomainFacts {
	all := make(map[string]DomainFacts, len(f.OnDisk))
	for k, wanted := range f.Demand {
		if facts := all[k.DomainID]; wanted && !facts.Demand {
			facts.Demand = true
			all[k.DomainID] = facts
		}
	}
	for k, r := range l.flows {
		if !r.holds(f) {
			continue
		}
		if facts := all[k.DomainID]; !facts.Hold {
			facts.Hold = true
			all[k.DomainID] = facts
		}
	}
	if !f.Eager {
		return all
	}
	for k, offer := range f.Offers {
		if facts := all[k.DomainID]; !facts.LiveEager && (offer.Live || offer.Active) && !f.Filter.Excludes(k) {
			facts.LiveEager = true
			all[k.DomainID] = facts
		}
	}
	return all
}

// tellDomain reports a removal that is refused or only rehearsed, once a change.
func (l *Ledger) tellDomain(f *Facts, r *domainRecord, d DomainOnDisk, v DomainVerdict, readers ReaderFacts, out *Outcome) {
	e := Event{Key: Key{DomainID: d.DomainID}, Peer: d.SourceHost, Path: d.Path, Reason: v.Reason}
	told := ""
	switch {
	case v.Reason == "":
	case v.Guard == DryRun:
		e.Kind, told = EventDomainWouldRemove, "dry run: "+string(v.Reason)
	case v.Guard == ReadersMapped:
		e.Kind, e.Readers, told = EventDomainBusy, readers.Mapped, pidList(readers.Mapped)
	case v.Guard == ReadersUnknown && !f.Readers.At.IsZero() && !f.Readers.Known:
		e.Kind, e.Why, told = EventDomainBusy, readers.Why, readers.Why
	}
	if told != "" && told != r.told {
		out.add(e)
	}
	r.told = told
}
