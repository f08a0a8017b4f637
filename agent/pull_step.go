package agent

import (
	"time"
)

// Timers of a destination's pull. The contract's public description gives the
// back-off and rebuild figures (agent API reference §16.2); the repeat
// intervals of the handshake are ours.
const (
	backoffFirst = 250 * time.Millisecond
	backoffMax   = 30 * time.Second

	// rebuildAfter is how long a target may go without a new grain although
	// there is a reason to expect one; rebuildAfterError holds when the source
	// itself reports an error. Both double with each rebuild in a row, three
	// times at most.
	rebuildAfter      = 5 * time.Second
	rebuildAfterError = 1 * time.Second
	rebuildDoublings  = 3

	// originMovedMargin: an origin head reported later than this after the last
	// grain, and higher, means that the origin moved and the mirror did not.
	originMovedMargin = 1 * time.Second

	// repeatPending and repeatActive are the intervals of the idempotent POST
	// while grains do not, or do, arrive. The POST is also the source's lease.
	repeatPending = 200 * time.Millisecond
	repeatActive  = 2 * time.Second
)

// Replication states, as /api/v1/replications shows them (agent API reference
// §16.1).
const (
	statePending  = "pending"
	stateActive   = "active"
	stateError    = "error"
	stateLinkDown = "link_down"
	stateIdle     = "idle"
)

// backoff is a doubling wait: 250 ms doubled before its first use (so the first
// wait is 500 ms), 30 s at most.
type backoff struct {
	wait time.Duration
	next time.Time
}

func (b *backoff) failed(now time.Time) {
	if b.wait == 0 {
		b.wait = backoffFirst
	}
	b.wait = min(2*b.wait, backoffMax)
	b.next = now.Add(b.wait)
}

func (b *backoff) reset()                   { *b = backoff{} }
func (b *backoff) ready(now time.Time) bool { return !now.Before(b.next) }

// pullFacts is what the reconcile loop tells a pull about the world.
type pullFacts struct {
	Wanted     bool
	PeerUp     bool
	BootID     string // the peer's present boot id, empty while unknown
	LinkUp     bool
	LinkReason string
	// Way to the peer by the settings: another one takes a running target to the
	// other address or provider, and to another list of who may connect.
	Way way
	// OriginActive: the peer's inventory says that a writer holds the origin.
	OriginActive bool
	// MirrorReady: the mirror flow is on disk and its writer is open.
	MirrorReady bool
	// MirrorGeneration changes when the mirror's writer is another one (the flow
	// was rebuilt): a target on the old one must go.
	MirrorGeneration uint64
}

// pullView is what a pull knows of itself when it decides.
type pullView struct {
	HasTarget       bool
	TargetFailed    bool // the destination lane ended with an error
	TargetConnected bool
	// ConnectionLost: the source's connection to the target ended, and there is none since.
	ConnectionLost   bool
	SetUpAt          time.Time
	SetUpBootID      string
	SetUpGeneration  uint64
	SetUpWay         way
	LinkDownHandled  bool
	LastGrainAt      time.Time // zero before the first
	LastPostAt       time.Time // zero before the first
	PostDue          bool      // something happened that the source should hear at once
	SourceState      string
	OriginHead       uint64
	OriginHeadKnown  bool
	OriginMovedAt    time.Time // when OriginHead last changed
	OriginHeardAt    time.Time // when the source last told it
	RebuildsInARow   int
	RetryReady       bool // the back-off is over
	SourceHoldsRoute bool // a POST was accepted since the target was set up
	// MirrorLost: the writer of LostGeneration has not the mirror's files mapped any more.
	MirrorLost     bool
	LostGeneration uint64
}

type pullStep int

const (
	stepWait pullStep = iota
	stepRelease
	stepDropForLink
	stepDropForRestart
	stepDropForMirror
	stepDropForWay
	stepRebuild
	stepSetUp
	stepPost
)

func (s pullStep) String() string {
	return [...]string{"wait", "release", "drop_for_link", "drop_for_restart", "drop_for_mirror", "drop_for_way", "rebuild", "set_up", "post"}[s]
}

