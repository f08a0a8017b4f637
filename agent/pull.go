package agent

import (
	"context"
	"log/slog"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"github.com/mxl-stack/mxl-fabrics-agent/fabrics"
	"github.com/mxl-stack/mxl-fabrics-agent/mirror"
	"github.com/mxl-stack/mxl-fabrics-agent/mxl"
	"github.com/mxl-stack/mxl-fabrics-agent/peers"
)

// pullKey names one flow that this host gets from one peer.
type pullKey struct {
	Peer, Domain string
	Flow         uuid.UUID
}

func (k pullKey) String() string { return k.Peer + "/" + k.Domain + "/" + k.Flow.String() }

func (k pullKey) mirror() mirror.Key { return mirror.Key{DomainID: k.Domain, FlowID: k.Flow} }

// targetLane is what a pull needs of a fabrics.Target.
type targetLane interface {
	Info() fabrics.TargetInfo
	Stats() fabrics.TargetStats
	RequireSecret()
	CheckMirror() error
	CheckMirrorFile() error
	Close() error
}

// targetSetup is what a target is opened with.
type targetSetup struct {
	Writer   mirrorWriter
	Flow     uuid.UUID
	Provider fabrics.Provider
	Address  string
	Port     int
	// Peers and SecretOnly say who may connect, see fabrics.TargetConfig.
	Peers      []netip.Addr
	SecretOnly bool
}

// mirrorWriter is the held writer of a mirror flow; one of the two is set.
type mirrorWriter struct {
	Discrete   *mxl.DiscreteWriter
	Continuous *mxl.ContinuousWriter
}

// pullWish is what the reconcile loop wants of a pull: the facts it decides by
// and what it needs to act.
type pullWish struct {
	pullFacts
	ControlURL string
	Provider   fabrics.Provider
	Fallback   bool         // tcp may stand in for Provider
	Address    string       // numeric local fabric address
	From       []netip.Addr // what the peer may connect from; empty when not known
	Writer     mirrorWriter
}

// pullDeps are the deeds of a pull.
type pullDeps struct {
	hostID  string
	bootID  string
	open    func(targetSetup) (targetLane, error)
	ask     func(ctx context.Context, controlURL string, req peers.ReplicationRequest) (peers.ReplicationAnswer, error)
	release func(ctx context.Context, controlURL, id, dest string) error
	// usable says whether the writer of a mirror flow, by its generation, is the open
	// one and no deed is at work on it. Nil: always.
	usable func(k mirror.Key, generation uint64) bool
	// lost hears that the writer of a mirror flow, by its generation, is of no use any more.
	lost func(k mirror.Key, generation uint64, cause error)
	// away says whether the path of the MXL root leads elsewhere than to the mirrors.
	// Nil: never.
	away  func() bool
	ports *portPool
	// setups bounds how many targets are set up at once, so that a start with
	// fifty flows does not exhaust the host.
	setups *places
	// ended gets the last counts of a target that has gone.
	ended func(key pullKey, lane string, provider fabrics.Provider, continuous bool, st fabrics.TargetStats)
	// phase counts how long a phase of the set-up took: target_setup, handshake,
	// first_grain.
	phase func(phase string, took time.Duration)
	now   func() time.Time
	log   *slog.Logger
}

// pull keeps one flow coming from one peer: it owns the destination target and
// the handshake with the source. Its own goroutine does everything that may
// block; the loop leaves wishes and reads views.
type pull struct {
	key  pullKey
	deps pullDeps
	wish atomic.Pointer[pullWish]
	wake chan struct{}
	done chan struct{}
	seen atomic.Pointer[destinationView]
	// halts asks that the target be closed now, and waits for it: the loop does
	// that before it touches the mirror's files.
	halts chan chan struct{}

	// Everything below belongs to the goroutine.
	lane        targetLane
	laneID      string // of lane, among all there have been in this process
	continuous  bool
	port        int
	provider    fabrics.Provider
	fallback    bool
	view        pullView
	retry       backoff
	watched     mirrorWatch // of the present lane
	lastError   string
	lastSetup   string // the set-up failure last logged
	failed      bool   // the last deed failed
	halted      bool   // in the middle of a step, which was broken off
	grains      uint64 // of the present lane
	counted     laneCounts
	errors      uint64
	restarts    uint64
	replication string // id the source gave
	sourceError string
	sourceSends fabrics.Provider // what the source sends over where it is not the wanted one
	secretOnly  bool             // the source has said that it connects with the target's secret
	everGrain   bool
	head        uint64
	batch       uint64
	samples     uint64
}

