package agent

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/mxl-stack/mxl-fabrics-agent/fabrics"
	"github.com/mxl-stack/mxl-fabrics-agent/peers"
)

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
		p.sourceSends = ""
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
	case stepDropForWay:
		p.restarts++
		p.deps.log.Warn("replication_restarted", "peer", p.key.Peer, "flow_id", p.key.Flow, "state", p.seen.Load().State,
			"error", "PEERS gives another address or provider")
		p.dropLane()
		p.view.SourceState = ""
		p.sourceSends = ""
		p.retry.reset()
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

func (p *pull) forget() {
	p.retry.reset()
	p.view = pullView{}
	p.replication, p.lastError, p.sourceError = "", "", ""
	p.failed, p.secretOnly = false, false
	p.sourceSends = ""
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
	p.deps.ended(p.key, p.laneID, p.provider, p.continuous, st)
	p.deps.ports.give(p.port)
	p.lane = nil
	p.grains, p.samples = 0, 0
	p.view.HasTarget, p.view.TargetConnected, p.view.TargetFailed, p.view.ConnectionLost = false, false, false, false
	p.view.SourceHoldsRoute = false
	p.view.LastPostAt = time.Time{}
}

// tellSource releases the target at the source. That the source does not answer
// is no error of ours: it sees the connection close.
func (p *pull) tellSource(ctx context.Context, w *pullWish) {
	if p.replication == "" || w.ControlURL == "" {
		return
	}
	var err error
	p.call(ctx, func(ctx context.Context) { err = p.deps.release(ctx, w.ControlURL, p.replication, p.deps.hostID) })
	if err != nil {
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
	place := p.deps.setups.ask(p.key.Peer)
	defer place.leave()
	if w = p.turn(ctx, place, w); w == nil {
		return
	}
	began := p.deps.now()
	lane, provider, err := p.openLane(w)
	if errors.Is(err, fabrics.ErrMirrorLost) && p.unlessAway(err) != nil {
		p.restarts++
		p.loseMirror(w.MirrorGeneration, err)
		return
	}
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
	p.laneID = uuid.NewString()
	p.deps.phase("target_setup", p.deps.now().Sub(began))
	p.lastSetup = ""
	p.failed = false
	p.watched = mirrorWatch{}
	p.view.HasTarget = true
	p.view.SetUpAt = p.deps.now()
	p.view.SetUpBootID = w.BootID
	p.view.SetUpGeneration = w.MirrorGeneration
	p.view.SetUpWay = w.Way
	p.view.OriginMovedAt = time.Time{}
	p.view.LastPostAt = time.Time{}
	p.view.PostDue = true
}

var errMirrorAtWork = errors.New("the mirror is being made anew or removed")

// openLane opens a target on a free port, over the configured provider or, where
// that is allowed, over tcp.
func (p *pull) openLane(w *pullWish) (targetLane, fabrics.Provider, error) {
	// The wish may be from before a deed that has halted this pull, and its writer
	// about to be closed. A deed that begins from here on waits for this set-up.
	if p.deps.usable != nil && !p.deps.usable(p.key.mirror(), w.MirrorGeneration) {
		return nil, "", errMirrorAtWork
	}
	port, err := p.deps.ports.take()
	if err != nil {
		return nil, "", err
	}
	setup := targetSetup{Writer: w.Writer, Flow: p.key.Flow, Provider: w.Provider, Address: w.Address, Port: port,
		Peers: w.From, SecretOnly: p.secretOnly}
	var lane targetLane
	if w.Fallback && p.sourceSends == fabrics.TCP && w.Provider != fabrics.TCP {
		err = fmt.Errorf("%s sends over %s only", p.key.Peer, p.sourceSends)
	} else {
		lane, err = p.deps.open(setup)
	}
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
	req := peers.ReplicationRequest{
		DomainID: p.key.Domain, FlowID: p.key.Flow.String(), DestHostID: p.deps.hostID, DestBootID: p.deps.bootID,
		TargetInfo: p.lane.Info().String(),
	}
	var answer peers.ReplicationAnswer
	var err error
	p.call(ctx, func(ctx context.Context) { answer, err = p.deps.ask(ctx, w.ControlURL, req) })
	if ctx.Err() != nil || p.halted {
		return
	}
	if err != nil {
		if p.seen.Load().Error != err.Error() {
			p.deps.log.Warn("replication_request_failed", "peer", p.key.Peer, "flow_id", p.key.Flow, "error", err)
		}
		p.fail(err)
		if sends := fabrics.Provider(answer.Provider); w.Fallback && sends == fabrics.TCP && p.provider != sends {
			// The source cannot reach this target, and this end may do what it can.
			p.sourceSends = sends
			p.retry.reset()
			p.dropLane()
		}
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
	if answer.TargetSecret && !p.secretOnly {
		p.secretOnly = true
		p.lane.RequireSecret()
	}
	if answer.Error != "" {
		p.lastError = answer.Error
	}
	if answer.State == stateActive {
		p.retry.reset()
	}
	if answer.OriginHead != nil {
		p.view.OriginHeardAt = p.deps.now()
		if !p.view.OriginHeadKnown || *answer.OriginHead != p.view.OriginHead {
			p.view.OriginMovedAt = p.view.OriginHeardAt
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
		v.Stats, v.HasLane, v.LaneKey, v.Continuous = p.lane.Stats(), true, p.laneID, p.continuous
		v.Grains += v.Stats.Grains
		v.Bytes += v.Stats.Bytes
		v.Errors += v.Stats.Errors
	}
	v.State = destinationState(w.pullFacts, p.view, p.failed, p.everGrain)
	v.Error = p.lastError
	if v.Error == "" && sourceGone(w.pullFacts, p.view) {
		v.Error = errSourceGone
	}
	switch v.State {
	case stateLinkDown:
		if !w.LinkUp {
			v.Error = w.LinkReason
		}
	case stateActive, statePending:
		v.Error = ""
	}
	// A source that does not answer says nothing of its head.
	v.OriginSilent = p.view.OriginHeadKnown && p.view.OriginHeardAt.Sub(maxTime(p.view.OriginMovedAt, p.view.LastGrainAt)) > lagQuietAfter
	p.seen.Store(v)
}

func maxTime(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
