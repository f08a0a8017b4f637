package fabrics

import (
	"errors"
	"fmt"
	"time"

	"github.com/mxl-stack/mxl-fabrics-agent/fabrics/ofi"
	"github.com/mxl-stack/mxl-fabrics-agent/mxl"
)

const (
	// maxTargetBatch is how many completions a pass takes at most.
	maxTargetBatch = 256
	// nativeReceives is how many immediates our own initiators may have in flight,
	// and how many receives are posted where the provider needs them.
	nativeReceives = 64
	// targetWait and targetIdleWait bound a connected and an idle target's sleep.
	// Every event has a descriptor in the wait, so they are a safety net only.
	targetWait     = 50 * time.Millisecond
	targetIdleWait = 250 * time.Millisecond
)

// targetLane is the thread side of a Target.
type targetLane struct {
	lane
	cfg     TargetConfig
	numbers targetNumbers
	target  TargetInfo

	source   *ofi.Info // interface description with the listener's port
	listener *ofi.Listener
	memory   registrations
	receive  []byte // what receives are posted into, never used by immediates
	recvMR   *ofi.Memory

	admission   admission
	stranger    string // the last one refused that was named in the log
	strangerLog int64  // not before that time is another one named
	connection  targetConnection
	waiting     *connectionRequest // a second initiator's, while a handshake runs

	grains  grainGeometry
	slots   committedSlots
	samples sampleGeometry
	sink    *ofi.SampleSink
	bounce  []byte // bounce-buffer entries, stride bytes apart
	entry   Bounce
	stride  int

	period     int64 // of one grain, nanoseconds
	usual      usualGap
	lastCommit int64 // lane time; 0 before the first
	busy       bool  // this pass had work
	passFunc   func() error
	closeErr   error
}

func (l *targetLane) prepare() (err error) {
	defer func() {
		if err != nil {
			l.teardown()
		}
	}()
	if err = mirrorLost(l.cfg.files().CheckFiles()); err != nil {
		return err
	}
	// A file may still be cut off from here on.
	if err = mxl.Guard(l.registerMirror); err != nil {
		if lost := mirrorLost(err); lost != nil {
			return lost
		}
		return err
	}
	if l.info.ReceivePerImmediate() {
		if l.receive, err = anonymous(4096); err != nil {
			return err
		}
		if l.recvMR, err = l.fabric.Register(l.info, l.receive, ofi.AccessTarget, randomUint64()); err != nil {
			return err
		}
	}
	if l.source, err = l.info.WithPort(l.cfg.Port); err != nil {
		return err
	}
	if l.listener, err = l.fabric.Listen(l.source, l.events); err != nil {
		return err
	}
	return l.describe()
}

func (l *targetLane) registerMirror() error {
	if l.cfg.Discrete != nil {
		return l.registerGrains()
	}
	return l.registerSamples()
}

// describe makes the TargetInfo of what was registered.
func (l *targetLane) describe() error {
	address, err := l.listener.Address()
	if err != nil {
		return err
	}
	ap, err := decodeSockaddr(address)
	if err != nil {
		return err
	}
	l.target = TargetInfo{ID: randomUint64(), Provider: string(l.cfg.Provider), Native: nativeReceives, Secret: l.admission.secret}
	l.target.AddressFormat, l.target.Address = encodeSockaddr(ap)
	for _, m := range l.memory {
		l.target.Regions = append(l.target.Regions, Region{m.RemoteAddress(), uint64(m.Len()), m.Key()})
	}
	if l.cfg.Continuous != nil {
		l.target.Bounce = &l.entry
	}
	return nil
}

// registerGrains registers every grain file, header included, in slot order (MXL
// Fabrics reference §4.2).
func (l *targetLane) registerGrains() error {
	w := l.cfg.Discrete
	l.grains = grainGeometry{uint64(w.PayloadSize()), w.TotalSlices(), w.SliceSizes()}
	l.period = periodOf(w.Rate())
	if w.Depth() > maxRegions {
		return fmt.Errorf("ring of %d grains, an immediate can name %d", w.Depth(), maxRegions)
	}
	for slot := range int(w.Depth()) {
		if err := l.memory.add(l.fabric, l.info, w.Slot(slot), ofi.AccessTarget); err != nil {
			return fmt.Errorf("slot %d: %w", slot, err)
		}
	}
	l.slots = adoptedSlots(w)
	return l.discardBroken()
}

