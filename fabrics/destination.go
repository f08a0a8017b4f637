package fabrics

import (
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mxl-stack/mxl-fabrics-agent/fabrics/ofi"
	"github.com/mxl-stack/mxl-fabrics-agent/mxl"
)

const (
	// maxInFlight is the most transfers one connection has in flight.
	maxInFlight = 8
	// nativeGrains and nativeBatches are how many go towards our own targets at
	// once; towards others it is one (MXL Fabrics reference §11.2).
	nativeGrains  = 4
	nativeBatches = 8
	// lingerFor is how long an SDK target gets to read the last completions before
	// the connection is shut down: it drops what it has not read (§4.3).
	lingerFor = 30 * time.Millisecond
	// drainLimit bounds the wait for what is in flight when a target is removed.
	drainLimit = 600 * time.Millisecond
	// lostWait is how long a source waits before it connects to a target of ours again
	// that it has lost: its destination makes a new one, and says so sooner.
	lostWait = 2 * time.Second
)

type destinationPhase int

const (
	phaseIdle destinationPhase = iota // waits for retryAt
	phaseConnecting
	phaseUp
	phaseDraining
	phaseGone
)

// transfer is what one immediate stands for.
type transfer struct {
	index      uint64 // grain, or head index of a batch
	bytes      uint64 // payload
	posted     int64
	writes     int
	last       bool // ends its grain
	retraction bool // takes a grain back
}

// destination is one target of a source: its connection, its place in the origin
// and what it has in flight. It shares the origin's memory with the others and
// nothing else.
type destination struct {
	key     string
	info    TargetInfo
	numbers *destinationNumbers

	phase    destinationPhase
	endpoint *ofi.Endpoint
	serial   uint32 // of the connection, in completion tokens
	deadline int64
	retryAt  int64
	lost     bool // the last connection was up before it ended
	backoff  time.Duration
	linger   int64

	native    bool
	rounds    bool // immediates carry the round
	pipelined bool
	window    int // transfers in flight at most
	reserved  int // completions set aside for it

	transfers  [maxInFlight]transfer
	first      int
	flying     int
	slowest    int64 // transfer time, the largest with decay
	progressed int64 // last completion, or post when nothing was in flight

	fresh              int // transfers of the batch that is not posted yet
	batchFrom, batchTo int

	cursor      grainCursor // discrete
	sent        uint64      // discrete: last index put into a batch on this connection
	retractions retractions // discrete
	next        uint64      // continuous: number of the next sample
	nextPost    int64
	entry       uint64          // continuous: next bounce-buffer entry, kept over reconnects
	feed        *ofi.SampleFeed // continuous: batches that need no decision
	buffers     sendBuffers     // batches of samples, headers that take grains back
}

// restart makes the next transfer begin at the origin's head, and at slice 0.
func (d *destination) restart() {
	d.cursor = grainCursor{index: undefinedIndex}
	d.next = undefinedIndex
}

func (d *destination) free() {
	d.feed.Close()
	d.buffers.close()
}

// push takes a transfer into account; its writes are in the batch from the given
// position on.
func (d *destination) push(t transfer, batchFrom, batchTo int) {
	if d.flying == 0 {
		d.progressed = t.posted
	}
	d.transfers[(d.first+d.flying)%maxInFlight] = t
	d.flying++
	if d.fresh == 0 {
		d.batchFrom = batchFrom
	}
	d.fresh++
	d.batchTo = batchTo
}

// token comes back with every completion of the connection.
func (d *destination) token() uint64 { return uint64(d.serial)<<32 | 1 }

// grainImmediate is the immediate of slices up to end of index, as the target knows it.
func (d *destination) grainImmediate(slot, end int, index uint64) uint32 {
	imm := newGrainImmediate(slot, end)
	if d.rounds {
		imm = imm.inRound(index, uint64(len(d.info.Regions)))
	}
	return uint32(imm)
}

// setDestination adds d or puts it in the place of the one with its key.
func (l *sourceLane) setDestination(d *destination) {
	l.removeDestination(d.key)
	if l.closing {
		return
	}
	d.restart()
	l.destinations = append(l.destinations, d)
}

