package fabrics

import (
	"errors"
	"fmt"
	"net/netip"

	"github.com/mxl-stack/mxl-fabrics-agent/fabrics/ofi"
	"github.com/mxl-stack/mxl-fabrics-agent/mxl"
)

type connectionState int

const (
	connectionNone connectionState = iota
	connectionAccepting
	connectionUp
)

// targetConnection is the one initiator a target has.
type targetConnection struct {
	state    connectionState
	endpoint *ofi.Endpoint
	transmit *ofi.CompletionQueue // nil where both directions share one queue
	receive  *ofi.CompletionQueue
	deadline int64 // of the handshake
	native   bool
	instance uint64 // of a native initiator
	rounds   bool   // its immediates carry them

	head   uint64 // last index committed from it
	slices int
	whole  bool // head was counted as a grain
}

// connectionRequest is an initiator that wants to connect.
type connectionRequest struct {
	info     *ofi.Info
	from     netip.Addr // invalid when the provider does not say
	native   bool
	instance uint64
	rounds   bool
	secret   secret
}

// handle deals with one event of the event queue.
func (l *targetLane) handle(e *ofi.Event) {
	c := &l.connection
	switch {
	case e.Kind == ofi.EventRequest:
		if e.Request == nil {
			return
		}
		r := &connectionRequest{info: e.Request}
		var s signature
		if s, r.native = readSignature(e.Data); r.native {
			r.instance, r.rounds, r.secret = s.instance, s.rounds, s.secret
		}
		if ap, err := decodeSockaddr(e.Request.Peer()); err == nil {
			r.from = ap.Addr()
		}
		if l.admits(r) {
			l.requested(r)
		}
	case !e.Of(c.endpoint):
		// An endpoint that is closed already.
	case e.Kind == ofi.EventConnected:
		l.established()
	case e.Kind == ofi.EventShutdown:
		// What finished before the shutdown is still in the completion queue.
		l.drain()
		if fault := ofi.Fault(); fault != nil {
			l.lose(fmt.Errorf("connection ended: %w", fault))
			return
		}
		l.disconnect("connection shut down by the initiator")
		l.acceptWaiting()
	case e.Kind == ofi.EventError:
		l.drain()
		l.lose(fmt.Errorf("connection: %w", e.Err))
	}
}

// established ends the handshake. The first transfer may be seen before the event:
// each connection has its own completion queue, so a completion says it as well.
func (l *targetLane) established() {
	c := &l.connection
	if c.state != connectionAccepting {
		return
	}
	c.state = connectionUp
	l.numbers.connected.Store(true)
	l.numbers.native.Store(c.native)
	l.numbers.connections.Add(1)
	l.dropWaiting()
}

// requested decides about an initiator: accepted when there is none; when there is
// one it is refused, unless it is the same lane of ours that comes back before its
// old connection was seen to end. During a handshake one request is kept.
func (l *targetLane) requested(r *connectionRequest) {
	switch c := &l.connection; {
	case c.state == connectionNone:
		l.accept(r)
	case r.native && c.native && r.instance == c.instance:
		l.drain()
		l.disconnect("the initiator connects again")
		l.accept(r)
	case c.state == connectionAccepting && l.waiting == nil:
		l.waiting = r
	default:
		l.refuse(r)
	}
}

func (l *targetLane) refuse(r *connectionRequest) {
	l.numbers.refused.Add(1)
	if err := l.listener.Reject(r.info); err != nil {
		l.log.Debug("fabric_reject_failed", "flow_id", l.cfg.FlowID, "error", err.Error())
	}
}

func (l *targetLane) dropWaiting() {
	if r := l.waiting; r != nil {
		l.waiting = nil
		l.refuse(r)
	}
}

func (l *targetLane) acceptWaiting() {
	if r := l.waiting; r != nil && l.connection.state == connectionNone && !l.stop {
		l.waiting = nil
		l.accept(r)
	}
}

