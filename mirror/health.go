package mirror

import (
	"time"

	"github.com/mxl-stack/mxl-fabrics-agent/mxl"
)

// HealthState says whether a mirror flow carries its source (contract, "Mirror health").
type HealthState string

// Health states.
const (
	HealthLive    HealthState = "live"
	HealthPending HealthState = "pending"
	HealthStale   HealthState = "stale"
	HealthIdle    HealthState = "idle"
	HealthAbsent  HealthState = "absent"
)

// Reasons of the states stale and idle. An absent flow has the Reason of its removal.
const (
	NoNewGrains      = "no_new_grains"
	NoFirstGrain     = "no_first_grain"
	PeerIsDown       = "peer_down"
	LinkIsDown       = "link_down"
	NobodyWants      = "no_demand"
	OriginInactive   = "origin_inactive"
	OriginNotLive    = "origin_not_live"
	OriginIsMissing  = "origin_missing"
	InventoryPending = "inventory_pending"
	OriginSilent     = "origin_silent"
)

// silentWhenNeverStale is the time after which an origin whose head does not
// move is silent when MIRROR_STALE_MS is 0: its default value.
const silentWhenNeverStale = 2 * time.Second

// HealthFacts is what the health of one mirror flow depends on.
type HealthFacts struct {
	OnDisk bool
	Inode  uint64       // of the mirror's data file
	Head   uint64       // of the mirror; 0 or mxl.UndefinedIndex: no grain yet
	Rate   mxl.Rational // of the mirror
	Gone   Reason       // why it is not on disk

	Demand bool // a receiver here wants it
	Hold   bool // a replication is held
	PeerUp bool // source peer's control plane
	LinkUp bool // fabric link to it

	Offered      bool      // an up peer lists the flow
	Settled      bool      // the deciding inventories are settled
	OriginActive bool      // a writer holds the origin
	OriginLive   bool      // active, head within 5 s of its TAI
	OriginHead   *uint64   // nil: the source does not say
	PolledAt     time.Time // when the inventory that says so was taken

	StaleAfter time.Duration // MIRROR_STALE_MS; 0: never
}

// Health is the judgement of one pass.
type Health struct {
	State      HealthState
	Reason     string
	GrainAge   time.Duration // age of the newest grain; only with HasGrain
	HasGrain   bool
	StaleSince time.Time // zero unless stale
}

// HealthMemory is what one judgement needs of those before. It is a value:
// Step gives the next one.
type HealthMemory struct {
	last       Health
	inode      uint64
	due        bool
	dueSince   time.Time
	originHead uint64
	headSeen   bool
	headMoved  time.Time // poll in which the origin's head was another one than before
	headPolled time.Time // last poll that gave a head
	head       uint64    // of the mirror
	advanced   time.Time // when the mirror's head was last another one than before
}

// HealthChange is what a step changed that others want to hear about.
type HealthChange int

// Changes of health.
const (
	NoChange HealthChange = iota
	BecameStale
	Recovered // stale no longer; live is a real recovery
)

// Step judges a mirror flow at now, with tai the TAI time in nanoseconds of
// the same moment.
func (m HealthMemory) Step(f HealthFacts, now time.Time, tai uint64) (HealthMemory, Health, HealthChange) {
	m = m.observe(f, now)
	h := m.judge(f, now, tai)
	change := NoChange
	wasStale := m.last.State == HealthStale
	switch {
	case h.State == HealthStale && wasStale:
		h.StaleSince = m.last.StaleSince
	case h.State == HealthStale:
		h.StaleSince = now
		change = BecameStale
	case wasStale:
		change = Recovered
	}
	m.last = h
	return m, h, change
}

// observe follows the clocks: since when grains are due, and when the origin's
// head last moved.
func (m HealthMemory) observe(f HealthFacts, now time.Time) HealthMemory {
	due := f.OnDisk && f.due()
	if !due || !m.due || f.Inode != m.inode {
		m.dueSince = now
	}
	if f.Head != m.head {
		m.head, m.advanced = f.Head, now
	}
	m.due, m.inode = due, f.Inode
	if f.OriginHead != nil && f.PolledAt.After(m.headPolled) {
		if !m.headSeen || *f.OriginHead != m.originHead {
			m.headMoved = f.PolledAt
		}
		m.originHead, m.headSeen, m.headPolled = *f.OriginHead, true, f.PolledAt
	}
	if f.OriginHead == nil {
		m.headSeen = false
	}
	return m
}

