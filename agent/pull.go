package agent

import (
	"context"
	"errors"
	"log/slog"
	"strconv"
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
	Close() error
}

// targetSetup is what a target is opened with.
type targetSetup struct {
	Writer   mirrorWriter
	Flow     uuid.UUID
	Provider fabrics.Provider
	Address  string
	Port     int
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
	Fallback   bool   // tcp may stand in for Provider
	Address    string // numeric local fabric address
	Writer     mirrorWriter
}

// pullDeps are the deeds of a pull.
type pullDeps struct {
	hostID  string
	bootID  string
	open    func(targetSetup) (targetLane, error)
	ask     func(ctx context.Context, controlURL string, req peers.ReplicationRequest) (peers.ReplicationAnswer, error)
	release func(ctx context.Context, controlURL, id, dest string) error
	ports   *portPool
	// setups bounds how many targets are set up at once, so that a start with
	// fifty flows does not exhaust the host.
	setups chan struct{}
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
	lanes       uint64 // how many there have been
	continuous  bool
	port        int
	provider    fabrics.Provider
	fallback    bool
	view        pullView
	retry       backoff
	lastError   string
	lastSetup   string // the set-up failure last logged
	failed      bool   // the last deed failed
	grains      uint64 // of the present lane
	counted     laneCounts
	errors      uint64
	restarts    uint64
	replication string // id the source gave
	sourceError string
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
			p.dropLane()
			p.publish()
			close(reply)
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
	if wasConnected && !st.Connected {
		// The source has let go or died: say so at once what is wanted.
		p.view.PostDue = true
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
}

// act does one step and says whether the pull is over.
func (p *pull) act(ctx context.Context, w *pullWish, step pullStep) bool {
	switch step {
	case stepRelease:
		p.dropLane()
		p.tellSource(ctx, w)
		p.deps.log.Info("replication_released", "peer", p.key.Peer, "replication_id", p.replication, "flow_id", p.key.Flow)
		return true
	case stepDropForLink:
		p.dropLane()
		p.tellSource(ctx, w)
		p.view.LinkDownHandled = true
		p.retry.reset()
	case stepDropForRestart:
		p.deps.log.Info("peer_restarted", "peer", p.key.Peer, "flow_id", p.key.Flow)
		p.dropLane()
		p.tellSource(ctx, w)
		p.forget()
		p.restarts = 1
	case stepDropForMirror:
		p.dropLane()
		p.view.SourceState = ""
	case stepRebuild:
		p.view.RebuildsInARow++
		p.restarts++
		p.deps.log.Warn("replication_restarted", "peer", p.key.Peer, "flow_id", p.key.Flow, "state", p.seen.Load().State, "error", p.lastError)
		p.dropLane()
		p.view.SourceState = ""
	case stepSetUp:
		p.setUp(ctx, w)
	case stepPost:
		p.post(ctx, w)
	}
	return false
}

// laneKey names the present lane among all there have been.
func (p *pull) laneKey() string { return p.key.String() + "#" + strconv.FormatUint(p.lanes, 10) }

func (p *pull) forget() {
	p.retry.reset()
	p.view = pullView{}
	p.replication, p.lastError, p.sourceError = "", "", ""
	p.failed = false
}

// dropLane closes the target; what it counted stays in the pull's sums.
func (p *pull) dropLane() {
	if p.lane == nil {
		return
	}
	if err := p.lane.Close(); err != nil {
		p.deps.log.Warn("target_close_failed", "flow_id", p.key.Flow, "peer", p.key.Peer, "error", err)
	}
	st := p.lane.Stats()
	p.counted.grains += st.Grains
	p.counted.bytes += st.Bytes
	p.counted.errors += st.Errors
	p.deps.ended(p.key, p.laneKey(), p.provider, p.continuous, st)
	p.deps.ports.give(p.port)
	p.lane = nil
	p.grains, p.samples = 0, 0
	p.view.HasTarget, p.view.TargetConnected, p.view.TargetFailed = false, false, false
	p.view.SourceHoldsRoute = false
	p.view.LastPostAt = time.Time{}
}

// tellSource releases the target at the source. That the source does not answer
// is no error of ours: it sees the connection close.
func (p *pull) tellSource(ctx context.Context, w *pullWish) {
	if p.replication == "" || w.ControlURL == "" {
		return
	}
	if err := p.deps.release(ctx, w.ControlURL, p.replication, p.deps.hostID); err != nil {
		p.deps.log.Debug("release_not_heard", "peer", p.key.Peer, "replication_id", p.replication, "error", err)
	}
}

func (p *pull) fail(err error) {
	p.errors++
	p.failed = true
	p.lastError = err.Error()
	p.retry.failed(p.deps.now())
}

func (p *pull) setUp(ctx context.Context, w *pullWish) {
	select {
	case p.deps.setups <- struct{}{}:
		defer func() { <-p.deps.setups }()
	case <-ctx.Done():
		return
	}
	began := p.deps.now()
	lane, provider, err := p.openLane(w)
	if err != nil {
		if p.lastSetup != err.Error() {
			p.lastSetup = err.Error()
			p.deps.log.Warn("target_setup_failed", "flow_id", p.key.Flow, "peer", p.key.Peer, "error", err)
		}
		p.restarts++
		p.fail(err)
		return
	}
	p.lane, p.provider, p.fallback = lane, provider, provider != w.Provider
	p.continuous = w.Writer.Continuous != nil
	p.lanes++
	p.deps.phase("target_setup", p.deps.now().Sub(began))
	p.lastSetup = ""
	p.failed = false
	p.view.HasTarget = true
	p.view.SetUpAt = p.deps.now()
	p.view.SetUpBootID = w.BootID
	p.view.SetUpGeneration = w.MirrorGeneration
	p.view.OriginMovedAt = time.Time{}
	p.view.LastPostAt = time.Time{}
	p.view.PostDue = true
}

// openLane opens a target on a free port, over the configured provider or, where
// that is allowed, over tcp.
func (p *pull) openLane(w *pullWish) (targetLane, fabrics.Provider, error) {
	port, err := p.deps.ports.take()
	if err != nil {
		return nil, "", err
	}
	setup := targetSetup{Writer: w.Writer, Flow: p.key.Flow, Provider: w.Provider, Address: w.Address, Port: port}
	lane, err := p.deps.open(setup)
	if err != nil && w.Fallback && w.Provider != fabrics.TCP {
		first := err
		setup.Provider = fabrics.TCP
		if lane, err = p.deps.open(setup); err == nil {
			if !p.fallback {
				p.deps.log.Warn("provider_fallback", "from", w.Provider, "to", fabrics.TCP, "flow_id", p.key.Flow, "role", "destination", "error", first)
			}
		} else {
			err = errors.Join(first, err)
		}
	}
	if err != nil {
		p.deps.ports.give(port)
		return nil, "", err
	}
	p.port = port
	return lane, setup.Provider, nil
}

func (p *pull) post(ctx context.Context, w *pullWish) {
	now := p.deps.now()
	p.view.LastPostAt = now
	p.view.PostDue = false
	if w.ControlURL == "" {
		p.fail(errors.New("peer has no control url"))
		return
	}
	answer, err := p.deps.ask(ctx, w.ControlURL, peers.ReplicationRequest{
		DomainID: p.key.Domain, FlowID: p.key.Flow.String(), DestHostID: p.deps.hostID, DestBootID: p.deps.bootID,
		TargetInfo: p.lane.Info().String(),
	})
	if ctx.Err() != nil {
		return
	}
	if err != nil {
		if p.seen.Load().Error != err.Error() {
			p.deps.log.Warn("replication_request_failed", "peer", p.key.Peer, "flow_id", p.key.Flow, "error", err)
		}
		p.fail(err)
		return
	}
	if !p.view.SourceHoldsRoute {
		p.deps.phase("handshake", p.deps.now().Sub(now))
	}
	p.failed = false
	p.replication = answer.ReplicationID
	p.view.SourceHoldsRoute = true
	p.view.SourceState = answer.State
	p.sourceError = answer.Error
	if answer.Error != "" {
		p.lastError = answer.Error
	}
	if answer.State == stateActive {
		p.retry.reset()
	}
	if answer.OriginHead != nil {
		if !p.view.OriginHeadKnown || *answer.OriginHead != p.view.OriginHead {
			p.view.OriginMovedAt = p.deps.now()
		}
		p.view.OriginHead, p.view.OriginHeadKnown = *answer.OriginHead, true
	} else {
		p.view.OriginHeadKnown = false
	}
}

// publish leaves the view for the API and the loop.
func (p *pull) publish() {
	w := p.wish.Load()
	v := &destinationView{
		Key: p.key, Provider: p.provider, Fallback: p.fallback, Restarts: p.restarts,
		Grains: p.counted.grains, Bytes: p.counted.bytes, Errors: p.counted.errors + p.errors,
		Head: p.head, HasHead: p.everGrain, BatchSamples: p.batch, HeadMovedAt: p.view.LastGrainAt,
	}
	if v.Provider == "" {
		v.Provider = w.Provider
	}
	if p.lane != nil {
		v.lane = p.lane
		v.Stats, v.HasLane, v.LaneKey, v.Continuous = p.lane.Stats(), true, p.laneKey(), p.continuous
		v.Grains += v.Stats.Grains
		v.Bytes += v.Stats.Bytes
		v.Errors += v.Stats.Errors
	}
	v.State = destinationState(w.pullFacts, p.view, p.failed, p.everGrain)
	v.Error = p.lastError
	switch v.State {
	case stateLinkDown:
		if !w.LinkUp {
			v.Error = w.LinkReason
		}
	case stateActive, statePending:
		v.Error = ""
	}
	v.OriginSilent = p.view.OriginHeadKnown && p.deps.now().Sub(maxTime(p.view.OriginMovedAt, p.view.LastGrainAt)) > lagQuietAfter
	p.seen.Store(v)
}

func maxTime(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