// accept answers a request; FI_CONNECTED, or the deadline, ends the handshake.
func (l *targetLane) accept(r *connectionRequest) {
	defer r.info.Close()
	c := targetConnection{
		state:    connectionAccepting,
		native:   r.native,
		instance: r.instance,
		rounds:   r.rounds,
		deadline: l.now() + int64(handshakeLimit),
		head:     undefinedIndex,
	}
	peer := "unknown"
	if r.from.IsValid() {
		peer = r.from.String()
	}
	storeText(&l.numbers.peer, peer)
	err := l.openConnection(&c, r.info)
	if err != nil {
		l.connection = c
		l.lose(fmt.Errorf("accept %s: %w", peer, err))
		return
	}
	l.connection = c
}

func (l *targetLane) openConnection(c *targetConnection, request *ofi.Info) (err error) {
	depth := max(l.cfg.CQDepth, nativeReceives)
	if l.info.ReceivePerImmediate() {
		// The receive queue never overruns: it holds every receive that is posted.
		depth = max(depth, l.info.ReceiveSize())
	}
	if c.receive, err = l.fabric.OpenCompletionQueue(depth); err != nil {
		return err
	}
	transmit := c.receive
	if separateQueues(l.info) {
		if c.transmit, err = l.fabric.OpenCompletionQueue(smallQueue); err != nil {
			return err
		}
		transmit = c.transmit
	}
	if c.endpoint, err = l.fabric.OpenEndpoint(request, l.events, transmit, c.receive); err != nil {
		return err
	}
	l.poller.Watch(c.receive)
	if l.recvMR != nil {
		// Before accepting, so that a fast first write finds them.
		want := min(nativeReceives, l.info.ReceiveSize())
		if posted, err := c.endpoint.PostReceives(l.recvMR, want); err != nil || posted < want {
			return errors.Join(err, errShort)
		}
	}
	// The SDK's target answers with one zero byte; a signature serves as well.
	return c.endpoint.Accept(signature{receives: nativeReceives, instance: l.target.ID, rounds: true}.bytes())
}

// smallQueue is the depth of a queue that is bound and never read.
const smallQueue = 8

// separateQueues tells whether the two directions get a completion queue each. On
// verbs one queue for both would lose its credits to the receive side (MXL Fabrics
// reference §11.2).
func separateQueues(i *ofi.Info) bool { return i.ReceivePerImmediate() }

// deadlines ends a handshake that takes too long.
func (l *targetLane) deadlines(now int64) {
	if l.connection.state == connectionAccepting && now >= l.connection.deadline {
		l.lose(errHandshake)
		l.acceptWaiting()
	}
}

var errHandshake = errors.New("connection handshake took longer than 2 s")

// lose ends the connection because of err and counts it.
func (l *targetLane) lose(err error) {
	l.numbers.errors.Add(1)
	l.numbers.state.Store(uint32(StateError))
	l.noteLost(err)
	l.disconnect(err.Error())
	l.acceptWaiting()
}

// disconnect closes the connection; the listener goes on.
func (l *targetLane) disconnect(why string) {
	storeText(&l.numbers.lastError, why)
	c := l.connection
	l.connection = targetConnection{head: undefinedIndex}
	l.numbers.connected.Store(false)
	l.poller.Watch(nil)
	if c.endpoint != nil && c.state == connectionUp {
		_ = c.endpoint.Shutdown() // the peer may be gone already
	}
	if err := errors.Join(c.endpoint.Close(), c.receive.Close(), c.transmit.Close()); err != nil {
		l.log.Warn("fabric_close_failed", "flow_id", l.cfg.FlowID, "error", err.Error())
	}
	// Nothing lands any more. Readers must not take what the connection left unfinished.
	// The files may be the reason why it ended.
	if err := mxl.Guard(l.discardBroken); err != nil {
		l.numbers.errors.Add(1)
		l.noteLost(err)
		storeText(&l.numbers.lastError, err.Error())
	}
}
