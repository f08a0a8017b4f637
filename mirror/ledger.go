package mirror

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/google/uuid"
)

// Ledger gathers the decisions about all mirrors and what they need to remember
// from one pass to the next: clocks, health, rebuilds. It does no I/O and reads
// no clock. It belongs to one goroutine, the reconcile loop.
type Ledger struct {
	flows   map[Key]*flowRecord
	sorted  []Key // of flows; nil when one came or went
	domains map[string]*domainRecord
	now     time.Time // of the last pass
}

// flowRecord is what is remembered of one flow.
type flowRecord struct {
	host      string    // source peer, from the offer or the marker
	inactive  time.Time // since when an up peer has listed it without a writer
	wanted    time.Time // last moment with demand
	missing   MissingClock
	health    HealthMemory
	rebuilds  RebuildMemory
	mediaType string
	label     string
	format    string
	told      string // the refusal or dry run last told
	blocked   string // why the last removal failed, while it is due
	full      bool   // the file system had no room for it at the last try
	refused   time.Time
	onDisk    bool // in the last pass
}

// domainRecord is what is remembered of one mirror domain.
type domainRecord struct {
	idleSince time.Time
	told      string
	blocked   string    // as of a flow
	refused   time.Time // as of a flow
}

// NewLedger makes an empty ledger.
func NewLedger() *Ledger {
	return &Ledger{flows: map[Key]*flowRecord{}, domains: map[string]*domainRecord{}}
}

// Removed notes that this agent is about to remove or replace a mirror flow, so
// that its health and a later rebuild show the reason. It comes before the
// deed, which runs beside the loop; NotRemoved follows when that was refused.
// For the flows of a domain give [Reason.ForFlow].
func (l *Ledger) Removed(k Key, reason Reason) {
	if r := l.flows[k]; r != nil {
		r.rebuilds = r.rebuilds.Removed(reason)
	}
}

// NotRemoved takes Removed back: the removal was refused. Whoever uses the flow
// was stopped for it, so the next try waits for a reader check made after it.
func (l *Ledger) NotRemoved(k Key) {
	l.Removed(k, "")
	if r := l.flows[k]; r != nil {
		r.refused = l.now
	}
	if r := l.domains[k.DomainID]; r != nil {
		r.refused = l.now
	}
}

// Blocked notes why the removal of a flow, or of a domain (nil flow id), failed
// at this try; empty when readers or an incomplete sight of them refused it,
// which the reader check shows. The next try waits as after NotRemoved.
func (l *Ledger) Blocked(k Key, why string) {
	if k.FlowID == uuid.Nil {
		if r := l.domains[k.DomainID]; r != nil {
			r.blocked, r.refused = why, l.now
		}
		return
	}
	if r := l.flows[k]; r != nil {
		r.blocked, r.refused = why, l.now
	}
}

// Full notes whether the file system itself had no room for a flow when it was
// last made, whatever [Fits] said.
func (l *Ledger) Full(k Key, full bool) {
	if r := l.flows[k]; r != nil {
		r.full = full
	}
}

// tooSoon says whether the last reader check is not newer than a refusal.
func (f *Facts) tooSoon(refused time.Time) bool {
	return !refused.IsZero() && !f.Readers.At.After(refused)
}

// Pass decides about every flow that is offered, wanted, on disk or remembered,
// and about every mirror domain on disk.
func (l *Ledger) Pass(f Facts) Outcome {
	if f.Readers == nil {
		f.Readers = &ReaderReport{Why: "no reader check yet"}
	}
	l.now = f.Now
	f.listings = listingsOf(f.Peers)
	out := Outcome{Domains: make([]DomainStep, 0, len(f.OnDisk))}
	going := make(map[string]bool, len(f.OnDisk)) // domains that go as a whole
	wants := l.wants(&f)
	for _, d := range f.OnDisk {
		step := l.domain(&f, d, wants[d.DomainID], &out)
		out.Domains = append(out.Domains, step)
		going[d.DomainID] = step.Go()
	}
	onDisk := make(map[Key]*FlowOnDisk, len(l.flows))
	source := make(map[string]string, len(f.OnDisk))
	for i := range f.OnDisk {
		d := &f.OnDisk[i]
		source[d.DomainID] = d.SourceHost
		for j := range d.Flows {
			onDisk[d.Flows[j].Key] = &d.Flows[j]
		}
	}
	keys := l.keys(&f, onDisk)
	out.Flows = make([]FlowStep, 0, len(keys))
	for _, k := range keys {
		var on FlowOnDisk
		if found := onDisk[k]; found != nil {
			on = *found
		}
		step := l.flow(&f, k, on, on.Inode != 0, source[k.DomainID], &out)
		if going[k.DomainID] {
			// Its domain goes as a whole, by the rules for domains.
			step.Do, step.Pull = Leave, false
		}
		if step.Health.State == HealthStale {
			out.Stale++
		}
		out.Flows = append(out.Flows, step)
	}
	l.forget(&f, source)
	return out
}

