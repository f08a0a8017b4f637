package mirror

import (
	"cmp"
	"errors"
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
	sorted  []*flowRecord // of flows, by key; nil when one came or went
	domains map[string]*domainRecord
	nobodys Offer     // stands for the offer of a flow that nobody offers
	now     time.Time // of the last pass
}

// flowRecord is what is remembered of one flow.
type flowRecord struct {
	key       Key
	seen      sighting
	host      string    // source peer, as source gives it
	inactive  time.Time // since when an up peer has listed it without a writer
	wanted    time.Time // last moment with demand
	missing   MissingClock
	health    HealthMemory
	rebuilds  RebuildMemory
	mediaType string
	label     string
	format    string
	told      string     // the refusal or dry run last told
	blocked   string     // why the last removal failed, while it is due
	busy      *BusyError // readers that refused it, until told
	full      bool       // the file system had no room for it at the last try
	unmade    bool       // it could not be made at the last try, for another reason
	refused   time.Time
	onDisk    bool // in the last pass
}

// domainRecord is what is remembered of one mirror domain.
type domainRecord struct {
	idleSince time.Time
	told      string
	blocked   string // as of a flow
	busy      *BusyError
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
// at this try. Readers, or an incomplete sight of them, that the check right before
// the deed met ([*BusyError]) are told by the next pass as those of any other check.
// The next try waits as after NotRemoved.
func (l *Ledger) Blocked(k Key, err error) {
	why := ""
	var busy *BusyError
	if !errors.As(err, &busy) {
		why = err.Error()
	}
	if k.FlowID == uuid.Nil {
		if r := l.domains[k.DomainID]; r != nil {
			r.blocked, r.busy, r.refused = why, busy, l.now
		}
		return
	}
	if r := l.flows[k]; r != nil {
		r.blocked, r.busy, r.refused = why, busy, l.now
	}
}

// Made notes how the making of a flow went: nil when it is there. [ErrNoSpace] is
// that of the file system itself, whatever [Fits] said.
func (l *Ledger) Made(k Key, err error) {
	if r := l.flows[k]; r != nil {
		r.full = errors.Is(err, ErrNoSpace)
		r.unmade = err != nil && !r.full
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
	elsewhere := l.look(&f)
	out := Outcome{Domains: make([]DomainStep, 0, len(f.OnDisk)), Flows: make([]FlowStep, 0, len(l.sorted))}
	wants := l.wants(&f, elsewhere)
	for i := range f.OnDisk {
		d := &f.OnDisk[i]
		out.Domains = append(out.Domains, l.domain(&f, d, wants[d.DomainID], &out))
	}
	going := make(map[string]bool, len(f.OnDisk)) // domains that go as a whole, of those on disk
	source := make(map[string]string, len(f.OnDisk))
	for i := range f.OnDisk {
		going[f.OnDisk[i].DomainID] = out.Domains[i].Go()
		source[f.OnDisk[i].DomainID] = f.OnDisk[i].SourceHost
	}
	var d surroundingDomain
	for i, r := range l.sorted {
		if i == 0 || d.id != r.key.DomainID {
			d = f.domainAround(r.key.DomainID, source[r.key.DomainID])
			d.going = going[d.id]
		}
		step := l.flow(&f, r, &d, &out)
		if d.going {
			// Its domain goes as a whole, by the rules for domains.
			step.Do, step.Pull = Leave, false
		}
		if step.Health.State == HealthStale {
			out.Stale++
		}
		out.Flows = append(out.Flows, step)
	}
	l.forget(&f, going)
	return out
}

func compareKeys(a, b Key) int {
	return cmp.Or(cmp.Compare(a.DomainID, b.DomainID), slices.Compare(a.FlowID[:], b.FlowID[:]))
}

// flow decides about one flow.
func (l *Ledger) flow(f *Facts, r *flowRecord, d *surroundingDomain, out *Outcome) FlowStep {
	events := len(out.Events)
	r.host = r.source(d.source)
	r.clocks(f)
	hold := r.holds(f)
	step := FlowStep{Key: r.key, Peer: r.host}
	if r.seen.on != nil && r.seen.on.Inode != 0 {
		step.OnDisk, step.Inode = true, r.seen.on.Inode
	}
	peer := f.Peers[step.Peer]
	step.plan(f, r, d, peer.Up, hold)
	r.kind(step.OnDisk)
	step.MediaType, step.Label, step.Format = r.mediaType, r.label, r.format
	pending := l.missing(f, r, d, &step, out)
	if step.Do == Remove && f.tooSoon(r.refused) {
		step.Do, step.Guard = Leave, ReadersUnknown
	}
	if step.Reason == "" {
		r.blocked = ""
	}
	step.Blocked = r.blocked
	r.full, r.unmade = r.full && !step.OnDisk, r.unmade && !step.OnDisk
	switch {
	case step.Do != Ensure:
	case r.full:
		step.State = FlowNoSpace
	case r.unmade:
		step.State, step.Unmade = FlowAbsent, true
	}
	l.rebuilds(f, r, &step, out)
	l.health(f, r, &step, &peer, hold, !pending, out)
	for i := events; i < len(out.Events); i++ { // rebuilt of this pass goes out with the health fields
		out.Events[i].Health, out.Events[i].StaleAfter, out.Events[i].Memory = step.Health, f.StaleAfter, r.rebuilds
	}
	r.onDisk = step.OnDisk
	return step
}

// source is the host that offers the flow, or was the last to. The marker tells while
// nobody has offered it since this agent started: it follows a function that moves, but
// later, and not where it cannot be written.
func (r *flowRecord) source(marker string) string {
	switch {
	case r.seen.offered:
		return r.seen.offer.Host
	case r.host != "":
		return r.host
	}
	return marker
}

// decider is the source where it is a peer still, else the marker's: a host that is
// none any more says nothing about what it has.
func (r *flowRecord) decider(f *Facts, marker string) string {
	host := r.source(marker)
	if _, known := f.Peers[host]; !known {
		return marker
	}
	return host
}

// clocks follows since when the origin is seen without a writer, and when the
// flow was last wanted. What nobody lists is not seen: it may have a writer.
func (r *flowRecord) clocks(f *Facts) {
	switch {
	case !r.seen.offered || r.seen.offer.Active:
		r.inactive = time.Time{}
	case r.inactive.IsZero():
		r.inactive = f.Now
	}
	if r.seen.demand {
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

func (s *FlowStep) plan(f *Facts, r *flowRecord, d *surroundingDomain, peerUp, hold bool) {
	offer := r.seen.offer
	plan := PlanFlow(FlowFacts{
		Local: d.local, Foreign: d.foreign,
		Excluded: f.Filter.Excludes(s.Key), PeerUp: peerUp, Offered: r.seen.offered,
		Active: offer.Active, OnDisk: s.OnDisk, Demand: r.seen.demand, Hold: hold,
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

func (r *flowRecord) kind(onDisk bool) {
	if !onDisk {
		return
	}
	on := r.seen.on
	r.mediaType, r.label, r.format = on.MediaType, on.Label, "discrete"
	if on.Format.Continuous() {
		r.format = "continuous"
	}
}

// missing runs the clock of a flow whose origin is gone, and tells what it
// changed. It says whether the inventories are still pending.
func (l *Ledger) missing(f *Facts, r *flowRecord, d *surroundingDomain, step *FlowStep, out *Outcome) bool {
	offered := r.seen.offered || f.offered(r.key)
	if !step.OnDisk {
		r.missing = MissingClock{}
		return !offered && !d.settled
	}
	host := r.decider(f, d.source)
	peer := f.Peers[host]
	settled := d.settled && (offered || host == d.source || f.settled(d.id, host))
	facts := MissingFacts{SourceUp: peer.Up && !peer.CountsAsDown, Offered: offered, Settled: settled, IdleGrace: f.IdleGrace}
	var readers ReaderFacts
	if !offered { // else nothing is missing, and nobody's readers matter
		readers = f.Readers.FlowFacts(r.key)
	}
	var v MissingVerdict
	r.missing, v = r.missing.Step(facts, f.around(), readers, f.Now)
	step.Missing = v.Gone
	if v.Started {
		out.add(Event{Kind: EventOriginMissing, Key: r.key, Peer: step.Peer})
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
	busy := r.busy
	r.busy = nil
	if step.Reason == "" {
		r.told = ""
		return
	}
	facts := f.Readers.FlowFacts(step.Key)
	e := Event{Key: step.Key, Peer: step.Peer, Reason: step.Reason, Missing: step.Missing}
	told := ""
	switch {
	case step.Guard == DryRun:
		e.Kind, told = EventFlowWouldRemove, "dry run: "+string(step.Reason)
	case step.Guard == ReadersMapped:
		e.Kind, e.Readers, told = EventFlowKept, facts.Mapped, pidList(facts.Mapped)
	case step.Guard == ReadersUnknown && !f.Readers.At.IsZero() && !f.Readers.Known:
		e.Kind, e.Why, told = EventFlowKept, facts.Why, facts.Why
	case busy != nil:
		e.Kind, e.Readers, e.Why, told = EventFlowKept, busy.Readers, busy.Unknown, busy.told()
	case step.Guard == NoGuard, step.Guard == ReadersUnknown:
		told = r.told // it is tried again, with what the deed finds
	}
	if told != "" && told != r.told {
		out.add(e)
	}
	r.told = told
}

func (l *Ledger) rebuilds(f *Facts, r *flowRecord, step *FlowStep, out *Outcome) {
	var rebuilt *Rebuild
	r.rebuilds, rebuilt = r.rebuilds.Step(step.Inode, f.Now)
	step.Rebuilds = r.rebuilds
	if rebuilt != nil {
		out.add(Event{
			Kind: EventRebuilt, Key: r.key, Peer: step.Peer, Reason: rebuilt.Reason,
			Rebuilds: rebuilt.Count, OldInode: rebuilt.OldInode, Inode: rebuilt.NewInode,
		})
	}
}

func (l *Ledger) health(f *Facts, r *flowRecord, step *FlowStep, peer *PeerFacts, hold, settled bool, out *Outcome) {
	var change HealthChange
	staleSince := r.health.last.StaleSince
	gone := r.rebuilds.Gone()
	switch { // it never was there
	case gone != "":
	case step.State == FlowNoSpace:
		gone = Reason(FlowNoSpace)
	case step.Unmade:
		gone = WriterFailed
	}
	offer := r.seen.offer
	facts := HealthFacts{
		OnDisk: step.OnDisk, Inode: step.Inode, Gone: gone,
		Demand: r.seen.demand, Hold: hold, PeerUp: peer.Up && (offer.Host != "" || !peer.CountsAsDown), LinkUp: peer.LinkUp,
		Offered: offer.Host != "", Settled: settled, OriginActive: offer.Active, OriginLive: offer.Live,
		OriginHead: offer.Head, PolledAt: offer.PolledAt, StaleAfter: f.StaleAfter,
	}
	if r.seen.on != nil {
		facts.Head, facts.Rate = r.seen.on.Head, r.seen.on.Rate
	}
	r.health, step.Health, change = r.health.Step(facts, f.Now, f.TAI)
	e := Event{Key: r.key, Peer: step.Peer, Health: step.Health, StaleAfter: f.StaleAfter}
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
func (l *Ledger) forget(f *Facts, onDisk map[string]bool) {
	kept := slices.DeleteFunc(l.sorted, func(r *flowRecord) bool {
		if r.onDisk || r.seen.offered || r.holds(f) || !r.rebuilds.Forgettable(f.Now) {
			return false
		}
		delete(l.flows, r.key)
		return true
	})
	l.sorted = kept
	maps.DeleteFunc(l.domains, func(id string, _ *domainRecord) bool { _, there := onDisk[id]; return !there })
}