// registerSamples makes the bounce buffer, one region an entry (MXL Fabrics
// reference §7.1).
func (l *targetLane) registerSamples() (err error) {
	w := l.cfg.Continuous
	l.samples = sampleGeometry{w.ChannelCount(), w.WordSize(), w.BufferLength()}
	l.entry = l.samples.bounceOf(uint64(w.Info().MaxSyncBatchSizeHint))
	if l.entry.EntryCount > maxRegions {
		return fmt.Errorf("bounce buffer of %d entries, an immediate can name %d", l.entry.EntryCount, maxRegions)
	}
	l.stride = int(l.entry.EntrySize+63) &^ 63
	if l.bounce, err = anonymous(l.stride * int(l.entry.EntryCount)); err != nil {
		return err
	}
	for e := range int(l.entry.EntryCount) {
		if err := l.memory.add(l.fabric, l.info, l.bounceEntry(e), ofi.AccessTarget); err != nil {
			return fmt.Errorf("bounce entry %d: %w", e, err)
		}
	}
	return l.openSink()
}

func (l *targetLane) bounceEntry(e int) []byte {
	return l.bounce[e*l.stride:][:l.entry.EntrySize]
}

func periodOf(r mxl.Rational) int64 {
	if !r.Valid() {
		return int64(time.Second)
	}
	return int64(float64(time.Second) / r.Float())
}

func (l *targetLane) run() {
	l.passFunc = l.pass
	for !l.stop {
		// A fault in the mirror's own files fails the connection, not the process.
		if err := mxl.Guard(l.passFunc); err != nil {
			l.lose(fmt.Errorf("mirror flow: %w", err))
		}
	}
	l.teardown()
}

// pass waits for what comes and deals with it.
func (l *targetLane) pass() error {
	start := l.now()
	l.stalls.begin(start)
	l.busy = false
	l.pending.run()
	if l.stop {
		return nil
	}
	l.deadlines(start)

	wait := l.wait(start)
	n, err := l.poll(start, wait)
	l.numbers.interrupted.Store(l.poller.Interrupted())
	if err != nil {
		l.lose(fmt.Errorf("read completion queue: %w", err))
		return nil
	}
	current := l.connection.endpoint
	l.take(n)
	if _, failed := l.poller.Failed(); failed != nil && current != nil && current == l.connection.endpoint {
		l.lose(fmt.Errorf("receive: %w", failed))
	}
	if event, ok := l.poller.Event(); ok {
		l.handle(event)
	}
	end := l.now()
	l.stalls.lap(taskCommit, end)
	l.stalls.end(l.busy, end)
	return nil
}

// poll waits for completions and events. A continuous flow that runs is moved
// meanwhile; what is left then is what the caller has to deal with.
func (l *targetLane) poll(start int64, wait time.Duration) (n int, err error) {
	if l.streams(start) {
		return l.stream(start, wait)
	}
	n, err = l.poller.Poll(wait)
	l.busy = n > 0
	l.stalls.waited(int64(wait), l.now())
	return n, err
}

// wait is how long the lane may sleep.
func (l *targetLane) wait(now int64) time.Duration {
	limit := targetIdleWait
	if l.connection.state == connectionUp && l.lastCommit != 0 && now-l.lastCommit < int64(2*time.Second) {
		limit = targetWait
	}
	if l.connection.state == connectionAccepting {
		limit = min(limit, max(0, time.Duration(l.connection.deadline-now)))
	}
	return limit
}

// take commits n completions and re-posts the receives that they used up.
func (l *targetLane) take(n int) {
	if n == 0 {
		return
	}
	l.established()
	receives := 0
	for i := range n {
		value, ok := l.poller.Immediate(i)
		if !ok {
			continue // a write without immediate, or one of several planes
		}
		receives++
		if l.connection.state != connectionUp {
			continue // after a bad immediate, or the end of a connection
		}
		var err error
		if l.cfg.Discrete != nil {
			err = l.commitGrain(grainImmediate(value))
		} else {
			err = l.commitSamples(value)
		}
		if err != nil {
			l.numbers.badImmediates.Add(1)
			if err == errLate {
				continue
			}
			l.lose(fmt.Errorf("immediate %#08x: %w", value, err))
		}
	}
	if l.recvMR != nil && l.connection.state == connectionUp {
		if posted, err := l.connection.endpoint.PostReceives(l.recvMR, receives); err != nil || posted < receives {
			l.lose(fmt.Errorf("post receives: %w", errors.Join(err, errShort)))
		}
	}
}

var errShort = errors.New("fewer were taken than completed")

// drain reads completions until there are none, and commits them.
func (l *targetLane) drain() {
	for {
		n, err := l.poller.Poll(0)
		if err != nil || n == 0 {
			l.noteLost(err)
			return
		}
		l.take(n)
	}
}

// teardown closes everything, in order.
func (l *targetLane) teardown() {
	if l.connection.endpoint != nil {
		l.drain()
		l.disconnect("target closed")
	}
	l.dropWaiting()
	l.closeErr = errors.Join(
		l.listener.Close(),
		l.recvMR.Close(),
		l.memory.close(),
	)
	l.source.Close()
	l.release()
	l.sink.Close()
	unmap(&l.receive)
	unmap(&l.bounce)
}