// due says whether grains are due: the flow is wanted and its origin is live.
// While the peer or its link is down the receiver alone keeps them due.
func (f HealthFacts) due() bool {
	if !f.PeerUp || !f.LinkUp {
		return f.Demand
	}
	return (f.Demand || f.Hold) && f.Offered && f.OriginLive
}

func (m HealthMemory) judge(f HealthFacts, now time.Time, tai uint64) Health {
	if !f.OnDisk {
		return Health{State: HealthAbsent, Reason: string(f.Gone)}
	}
	h := Health{HasGrain: f.Head != 0 && f.Head != mxl.UndefinedIndex}
	if h.HasGrain {
		h.GrainAge = grainAge(f.Rate, f.Head, tai)
	}
	limit := f.StaleAfter
	if limit == 0 {
		limit = silentWhenNeverStale
	}
	switch {
	case !m.due:
		h.State, h.Reason = HealthIdle, m.idleReason(f, limit)
	case h.HasGrain && h.GrainAge < limit:
		h.State = HealthLive
	case m.silent(f, limit) && f.PeerUp && f.LinkUp && f.Head >= *f.OriginHead:
		h.State, h.Reason = HealthIdle, OriginSilent
	case now.Sub(m.dueSince) < limit || f.StaleAfter == 0:
		h.State = HealthPending
	case !f.LinkUp:
		h.State, h.Reason = HealthStale, LinkIsDown
	case !f.PeerUp:
		h.State, h.Reason = HealthStale, PeerIsDown
	case f.originHasNewer():
		h.State, h.Reason = HealthStale, staleReason(h.HasGrain)
	case m.last.State == HealthStale && now.Sub(m.advanced) >= limit:
		// Caught up with the last poll, and that is all that is known: the next
		// grain or the next poll decides.
		h.State, h.Reason = HealthStale, m.last.Reason
	default:
		// In step with what the origin had at the last poll. Not late by the
		// origin's own head, only by this host's clock or until the next poll.
		h.State = HealthLive
		if !h.HasGrain {
			h.State = HealthPending
		}
	}
	return h
}

// originHasNewer says whether the origin has grains the mirror does not have.
// A source that gives no head index has only its live flag, which due() has
// already looked at.
func (f HealthFacts) originHasNewer() bool {
	if f.OriginHead == nil {
		return true
	}
	if f.Head == mxl.UndefinedIndex {
		return *f.OriginHead != 0
	}
	return *f.OriginHead != mxl.UndefinedIndex && *f.OriginHead > f.Head
}

// silent says whether the polls show an origin head that has not moved for the
// limit. One poll alone shows nothing.
func (m HealthMemory) silent(f HealthFacts, limit time.Duration) bool {
	return m.headSeen && f.OriginHead != nil && m.headPolled.Sub(m.headMoved) >= limit
}

// idleReason says why no grain is due. The facts about the source come before
// those about demand: an unwanted flow whose origin is missing shows
// origin_missing (contract, "Single mirror flows").
func (m HealthMemory) idleReason(f HealthFacts, limit time.Duration) string {
	switch {
	case !f.PeerUp:
		return PeerIsDown
	case !f.Offered && !f.Settled:
		return InventoryPending
	case !f.Offered:
		return OriginIsMissing
	case !f.OriginActive:
		return OriginInactive
	case !f.Demand && !f.Hold:
		return NobodyWants
	case m.silent(f, limit):
		return OriginSilent
	}
	return OriginNotLive
}

func staleReason(hasGrain bool) string {
	if hasGrain {
		return NoNewGrains
	}
	return NoFirstGrain
}

// grainAge is the mirror's head against the current index, in time at the
// flow's rate; a head that is ahead has no age.
func grainAge(rate mxl.Rational, head, tai uint64) time.Duration {
	index := rate.IndexAt(tai)
	if index == mxl.UndefinedIndex || index <= head {
		return 0
	}
	// Through TimeOf on both sides, so that the age of a whole number of
	// periods is exact at 60000/1001 too.
	age := rate.TimeOf(index) - rate.TimeOf(head)
	return time.Duration(min(age, uint64(1<<63-1)))
}
