package fabrics

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/mxl-stack/mxl-fabrics-agent/fabrics/ofi"
	"github.com/mxl-stack/mxl-fabrics-agent/mxl"
)

const (
	// maxSourceBatch is how many writes are posted, and completions read, at once.
	maxSourceBatch = 256
	// sourceQueueDepth is the room for completions of all destinations together;
	// each reserves what it may have in flight.
	sourceQueueDepth = 4096
)

// sourceLane is the thread side of a Source.
type sourceLane struct {
	lane
	cfg      SourceConfig
	instance uint64
	numbers  sourceNumbers
	happened chan SourceEvent
	shape    flowShape // written before the lane starts

	origin       origin
	queue, spare *ofi.CompletionQueue
	reserved     int // completions that connections may have outstanding
	writes       *ofi.Writes
	destinations []*destination
	serial       uint32
	resolvers    sync.WaitGroup
	resolving    int    // endpoints that resolvers are opening
	gapSeen      uint64 // highest unwritten index counted
	closing      bool
	closeBy      int64

	grainList [maxGrainWrites]grainWrite
	segments  []sampleSegment
	passFunc  func() error
	closeErr  error
}

func (l *sourceLane) prepare() (err error) {
	defer func() {
		if err != nil {
			l.teardown()
		}
	}()
	if l.queue, err = l.fabric.OpenCompletionQueue(sourceQueueDepth); err != nil {
		return err
	}
	if separateQueues(l.info) {
		if l.spare, err = l.fabric.OpenCompletionQueue(smallQueue); err != nil {
			return err
		}
	} else {
		l.spare = l.queue
	}
	if l.writes, err = ofi.NewWrites(maxSourceBatch); err != nil {
		return err
	}
	l.poller.Watch(l.queue)
	reader, err := openReader(l.cfg.Domain, l.cfg.FlowID)
	if err != nil {
		return err
	}
	l.shape = reader.shape()
	if !l.shape.discrete {
		l.segments = make([]sampleSegment, 0, 1+2*l.shape.samples.channels)
	}
	return l.install(reader, l.now())
}

func (l *sourceLane) run() {
	l.passFunc = l.pass
	for !l.stop {
		// A fault in the origin's files fails the origin, not the process.
		if err := mxl.Guard(l.passFunc); err != nil {
			l.rollback()
			l.leaveOrigin(originFailed, err.Error(), l.now())
		}
	}
	l.teardown()
}

// pass does everything that can be done now and then waits for more.
func (l *sourceLane) pass() error {
	now := l.now()
	l.stalls.begin(now)
	l.pending.run()
	l.keepOrigin(now)
	l.stalls.lap(taskOrigin, l.now())
	l.keepDestinations(now)
	now = l.now()
	l.stalls.lap(taskConnect, now)
	if l.closing && l.finishClose(now) {
		l.stop = true
		return nil
	}
	if d := l.streams(now); d != nil {
		if done, err := l.stream(d, now); done || err != nil {
			l.stalls.end(true, l.now())
			return err
		}
		now = l.now()
		l.stalls.begin(now)
	}
	l.fill(now)
	filled := l.now()

	w := l.plan(filled)
	n, err := l.poller.Exchange(l.writes, w.poll+w.sync, w.word(&l.origin), l.hold(w, filled))
	now = l.now()
	held := int64(l.poller.Held())
	posted := filled + int64(l.poller.Posting())
	l.stalls.lap(taskPost, posted)
	l.stalls.waited(int64(w.poll+w.sync)+held, now)
	l.posted(posted, now)
	if err := l.settle(n, err, now-held, now); err != nil {
		return err
	}
	l.stalls.end(w.busy || n > 0, l.now())
	return nil
}

// settle deals with what the poller has brought: n completions of a time, or err, and
// besides a failure, an event, and what the wait for the origin came to.
func (l *sourceLane) settle(n int, err error, completed, now int64) error {
	if err != nil {
		return l.failAll(fmt.Errorf("read completion queue: %w", err), now)
	}
	for i := range n {
		l.complete(l.poller.Token(i), completed)
	}
	if token, failed := l.poller.Failed(); failed != nil {
		l.failed(token, failed, now)
	}
	if event, happened := l.poller.Event(); happened {
		l.handle(event, now)
	}
	if err := l.poller.WordError(); err != nil {
		return fmt.Errorf("wait for the origin: %w: %w", mxl.ErrFlowInvalid, err)
	}
	return nil
}

// hold is how long the completion of the transfer in flight may be kept.
func (l *sourceLane) hold(w sourceWait, now int64) ofi.Hold {
	if !w.hold {
		return ofi.Hold{}
	}
	d := l.destinations[0]
	pass := l.cfg.AudioPass
	return ofi.Hold{Age: time.Duration(now - d.transfers[d.first].posted), Pass: pass, Gap: max(pass, minSampleGap)}
}

// fill puts every transfer that may start now into the batch.
func (l *sourceLane) fill(now int64) {
	if l.origin.state != originOpen || l.closing {
		return
	}
	o := &l.origin
	head := o.look(now)
	l.numbers.head.Store(head)
	if head == undefinedIndex {
		return
	}
	// Each pass begins with another destination, so that a full batch is shared.
	count := len(l.destinations)
	for i := range count {
		d := l.destinations[(i+int(l.serial)+int(now>>20))%count]
		if d.phase != phaseUp {
			continue
		}
		if l.shape.discrete {
			l.fillGrains(d, head, now)
		} else {
			l.fillSamples(d, head, now)
		}
	}
}

