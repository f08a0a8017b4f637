package fabrics

import (
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/mxl-stack/mxl-fabrics-agent/fabrics/ofi"
	"github.com/mxl-stack/mxl-fabrics-agent/mxl"
)

const (
	// originCheck is how often the origin's files are compared with what is mapped.
	originCheck = time.Second
	// originRetry is how soon an origin that went is looked for again.
	originRetry = 100 * time.Millisecond
	// releaseAfter is how long nobody may write the origin before it is let go.
	releaseAfter = 10 * time.Second
	// leaveLimit is how long transfers from the old files may take to finish.
	leaveLimit = 500 * time.Millisecond
)

type originState int

const (
	originGone originState = iota
	originOpen
	originLeaving // nothing new is posted, what is in flight finishes
)

// Why an origin was left; also the names of the events.
const (
	originChanged  = "origin_changed"
	originDeleted  = "origin_deleted"
	originReleased = "origin_released"
	originFailed   = "origin_failed"
)

// originReader is the reader of either kind of flow.
type originReader struct {
	grains  *mxl.DiscreteReader
	samples *mxl.ContinuousReader
}

func openReader(d *mxl.Domain, id uuid.UUID) (r originReader, err error) {
	info, err := d.FlowInfo(id)
	if err != nil {
		return r, err
	}
	if info.Format.Discrete() {
		r.grains, err = d.OpenDiscreteReader(id)
	} else {
		r.samples, err = d.OpenContinuousReader(id)
	}
	return r, err
}

func (r originReader) shape() flowShape {
	if r.grains != nil {
		return flowShape{
			discrete: true,
			grains:   grainGeometry{uint64(r.grains.PayloadSize()), r.grains.TotalSlices(), r.grains.SliceSizes()},
		}
	}
	return flowShape{samples: sampleGeometry{r.samples.ChannelCount(), r.samples.WordSize(), r.samples.BufferLength()}}
}

// sameShape tells whether transfers can go on; the ring's depth may differ.
func sameShape(a, b flowShape) bool {
	a.samples.length, b.samples.length = 0, 0
	return a == b
}

func (r originReader) close() error {
	switch {
	case r.grains != nil:
		return r.grains.Close()
	case r.samples != nil:
		return r.samples.Close()
	}
	return nil
}

// dir is the flow's directory.
func (r originReader) dir() string {
	if r.grains != nil {
		return r.grains.Dir()
	}
	return r.samples.Dir()
}

func (r originReader) check() error {
	if r.grains != nil {
		return r.grains.Check()
	}
	return r.samples.Check()
}

// checkFile looks at one file of the ring, by any number.
func (r originReader) checkFile(number int) error {
	if r.grains != nil {
		return r.grains.CheckFile(number)
	}
	return r.samples.CheckFile(number)
}

// origin is the flow a source reads.
type origin struct {
	state  originState
	reader originReader
	memory originMemory
	rate   mxl.Rational
	period int64  // of one grain or sample, nanoseconds
	length uint64 // grains in the ring, or samples per channel

	checkAt  int64 // next comparison with the files
	checked  int   // comparisons so far: each looks at another file of the ring
	retryAt  int64 // next attempt to open
	leaveBy  int64
	reason   string // why it is left or gone
	writerAt int64  // when a writer was known to hold the flow

	seen  uint32 // sync counter before the head was read
	head  uint64
	moved int64 // when seen or head changed
}

// look reads sync counter and head, in this order, so that a commit in between ends
// the next wait at once.
func (o *origin) look(now int64) uint64 {
	var seen uint32
	var head uint64
	if o.reader.grains != nil {
		seen, head = o.reader.grains.Sync(), o.reader.grains.Head()
		if head == 0 && seen == 0 {
			head = undefinedIndex // a new flow
		}
	} else {
		seen, head = o.reader.samples.Sync(), o.reader.samples.Head()
	}
	if seen != o.seen || head != o.head {
		o.moved, o.writerAt = now, now
	}
	o.seen, o.head = seen, head
	return head
}

// word is what a wait for the origin ends on.
func (o *origin) word(glance, headEvery time.Duration) ofi.Word {
	w := ofi.Word{Seen: o.seen, Glance: glance, HeadSeen: uint32(o.head), HeadEvery: headEvery}
	switch {
	case o.state != originOpen:
	case o.reader.grains != nil:
		w.Address = o.reader.grains.SyncWord()
	default:
		w.Address, w.Head = o.reader.samples.SyncWord(), o.reader.samples.HeadWord()
	}
	return w
}

// torn tells whether a grain's memory was overwritten before its transfer was done:
// its slot belongs to another index now (MXL Fabrics reference §6.3).
func (o *origin) torn(index uint64) bool {
	r := o.reader.grains
	return r.Header(r.SlotOf(index)).Index != index
}

// nextLook is when the origin has to be looked at again; 0 for never.
func (o *origin) nextLook() int64 {
	switch o.state {
	case originOpen:
		return o.checkAt
	case originLeaving:
		return o.leaveBy
	}
	return o.retryAt
}

// close deregisters and closes; nothing may be in flight.
func (o *origin) close() error {
	err := errors.Join(o.memory.close(), o.reader.close())
	o.reader, o.state = originReader{}, originGone
	return err
}