func (l *sourceLane) removeDestination(key string) {
	for _, d := range l.destinations {
		if d.key == key && d.phase < phaseDraining {
			l.drain(d, l.now())
		}
	}
}

// drain lets what is in flight finish and then closes the connection.
func (l *sourceLane) drain(d *destination, now int64) {
	switch d.phase {
	case phaseUp:
		d.phase = phaseDraining
		d.deadline = now + int64(drainLimit)
		d.linger = 0
	case phaseIdle, phaseConnecting:
		l.closeEndpoint(d)
		d.phase = phaseGone
	}
}

// keepDestinations advances every connection that has something due.
func (l *sourceLane) keepDestinations(now int64) {
	gone := false
	for _, d := range l.destinations {
		switch d.phase {
		case phaseIdle:
			if now >= d.retryAt {
				l.connect(d, now)
			}
		case phaseConnecting:
			if now >= d.deadline {
				l.disconnect(d, errHandshake, now)
			}
		case phaseUp:
			if d.flying > 0 && now-d.progressed > int64(progressLimit) {
				l.disconnect(d, errNoProgress, now)
			}
		case phaseDraining:
			l.keepDraining(d, now)
		}
		gone = gone || d.phase == phaseGone
	}
	if gone {
		l.removeGone()
	}
}

var errNoProgress = errors.New("no transfer completed for 2 s")

func (l *sourceLane) keepDraining(d *destination, now int64) {
	if d.flying == 0 && d.linger == 0 {
		d.linger = now
		if !d.native {
			d.linger = now + int64(lingerFor)
		}
	}
	if now >= d.deadline || d.linger > 0 && now >= d.linger {
		l.closeEndpoint(d)
		d.phase = phaseGone
	}
}

func (l *sourceLane) removeGone() {
	kept := l.destinations[:0]
	for _, d := range l.destinations {
		if d.phase == phaseGone {
			d.free()
		} else {
			kept = append(kept, d)
		}
	}
	clear(l.destinations[len(kept):])
	l.destinations = kept
}

// connect starts a connection; FI_CONNECTED, an error or the deadline ends it.
func (l *sourceLane) connect(d *destination, now int64) {
	l.serial++
	d.serial = l.serial
	d.lost = false
	d.phase = phaseConnecting
	peer, err := l.info.WithPeer(d.info.Address)
	if err != nil {
		l.disconnect(d, err, now)
		return
	}
	if resolvesSlowly(l.info) {
		d.deadline = now + int64(resolveLimit)
		l.resolve(d, peer)
		return
	}
	e, err := l.fabric.ResolveEndpoint(peer)
	peer.Close()
	l.resolved(d, d.serial, e, err)
}

// connected makes a connection usable.
func (l *sourceLane) connected(d *destination, data []byte, now int64) {
	if d.phase != phaseConnecting {
		return
	}
	peer, native := readSignature(data)
	d.native = native && d.info.Native > 0
	d.window = 1
	d.rounds = d.native && peer.rounds
	d.pipelined = false
	if d.native {
		limit := min(int(peer.receives), int(d.info.Native))
		switch {
		case l.shape.discrete:
			d.window = max(1, min(nativeGrains, limit, int(l.origin.length)-1, len(d.info.Regions)-1))
		case l.cfg.AudioPipeline:
			// Never near the number of entries: nothing tells us when they are read.
			d.window = max(1, min(nativeBatches, limit, len(d.info.Regions)/2))
			d.pipelined = true
		}
	}
	if err := l.reserve(d); err != nil {
		l.disconnect(d, err, now)
		return
	}
	d.phase = phaseUp
	d.first, d.flying, d.fresh, d.nextPost = 0, 0, 0, 0
	d.retractions.count = 0 // targets of ours discard what the last connection left
	d.restart()
	n := d.numbers
	n.native.Store(d.native)
	n.connected.Store(true)
	n.connections.Add(1)
	n.state.Store(uint32(StateActive))
	storeText(&n.lastError, "")
	l.report("target_connected", d.key, l.peerName(d))
	if l.origin.state == originGone && l.origin.reason == originReleased {
		// A new mirror gets the grain that is there, even if nobody writes any more.
		l.origin.reason = originChanged
		l.origin.retryAt = now
	}
}