// laneCounts sums what earlier lanes of this pull counted.
type laneCounts struct{ grains, bytes, errors uint64 }

// destinationView is a pull as the API, the lag and the health see it.
type destinationView struct {
	Key          pullKey
	State, Error string
	Provider     fabrics.Provider
	Fallback     bool
	Grains       uint64
	Bytes        uint64
	Errors       uint64
	Restarts     uint64
	Head         uint64
	HasHead      bool
	BatchSamples uint64
	HeadMovedAt  time.Time
	OriginSilent bool
	Stats        fabrics.TargetStats
	HasLane      bool
	LaneKey      string
	Continuous   bool

	lane targetLane // for its head at the moment of a question; nil without one
}

// headNow is the mirror's head at this moment, not that of the last pass.
func (v *destinationView) headNow() uint64 {
	if v.lane != nil {
		if head := v.lane.Stats().Head; head != mxl.UndefinedIndex {
			return head
		}
	}
	return v.Head
}

func newPull(key pullKey, deps pullDeps) *pull {
	p := &pull{key: key, deps: deps, wake: make(chan struct{}, 1), done: make(chan struct{}), halts: make(chan chan struct{})}
	p.wish.Store(&pullWish{})
	p.seen.Store(&destinationView{Key: key, State: statePending})
	return p
}

// want leaves a new wish and wakes the goroutine.
func (p *pull) want(w pullWish) {
	p.wish.Store(&w)
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// halt closes the target and waits until nothing of it touches the mirror's
// files. The next wish sets a target up again.
func (p *pull) halt() {
	reply := make(chan struct{})
	select {
	case p.halts <- reply:
		<-reply
	case <-p.done:
	}
}

// over says whether the goroutine has ended.
func (p *pull) over() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// run is the pull's goroutine. It ends when the flow is no longer wanted or ctx
// is done; in the second case the source is not told, it sees the connection
// close (agent API reference §16.12).
func (p *pull) run(ctx context.Context) {
	defer close(p.done)
	defer p.dropLane()
	for {
		select {
		case <-ctx.Done():
			return
		case reply := <-p.halts:
			p.letGo(reply)
			continue
		case <-p.wake:
		}
		if p.steps(ctx) {
			return
		}
	}
}

// steps does what is due and says whether the pull is over.
func (p *pull) steps(ctx context.Context) bool {
	// A pass does a handful of steps at most (drop, set up, post); more would
	// mean that a step does not change what it was chosen for.
	for range 4 {
		p.observe()
		w := p.wish.Load()
		p.view.RetryReady = p.retry.ready(p.deps.now())
		step := nextPullStep(w.pullFacts, p.view, p.deps.now())
		if step == stepWait {
			break
		}
		if p.act(ctx, w, step) {
			return true
		}
		if ctx.Err() != nil {
			return true
		}
		if p.halted { // the next wish knows what becomes of the mirror
			p.halted = false
			break
		}
	}
	p.observe()
	p.publish()
	return false
}

// observe takes over what the lane has counted.
func (p *pull) observe() {
	now := p.deps.now()
	w := p.wish.Load()
	if w.LinkUp {
		p.view.LinkDownHandled = false
	}
	if p.lane == nil {
		p.view.HasTarget, p.view.TargetFailed, p.view.TargetConnected = false, false, false
		return
	}
	st := p.lane.Stats()
	wasConnected := p.view.TargetConnected
	p.view.HasTarget = true
	p.view.TargetFailed = st.State == fabrics.StateError
	p.view.TargetConnected = st.Connected
	switch {
	case st.Connected:
		p.view.ConnectionLost = false
	case wasConnected:
		// The source has let go or died: ask it at once.
		p.view.PostDue, p.view.ConnectionLost = true, true
	}
	if st.Grains != p.grains {
		if n := st.Grains - p.grains; st.Samples > p.samples && n > 0 {
			p.batch = max(1, (st.Samples-p.samples)/n)
		}
		if p.grains == 0 {
			p.deps.phase("first_grain", now.Sub(p.view.SetUpAt))
		}
		p.grains, p.samples, p.head = st.Grains, st.Samples, st.Head
		p.view.LastGrainAt = now
		p.view.RebuildsInARow = 0
		p.everGrain = true
		p.failed = false
		p.retry.reset()
	}
	if p.view.TargetFailed && st.LastError != "" {
		p.lastError = st.LastError
	}
	p.watchMirror(st, now)
}