// install registers a reader's memory and makes it the origin.
func (l *sourceLane) install(r originReader, now int64) error {
	memory, err := l.registerOrigin(r)
	if err != nil {
		return errors.Join(err, r.close())
	}
	o := origin{state: originOpen, reader: r, checkAt: now + int64(originCheck), writerAt: now, moved: now}
	if r.grains != nil {
		o.rate, o.length = r.grains.Rate(), r.grains.Depth()
	} else {
		o.rate, o.length = r.samples.Rate(), r.samples.BufferLength()
	}
	o.memory, o.period = memory, max(periodOf(o.rate), 1)
	l.origin = o
	if !l.shape.discrete {
		l.shape.samples.length = o.length
	}
	l.numbers.reading.Store(true)
	l.numbers.failed.Store(false)
	storeText(&l.numbers.lastError, "")
	l.gapSeen = 0
	for _, d := range l.destinations {
		d.restart()
	}
	return nil
}

// keepOrigin compares the origin with its files, leaves it, or opens it again.
func (l *sourceLane) keepOrigin(now int64) {
	o := &l.origin
	switch o.state {
	case originOpen:
		if now >= o.checkAt {
			o.checkAt = now + int64(originCheck)
			l.checkOrigin(now)
		}
	case originLeaving:
		l.finishLeaving(now)
	case originGone:
		if now >= o.retryAt && !l.closing {
			l.reopenOrigin(now)
		}
	}
}

func (l *sourceLane) checkOrigin(now int64) {
	o := &l.origin
	if err := o.reader.check(); err != nil {
		switch {
		case errors.Is(err, mxl.ErrFlowNotFound):
			l.leaveOrigin(originDeleted, "origin flow deleted", now)
		case errors.Is(err, mxl.ErrFlowInvalid):
			l.leaveOrigin(originChanged, "origin flow re-created", now)
		default:
			l.leaveOrigin(originFailed, err.Error(), now)
		}
		return
	}
	// An adapter that reads memory by itself does not notice that the file is gone.
	o.checked++
	if err := o.reader.checkFile(o.checked); errors.Is(err, mxl.ErrFlowInvalid) && !errors.Is(err, mxl.ErrFlowNotFound) {
		l.leaveOrigin(originFailed, err.Error(), now)
		return
	}
	if now-o.moved < int64(silentAfter) {
		return
	}
	// Only a silent origin is asked for its writer: the probe takes a lock.
	if active, err := l.cfg.Domain.IsActive(l.cfg.FlowID); err == nil && active {
		o.writerAt = now
	} else if now-o.writerAt > int64(releaseAfter) {
		l.leaveOrigin(originReleased, "nobody writes the origin flow", now)
	}
}

// leaveOrigin stops posting from the origin's memory; it is closed once nothing
// uses it any more.
func (l *sourceLane) leaveOrigin(reason, detail string, now int64) {
	o := &l.origin
	if o.state != originOpen {
		return
	}
	o.state, o.reason, o.leaveBy = originLeaving, reason, now+int64(leaveLimit)
	storeText(&l.numbers.lastError, detail)
	l.numbers.reading.Store(false)
	if reason == originFailed {
		l.numbers.failed.Store(true)
		l.numbers.errors.Add(1)
	}
	l.report(reason, "", detail)
	l.finishLeaving(now)
}

func (l *sourceLane) finishLeaving(now int64) {
	o := &l.origin
	for _, d := range l.destinations {
		if d.flying == 0 {
			continue
		}
		if now < o.leaveBy {
			return
		}
		l.disconnect(d, errors.New("transfer did not finish before the origin's memory went"), now)
	}
	if err := o.close(); err != nil {
		l.log.Warn("fabric_close_failed", "flow_id", l.cfg.FlowID, "error", err.Error())
	}
	o.retryAt = now + int64(originRetry)
	if o.reason == originFailed {
		o.retryAt = now + int64(originCheck)
	}
}

// reopenOrigin opens the origin again where it went, was replaced, or is written
// again.
func (l *sourceLane) reopenOrigin(now int64) {
	o := &l.origin
	o.retryAt = now + int64(originCheck)
	if o.reason == originReleased {
		if active, err := l.cfg.Domain.IsActive(l.cfg.FlowID); err != nil || !active {
			return
		}
	}
	r, err := openReader(l.cfg.Domain, l.cfg.FlowID)
	switch {
	case errors.Is(err, mxl.ErrFlowNotFound):
		o.retryAt = now + int64(originCheck)/4
		return
	case err != nil:
		l.refuseOrigin(err)
		return
	}
	if shape := r.shape(); !sameShape(shape, l.shape) {
		l.refuseOrigin(errors.Join(fmt.Errorf("origin flow came back with another geometry: %+v, was %+v", shape, l.shape), r.close()))
		return
	}
	if err := l.install(r, now); err != nil {
		l.refuseOrigin(err)
		return
	}
	l.numbers.reopened.Add(1)
	l.report("origin_reopened", "", "")
}

// refuseOrigin puts the lane into error; the same reason is reported once.
func (l *sourceLane) refuseOrigin(err error) {
	if loadText(&l.numbers.lastError) != err.Error() || !l.numbers.failed.Load() {
		l.report(originFailed, "", err.Error())
	}
	l.numbers.errors.Add(1)
	l.numbers.failed.Store(true)
	storeText(&l.numbers.lastError, err.Error())
}