// reserve sets aside the completions the connection can have outstanding, and the
// memory to send batches from.
func (l *sourceLane) reserve(d *destination) error {
	writes := 1
	if l.shape.discrete {
		writes = max(1, l.shape.grains.planes())
	}
	writes *= d.window
	if l.reserved+writes > sourceQueueDepth || writes > l.info.TransmitSize() {
		return fmt.Errorf("%d outstanding writes do not fit the queues", writes)
	}
	buffer := uint64(grainHeader)
	if !l.shape.discrete {
		buffer = d.info.Bounce.EntrySize
	}
	if err := d.buffers.open(l.fabric, l.info, buffer); err != nil {
		return err
	}
	if !l.shape.discrete {
		if err := d.openFeed(); err != nil {
			return err
		}
	}
	l.reserved += writes
	d.reserved = writes
	return nil
}

// lost deals with a connection that ended by itself.
func (l *sourceLane) lost(d *destination, err error, now int64) {
	if d.phase == phaseDraining {
		l.closeEndpoint(d)
		d.phase = phaseGone
		return
	}
	flying := d.flying > 0
	l.disconnect(d, err, now)
	if !flying || l.origin.state != originOpen {
		return
	}
	// The kernel could not read the origin's memory, or the peer is gone. A file that
	// was cut off tells which.
	if _, bad := mxl.InspectFlow(l.origin.reader.dir()); bad != nil {
		l.leaveOrigin(originFailed, bad.Error(), now)
	} else if errors.Is(err, unix.EFAULT) {
		l.leaveOrigin(originFailed, "origin memory cannot be read", now)
	}
}

// disconnect closes the connection because of err and schedules the next attempt.
func (l *sourceLane) disconnect(d *destination, err error, now int64) {
	up := d.phase == phaseUp
	l.closeEndpoint(d)
	n := d.numbers
	n.errors.Add(1)
	n.state.Store(uint32(StateError))
	text, before := err.Error(), loadText(&n.lastError)
	storeText(&n.lastError, text)
	if up {
		l.report("source_connection_lost", d.key, text)
	} else if before != text {
		l.report("target_failed", d.key, text)
	}
	d.phase = phaseIdle
	d.lost = up
	d.backoff = nextBackoff(d.backoff)
	d.retryAt = now + int64(d.backoff)
	if up && d.info.Native > 0 {
		d.retryAt = now + int64(max(d.backoff, lostWait))
	}
}

// askedAgain connects at once to a target that was lost, because its destination has
// asked for it again. One of ours that stays what it was has not seen the end yet, and
// makes a new one when it does; others never make a new one for that.
func (l *sourceLane) askedAgain(key string) {
	for _, d := range l.destinations {
		if d.key == key && d.phase == phaseIdle && d.lost && d.info.Native == 0 {
			d.retryAt = l.now()
		}
	}
}

// reconnect begins a new connection at once because the origin's index went back:
// targets of ours take a lower index as the start of a connection only.
func (l *sourceLane) reconnect(d *destination, now int64) {
	l.closeEndpoint(d)
	d.phase, d.retryAt = phaseIdle, now
}

// closeEndpoint ends the connection, if there is one. Its completions are ignored
// from then on.
func (l *sourceLane) closeEndpoint(d *destination) {
	if d.endpoint == nil {
		return
	}
	if d.phase == phaseUp || d.phase == phaseDraining {
		_ = d.endpoint.Shutdown() // the peer may be gone already
	}
	if err := d.endpoint.Close(); err != nil {
		l.log.Warn("fabric_close_failed", "flow_id", l.cfg.FlowID, "peer", d.key, "error", err.Error())
	}
	d.endpoint = nil
	d.flying, d.fresh = 0, 0
	l.reserved -= d.reserved
	d.reserved = 0
	d.numbers.connected.Store(false)
}

func (l *sourceLane) peerName(d *destination) string {
	ap, err := d.info.AddrPort()
	if err != nil {
		return err.Error()
	}
	return ap.String()
}