// keys lists the flows of a pass, sorted; each has its record from here on.
func (l *Ledger) keys(f *Facts, onDisk map[Key]*FlowOnDisk) []Key {
	for k := range f.Offers {
		l.meet(k)
	}
	for k := range onDisk {
		l.meet(k)
	}
	if l.sorted == nil {
		l.sorted = slices.SortedFunc(maps.Keys(l.flows), compareKeys)
	}
	return l.sorted
}

// meet makes the record of a flow that is new.
func (l *Ledger) meet(k Key) {
	if l.flows[k] == nil {
		l.flows[k], l.sorted = &flowRecord{}, nil
	}
}

func compareKeys(a, b Key) int {
	return cmp.Or(cmp.Compare(a.DomainID, b.DomainID), slices.Compare(a.FlowID[:], b.FlowID[:]))
}

// flow decides about one flow.
func (l *Ledger) flow(f *Facts, k Key, on FlowOnDisk, onDisk bool, source string, out *Outcome) FlowStep {
	r := l.flows[k]
	events := len(out.Events)
	offer, offered := f.Offers[k]
	host := source
	if host == "" {
		host = offer.Host
	}
	if host != "" {
		r.host = host
	}
	r.clocks(f, k, offered && !offer.Active)
	hold := r.holds(f)
	step := FlowStep{Key: k, Peer: r.host, OnDisk: onDisk, Inode: on.Inode}
	if offered {
		step.Peer = offer.Host // grains come from there, whoever the marker names
	}
	step.plan(f, r, offer, offered, hold)
	r.kind(on, onDisk)
	step.MediaType, step.Label, step.Format = r.mediaType, r.label, r.format
	pending := l.missing(f, k, r, &step, source, onDisk, out)
	if step.Do == Remove && f.tooSoon(r.refused) {
		step.Do, step.Guard = Leave, ReadersUnknown
	}
	if step.Reason == "" {
		r.blocked = ""
	}
	step.Blocked = r.blocked
	if r.full = r.full && !onDisk; r.full && step.Do == Ensure {
		step.State = FlowNoSpace
	}
	l.rebuilds(f, k, r, &step, on, onDisk, out)
	l.health(f, k, r, &step, on, offer, hold, !pending, out)
	for i := events; i < len(out.Events); i++ { // rebuilt of this pass goes out with the health fields
		out.Events[i].Health, out.Events[i].StaleAfter, out.Events[i].Memory = step.Health, f.StaleAfter, r.rebuilds
	}
	r.onDisk = step.OnDisk
	return step
}

// clocks follows since when the origin is seen without a writer, and when the
// flow was last wanted. What nobody lists is not seen: it may have a writer.
func (r *flowRecord) clocks(f *Facts, k Key, inactive bool) {
	switch {
	case !inactive:
		r.inactive = time.Time{}
	case r.inactive.IsZero():
		r.inactive = f.Now
	}
	if f.Demand[k] {
		r.wanted = f.Now
	}
}

func (r *flowRecord) inactiveFor(now time.Time) time.Duration {
	if r.inactive.IsZero() {
		return 0
	}
	return age(now, r.inactive)
}

// holds says whether there is demand, or was less than RELEASE_GRACE_MS ago.
func (r *flowRecord) holds(f *Facts) bool {
	return !r.wanted.IsZero() && (r.wanted.Equal(f.Now) || age(f.Now, r.wanted) < f.ReleaseGrace)
}

func (s *FlowStep) plan(f *Facts, r *flowRecord, offer Offer, offered, hold bool) {
	peer := f.Peers[s.Peer]
	plan := PlanFlow(FlowFacts{
		Local: f.LocalDomains[s.DomainID], Foreign: f.Foreign[s.DomainID],
		Excluded: f.Filter.Excludes(s.Key), PeerUp: peer.Up, Offered: offered,
		Active: offer.Active, OnDisk: s.OnDisk, Demand: f.Demand[s.Key], Hold: hold,
		Fits:  Fits(f.FreeBytes, offer.NeedBytes, f.ReserveMB),
		Eager: f.Eager, Grace: f.Grace,
		InactiveFor: r.inactiveFor(f.Now),
	})
	s.State, s.Do, s.Reason, s.Pull = plan.State, plan.Action, plan.Reason, plan.Pull
	if s.Do != Remove {
		return
	}
	s.Guard = GuardRemoval(plan.Reason, f.around(), f.Readers.FlowFacts(s.Key))
	if s.Guard != NoGuard {
		s.Do, s.State = Leave, FlowIdle
	}
}

func (r *flowRecord) kind(on FlowOnDisk, onDisk bool) {
	if !onDisk {
		return
	}
	r.mediaType, r.label, r.format = on.MediaType, on.Label, "discrete"
	if on.Format.Continuous() {
		r.format = "continuous"
	}
}

