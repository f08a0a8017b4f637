package mirror

import "time"

// domain decides about one mirror domain.
func (l *Ledger) domain(f *Facts, d *DomainOnDisk, wants DomainFacts, out *Outcome) DomainStep {
	r := l.domains[d.DomainID]
	if r == nil {
		r = &domainRecord{}
		l.domains[d.DomainID] = r
	}
	facts := wants
	facts.Local, facts.Listed, facts.IdleGrace = f.LocalDomains[d.DomainID], f.listed(d.DomainID), f.IdleGrace
	if !facts.Listed { // else it does not matter
		facts.Source, facts.Settled = l.sources(f, d)
	}
	if facts.Demand || facts.Hold || facts.LiveEager {
		r.idleSince = time.Time{}
	} else if r.idleSince.IsZero() {
		r.idleSince = f.Now
	}
	if !r.idleSince.IsZero() {
		facts.IdleFor = age(f.Now, r.idleSince)
	}
	var readers ReaderFacts
	v := JudgeDomain(facts, f.around(), readers)
	if v.Guard == ReadersUnknown { // only then do they matter
		keys := make([]Key, len(d.Flows))
		for i := range d.Flows {
			keys[i] = d.Flows[i].Key
		}
		readers = f.Readers.DomainFacts(d.DomainID, keys)
		v = JudgeDomain(facts, f.around(), readers)
	}
	if v.Go() && f.tooSoon(r.refused) {
		v.Guard = ReadersUnknown
	}
	if v.Reason == "" {
		r.blocked = ""
	}
	l.tellDomain(f, r, d, v, readers, out)
	step := DomainStep{
		DomainID: d.DomainID, DomainVerdict: v, IdleSince: r.idleSince, Demand: facts.Demand || facts.Hold, Blocked: r.blocked,
	}
	if v.Reason == "" {
		step.Source = l.newSource(f, d)
	}
	return step
}

// newSource is the peer that all flows of a mirror domain come from, where the marker
// names another one; empty otherwise. A flow that nobody has offered since the start
// may still come from the marker's.
func (l *Ledger) newSource(f *Facts, d *DomainOnDisk) string {
	source := ""
	for i := range d.Flows {
		host := l.flows[d.Flows[i].Key].source(d.SourceHost)
		if host == d.SourceHost || source != "" && host != source {
			return ""
		}
		source = host
	}
	if _, known := f.Peers[source]; !known {
		return ""
	}
	return source
}

// sources says what is known of the hosts that the flows of a mirror domain come
// from. One that is down may still have the domain; one that is not settled too.
func (l *Ledger) sources(f *Facts, d *DomainOnDisk) (sight PeerSight, settled bool) {
	if len(d.Flows) == 0 {
		return f.sightOf(d.SourceHost), f.settled(d.DomainID, d.SourceHost)
	}
	sight, settled = PeerUnknown, true
	for i := range d.Flows {
		host := l.flows[d.Flows[i].Key].decider(f, d.SourceHost)
		settled = settled && f.settled(d.DomainID, host)
		switch s := f.sightOf(host); {
		case s == PeerDown:
			sight = PeerDown
		case s == PeerUp && sight != PeerDown:
			sight = PeerUp
		}
	}
	return sight, settled
}

// wants says what wants a flow of each domain: the Demand, Hold and LiveEager of
// its facts. A live origin is one that eager mode keeps a mirror of: one with a
// writer. A writer without a signal counts, else its mirror would be removed and
// made again every MIRROR_IDLE_GRACE_S. A flow of elsewhere's domains is wanted too.
func (l *Ledger) wants(f *Facts, elsewhere map[string]bool) map[string]DomainFacts {
	all := make(map[string]DomainFacts, len(f.OnDisk))
	for i := 0; i < len(l.sorted); {
		id := l.sorted[i].key.DomainID
		var facts DomainFacts
		for ; i < len(l.sorted) && l.sorted[i].key.DomainID == id; i++ {
			r := l.sorted[i]
			facts.Demand = facts.Demand || r.seen.demand
			facts.Hold = facts.Hold || r.holds(f)
			facts.LiveEager = facts.LiveEager ||
				f.Eager && (r.seen.offer.Live || r.seen.offer.Active) && !f.Filter.Excludes(r.key)
		}
		all[id] = facts
	}
	for id := range elsewhere {
		facts := all[id]
		facts.Demand = true
		all[id] = facts
	}
	return all
}

// tellDomain reports a removal that is refused or only rehearsed, once a change.
func (l *Ledger) tellDomain(f *Facts, r *domainRecord, d *DomainOnDisk, v DomainVerdict, readers ReaderFacts, out *Outcome) {
	e := Event{Key: Key{DomainID: d.DomainID}, Peer: d.SourceHost, Path: d.Path, Reason: v.Reason}
	told, busy := "", r.busy
	r.busy = nil
	switch {
	case v.Reason == "":
	case v.Guard == DryRun:
		e.Kind, told = EventDomainWouldRemove, "dry run: "+string(v.Reason)
	case v.Guard == ReadersMapped:
		e.Kind, e.Readers, told = EventDomainBusy, readers.Mapped, pidList(readers.Mapped)
	case v.Guard == ReadersUnknown && !f.Readers.At.IsZero() && !f.Readers.Known:
		e.Kind, e.Why, told = EventDomainBusy, readers.Why, readers.Why
	case busy != nil:
		e.Kind, e.Readers, e.Why, told = EventDomainBusy, busy.Readers, busy.Unknown, busy.told()
	case v.Guard == NoGuard, v.Guard == ReadersUnknown:
		told = r.told // it is tried again, with what the deed finds
	}
	if told != "" && told != r.told {
		out.add(e)
	}
	r.told = told
}