// nextPullStep decides the one next thing a pull does. The order is that of the
// agent API reference §16.3.
func nextPullStep(f pullFacts, v pullView, now time.Time) pullStep {
	if !f.Wanted {
		return stepRelease
	}
	if v.MirrorLost && v.LostGeneration == f.MirrorGeneration {
		f.MirrorReady = false
	}
	if v.HasTarget && v.SetUpBootID != "" && f.BootID != "" && v.SetUpBootID != f.BootID {
		return stepDropForRestart
	}
	if v.HasTarget && (!f.MirrorReady || v.SetUpGeneration != f.MirrorGeneration) {
		return stepDropForMirror
	}
	if !f.LinkUp {
		if v.LinkDownHandled {
			return stepWait
		}
		return stepDropForLink
	}
	if v.HasTarget && v.SetUpWay != f.Way {
		return stepDropForWay
	}
	if !v.RetryReady || !f.MirrorReady {
		return stepWait
	}
	if v.HasTarget && rebuildDue(f, v, now) {
		return stepRebuild
	}
	if !f.PeerUp {
		// The control plane is gone. What flows goes on flowing; nothing new is
		// asked of a peer that does not answer.
		return stepWait
	}
	if !v.HasTarget {
		return stepSetUp
	}
	if v.PostDue || v.LastPostAt.IsZero() || now.Sub(v.LastPostAt) >= postInterval(v, now) {
		return stepPost
	}
	return stepWait
}

func postInterval(v pullView, now time.Time) time.Duration {
	flowing := v.TargetConnected && v.SourceState == stateActive && !v.LastGrainAt.IsZero() && now.Sub(v.LastGrainAt) < originMovedMargin
	if flowing {
		return repeatActive
	}
	// A quiet origin is no reason to hammer its host: slow down once the
	// connection stands and the source is content.
	if v.TargetConnected && v.SourceState == stateActive {
		return repeatActive / 2
	}
	return repeatPending
}

// rebuildDue says whether a target that gives no grains is set up anew.
func rebuildDue(f pullFacts, v pullView, now time.Time) bool {
	reference := v.SetUpAt
	if v.LastGrainAt.After(reference) {
		reference = v.LastGrainAt
	}
	wait := rebuildAfter
	if v.SourceState == stateError {
		wait = rebuildAfterError
	}
	wait <<= min(v.RebuildsInARow, rebuildDoublings)
	if v.ConnectionLost && v.RebuildsInARow == 0 && !v.PostDue && (v.TargetFailed || v.SourceState == stateError || v.SourceState == stateIdle) {
		// The source was asked since, and has not only let go of its origin for a while
		// (pending): a connection that was lost gets a new target at once.
		return true
	}
	if now.Sub(reference) < wait {
		return false
	}
	if v.TargetFailed || v.SourceState == stateError {
		return true
	}
	return originMoved(f, v, reference)
}

// originMoved says whether the origin has gone on while the mirror has not. A
// source that reports no head is judged by whether a writer holds the flow.
func originMoved(f pullFacts, v pullView, reference time.Time) bool {
	if !v.OriginHeadKnown {
		return f.OriginActive && f.PeerUp
	}
	return !v.OriginMovedAt.IsZero() && v.OriginMovedAt.Sub(reference) > originMovedMargin
}

// errSourceGone is the last error of a row whose source broke off and is down.
const errSourceGone = "the connection to the source is lost, and the source does not answer"

// sourceGone says that nobody sends and nobody can be asked to: what the source said
// last is not so any more.
func sourceGone(f pullFacts, v pullView) bool { return v.ConnectionLost && !f.PeerUp }

// destinationState is the state a destination row shows.
func destinationState(f pullFacts, v pullView, failed bool, everGrain bool) string {
	switch {
	case !f.LinkUp:
		return stateLinkDown
	case v.TargetFailed || failed || sourceGone(f, v):
		return stateError
	case v.SourceState == stateLinkDown || v.SourceState == stateError:
		return v.SourceState
	case v.SourceState == stateActive && everGrain:
		return stateActive
	default:
		return statePending
	}
}