// missing runs the clock of a flow whose origin is gone, and tells what it
// changed. It says whether the inventories are still pending.
func (l *Ledger) missing(f *Facts, k Key, r *flowRecord, step *FlowStep, source string, onDisk bool, out *Outcome) bool {
	settled := f.settled(k.DomainID, source)
	offered := f.offered(k)
	if !onDisk {
		r.missing = MissingClock{}
		return !offered && !settled
	}
	peer := f.Peers[source]
	var v MissingVerdict
	r.missing, v = r.missing.Step(MissingFacts{
		SourceUp: peer.Up && !peer.CountsAsDown, Offered: offered, Settled: settled, IdleGrace: f.IdleGrace,
	}, f.around(), f.Readers.FlowFacts(k), f.Now)
	step.Missing = v.Gone
	if v.Started {
		out.add(Event{Kind: EventOriginMissing, Key: k, Peer: step.Peer})
	}
	if v.Due && step.Do != Remove {
		step.Reason, step.Guard = OriginMissing, v.Guard
		if v.Go() {
			step.Do = Remove
		}
	}
	l.tellFlow(f, r, step, out)
	return v.Pending
}

// tellFlow reports a removal that is refused or only rehearsed, once a change.
func (l *Ledger) tellFlow(f *Facts, r *flowRecord, step *FlowStep, out *Outcome) {
	facts := f.Readers.FlowFacts(step.Key)
	e := Event{Key: step.Key, Peer: step.Peer, Reason: step.Reason, Missing: step.Missing}
	told := ""
	switch {
	case step.Reason == "":
	case step.Guard == DryRun:
		e.Kind, told = EventFlowWouldRemove, "dry run: "+string(step.Reason)
	case step.Guard == ReadersMapped:
		e.Kind, e.Readers, told = EventFlowKept, facts.Mapped, pidList(facts.Mapped)
	case step.Guard == ReadersUnknown && !f.Readers.At.IsZero() && !f.Readers.Known:
		e.Kind, e.Why, told = EventFlowKept, facts.Why, facts.Why
	}
	if told != "" && told != r.told {
		out.add(e)
	}
	r.told = told
}

func (l *Ledger) rebuilds(f *Facts, k Key, r *flowRecord, step *FlowStep, on FlowOnDisk, onDisk bool, out *Outcome) {
	inode := uint64(0)
	if onDisk {
		inode = on.Inode
	}
	var rebuilt *Rebuild
	r.rebuilds, rebuilt = r.rebuilds.Step(inode, f.Now)
	step.Rebuilds = r.rebuilds
	if rebuilt != nil {
		out.add(Event{
			Kind: EventRebuilt, Key: k, Peer: step.Peer, Reason: rebuilt.Reason,
			Rebuilds: rebuilt.Count, OldInode: rebuilt.OldInode, Inode: rebuilt.NewInode,
		})
	}
}

func (l *Ledger) health(f *Facts, k Key, r *flowRecord, step *FlowStep, on FlowOnDisk, offer Offer, hold, settled bool, out *Outcome) {
	peer := f.Peers[step.Peer]
	var change HealthChange
	staleSince := r.health.last.StaleSince
	gone := r.rebuilds.Gone()
	if gone == "" && step.State == FlowNoSpace {
		gone = Reason(FlowNoSpace) // it never was there
	}
	r.health, step.Health, change = r.health.Step(HealthFacts{
		OnDisk: step.OnDisk, Inode: on.Inode, Head: on.Head, Rate: on.Rate, Gone: gone,
		Demand: f.Demand[k], Hold: hold, PeerUp: peer.Up && (offer.Host != "" || !peer.CountsAsDown), LinkUp: peer.LinkUp,
		Offered: offer.Host != "", Settled: settled, OriginActive: offer.Active, OriginLive: offer.Live,
		OriginHead: offer.Head, PolledAt: offer.PolledAt, StaleAfter: f.StaleAfter,
	}, f.Now, f.TAI)
	e := Event{Key: k, Peer: step.Peer, Health: step.Health, StaleAfter: f.StaleAfter}
	switch change {
	case BecameStale:
		e.Kind = EventStale
		out.add(e)
	case Recovered:
		e.Kind, e.StaleFor = EventRecovered, age(f.Now, staleSince)
		out.add(e)
	}
}

// forget drops what need not be remembered; onDisk has the domains on disk.
func (l *Ledger) forget(f *Facts, onDisk map[string]string) {
	for k, r := range l.flows {
		if r.onDisk || !r.rebuilds.Forgettable(f.Now) || r.holds(f) {
			continue
		}
		if _, offered := f.Offers[k]; !offered {
			delete(l.flows, k)
			l.sorted = nil
		}
	}
	maps.DeleteFunc(l.domains, func(id string, _ *domainRecord) bool { _, there := onDisk[id]; return !there })
}
