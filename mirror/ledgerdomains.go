package mirror

import "time"

// domain decides about one mirror domain.
func (l *Ledger) domain(f *Facts, d DomainOnDisk, out *Outcome) DomainStep {
	r := l.domains[d.DomainID]
	if r == nil {
		r = &domainRecord{}
		l.domains[d.DomainID] = r
	}
	keys := make([]Key, 0, len(d.Flows))
	for _, on := range d.Flows {
		keys = append(keys, on.Key)
	}
	facts := DomainFacts{
		Local: f.LocalDomains[d.DomainID], Listed: f.listed(d.DomainID), Source: f.sightOf(d.SourceHost),
		Settled: f.settled(d.DomainID, d.SourceHost), IdleGrace: f.IdleGrace,
	}
	l.wants(f, d.DomainID, &facts)
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
	l.tellDomain(f, r, d, v, readers, out)
	return DomainStep{DomainID: d.DomainID, DomainVerdict: v, IdleSince: r.idleSince, Demand: facts.Demand || facts.Hold}
}

// wants says what wants a flow of the domain. A live origin is one that eager
// mode keeps a mirror of: one with a writer. A writer without a signal counts,
// else its mirror would be removed and made again every MIRROR_IDLE_GRACE_S.
func (l *Ledger) wants(f *Facts, domainID string, facts *DomainFacts) {
	for k, wanted := range f.Demand {
		facts.Demand = facts.Demand || (wanted && k.DomainID == domainID)
	}
	for k, r := range l.flows {
		facts.Hold = facts.Hold || (k.DomainID == domainID && r.holds(f))
	}
	if !f.Eager {
		return
	}
	for k, offer := range f.Offers {
		if k.DomainID == domainID && (offer.Live || offer.Active) && !f.Filter.Excludes(k) {
			facts.LiveEager = true
			return
		}
	}
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