// posted deals with the batch after it was posted at that moment. A destination whose
// write was refused loses its connection; the others go on.
func (l *sourceLane) posted(posted, now int64) {
	if l.writes.Len() == 0 {
		return
	}
	for _, d := range l.destinations {
		if d.fresh == 0 {
			continue
		}
		fresh, refused := d.fresh, false
		d.fresh = 0
		for i := d.batchFrom; i < d.batchTo && !refused; i++ {
			if err := l.writes.Result(i); err != nil {
				refused = true
				l.disconnect(d, fmt.Errorf("post transfer: %w", err), l.now())
			}
		}
		if !refused && !l.shape.discrete {
			l.sentSamples(d, fresh, posted, now)
		}
	}
	l.writes.Reset()
}

// rollback forgets transfers that were put into the batch and not posted.
func (l *sourceLane) rollback() {
	for _, d := range l.destinations {
		d.flying -= d.fresh
		d.fresh = 0
		if d.phase == phaseUp {
			d.restart()
		}
	}
	l.writes.Reset()
}

// complete takes one finished write into account.
func (l *sourceLane) complete(token uint64, now int64) {
	d := l.bySerial(uint32(token >> 32))
	if d == nil || d.flying == 0 {
		return // of a connection that is gone
	}
	l.finish(d, now, true)
}

// finish takes a finished write of d's oldest transfer into account, and counts it
// where a run has not.
func (l *sourceLane) finish(d *destination, now int64, count bool) {
	t := &d.transfers[d.first]
	if t.writes--; t.writes > 0 {
		return
	}
	d.first = (d.first + 1) % maxInFlight
	d.flying--
	d.progressed = now
	d.backoff = 0
	n := d.numbers
	if t.retraction {
		n.retracted.Add(1)
		return
	}
	if count {
		n.transfers.Add(1)
		n.moved.Bytes.Add(t.bytes)
		n.moved.Head.Store(t.index)
		n.moved.At.Store(mxl.Now())
		if t.last {
			n.grains.Add(1)
		}
	}
	l.numbers.transfer.observe(now-t.posted, now)
	d.slowest = max(now-t.posted, d.slowest-d.slowest/8)
	limit := audioStall
	if l.shape.discrete {
		limit = grainStall
	}
	if now-t.posted > limit {
		l.numbers.stalls.Add(1)
	}
	if l.shape.discrete && l.origin.state == originOpen && l.origin.torn(t.index) {
		n.torn.Add(1)
		d.retractions.add(t.index)
	}
	if !l.shape.discrete && !d.pipelined {
		d.nextPost = nextSamplePost(t.posted, now, l.cfg.AudioPass)
	}
}

func (l *sourceLane) bySerial(serial uint32) *destination {
	for _, d := range l.destinations {
		if d.serial == serial && d.endpoint != nil {
			return d
		}
	}
	return nil
}

// failed deals with a transfer that ended in an error.
func (l *sourceLane) failed(token uint64, err error, now int64) {
	d := l.bySerial(uint32(token >> 32))
	switch {
	case d == nil:
	case errors.Is(err, ofi.ErrCanceled):
		// The provider found the connection closed, or closed it itself.
		l.lost(d, shutDown("%w during a transfer"), now)
	default:
		l.lost(d, fmt.Errorf("transfer: %w", err), now)
	}
}

var errShutDown = errors.New("connection shut down by the target")

// shutDown is why a connection that libfabric calls shut down is.
func shutDown(usual string) error {
	if fault := ofi.Fault(); fault != nil {
		return fmt.Errorf("connection ended: %w", fault)
	}
	return fmt.Errorf(usual, errShutDown)
}

// failAll ends every connection: their common queue cannot be read.
func (l *sourceLane) failAll(err error, now int64) error {
	for _, d := range l.destinations {
		if d.endpoint != nil {
			l.lost(d, err, now)
		}
	}
	return nil
}

// handle deals with one connection event.
func (l *sourceLane) handle(e *ofi.Event, now int64) {
	for _, d := range l.destinations {
		if !e.Of(d.endpoint) {
			continue
		}
		switch e.Kind {
		case ofi.EventConnected:
			l.connected(d, e.Data, now)
		case ofi.EventShutdown:
			l.lost(d, shutDown("%w"), now)
		case ofi.EventError:
			l.lost(d, e.Err, now)
		}
		return
	}
}

// beginClose runs on the lane's thread.
func (l *sourceLane) beginClose() {
	l.closing = true
	l.closeBy = l.now() + int64(closeLimit)*3/4
	for _, d := range l.destinations {
		l.drain(d, l.now())
	}
}

func (l *sourceLane) finishClose(now int64) bool {
	if now >= l.closeBy {
		for _, d := range l.destinations {
			l.closeEndpoint(d)
		}
		return true
	}
	return len(l.destinations) == 0
}

func (l *sourceLane) teardown() {
	for _, d := range l.destinations {
		l.closeEndpoint(d)
		d.free()
	}
	l.destinations = nil
	err := l.origin.close()
	l.writes.Close()
	if l.spare != l.queue {
		err = errors.Join(err, l.spare.Close())
	}
	l.closeErr = errors.Join(err, l.queue.Close())
	l.releaseFabric()
}

// report hands an event to the control side, unless nobody has read the last ones.
func (l *sourceLane) report(name, key, detail string) {
	select {
	case l.happened <- SourceEvent{Name: name, Key: key, Detail: detail, At: mxl.Now()}:
	default:
		l.numbers.dropped.Add(1)
	}
}
