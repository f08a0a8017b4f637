package fabrics

import (
	"errors"
	"fmt"
	"time"

	"github.com/mxl-stack/mxl-fabrics-agent/mxl"
)

// errLate is a transfer whose initiator was lapped by its writer, or lapped us: it
// came after a later index, its entry was written again while it was copied, or its
// slot had got a later grain's header before it was sent, which belongs to another
// slot where the rings differ in depth. It is ignored, the next ones may be good. Ending the connection would be final for an SDK initiator.
var errLate = errors.New("index is late")

// lateFor is how far back such a transfer reaches at most. An initiator's ring may be
// longer than ours, and bounce-buffer entries that were overwritten go back by the
// whole buffer. What is older comes from an origin that went back.
const lateFor = 2 * time.Second

// late tells whether index, below head, is a late one.
func late(index, head, ring uint64, rate mxl.Rational) bool {
	return head-index < max(ring, rate.IndexAt(uint64(lateFor)))
}

// commitGrain publishes the slot an immediate names. The index is the one in the
// header that has landed there (MXL Fabrics reference §6.3). An error means that
// nothing was published.
func (l *targetLane) commitGrain(imm grainImmediate) error {
	w, c := l.cfg.Discrete, &l.connection
	round := uint64(0)
	if c.rounds {
		imm, round = imm.outOfRound(w.Depth())
	}
	if uint64(imm.slot()) >= w.Depth() {
		return fmt.Errorf("slot %d of a ring of %d", imm.slot(), w.Depth())
	}
	header := w.Header(imm.slot())
	if c.rounds && header.Index != undefinedIndex && roundOf(header.Index, w.Depth()) != round {
		return errLate // the initiator takes back what is mixed, or sends what it is
	}
	if c.head != undefinedIndex && header.Index < c.head {
		if retraction(imm, header, w.SlotOf(header.Index)) {
			return l.retracted(imm.slot(), header.Index)
		}
		if late(header.Index, c.head, w.Depth(), w.Rate()) {
			return errLate
		}
		return fmt.Errorf("index %d after %d", header.Index, c.head)
	}
	if header.Index == undefinedIndex && l.slots[imm.slot()].discarded {
		return errLate // more slices of what was discarded; the grain's first ones are lost
	}
	lapped := header.Index != undefinedIndex && w.SlotOf(header.Index) != imm.slot()
	if lapped && c.head != undefinedIndex && imm.slices() <= l.grains.total {
		return errLate
	}
	index, err := w.CommitSlot(imm.slot(), uint16(imm.slices()))
	if err != nil {
		return err
	}
	now := l.now()
	// Slices of one index arrive one after the other; the bytes are what came new.
	from, counted := 0, false
	if index == c.head {
		from, counted = min(c.slices, imm.slices()), c.whole
		if counted && header.Invalid() {
			l.numbers.retracted.Add(1)
		}
	}
	n := &l.numbers
	n.moved.Bytes.Add(l.grains.payloadBytes(from, imm.slices()))
	n.commits.Add(1)
	whole := imm.slices() == l.grains.total || header.Invalid() || imm.slices() == 0
	if whole && !counted {
		n.grains.Add(1)
	}
	c.head, c.slices, c.whole = index, imm.slices(), whole
	l.slots[imm.slot()] = committedSlot{index: index, slices: imm.slices()}
	l.committed(index, 1, now)
	l.delivered(w.Rate(), index, now)
	return nil
}

// retraction tells whether an immediate takes back a grain that was committed
// before: a header alone, flagged invalid, whose slot is its own. The initiator found
// that its memory was overwritten while the transfer was in flight.
func retraction(imm grainImmediate, h mxl.GrainHeader, slot int) bool {
	return imm.slices() == 0 && h.Invalid() && slot == imm.slot()
}

// retracted accepts it. The flag has arrived with the header; the head stays where it
// is, and so does every later grain.
func (l *targetLane) retracted(slot int, index uint64) error {
	if err := l.cfg.Discrete.InvalidateSlot(slot); err != nil {
		return err
	}
	l.slots[slot] = committedSlot{index: index}
	l.numbers.retracted.Add(1)
	return nil
}

// commitSamples copies an entry into the mirror's ring, channel by channel, and
// publishes it (MXL Fabrics reference §7.3).
func (l *targetLane) commitSamples(entry uint32) error {
	if uint64(entry) >= l.entry.EntryCount {
		return fmt.Errorf("entry %d of %d", entry, l.entry.EntryCount)
	}
	w, c := l.cfg.Continuous, &l.connection
	e := l.bounceEntry(int(entry))
	head, count := readSampleHeader(e)
	previous := uint64(0)
	if c.head != undefinedIndex {
		previous = c.head
	}
	if head < previous && late(head, previous, l.samples.length/2, w.Rate()) {
		return errLate
	}
	if err := l.samples.checkEntry(l.entry.EntrySize, head, count, previous); err != nil {
		return err
	}
	if err := l.silence(head - min(count, head)); err != nil {
		return err
	}
	window, err := w.OpenSamples(head, count)
	if err != nil {
		return err
	}
	part := count * uint64(l.samples.word)
	from := e[sampleHeader:]
	for channel := range l.samples.channels {
		first, second := w.Segments(window, channel)
		copy(second, from[copy(first, from[:part]):part])
		from = from[part:]
	}
	// A fabric that writes by itself does not wait for a lane that got no CPU.
	if h, n := readSampleHeader(e); h != head || n != count {
		return errLate
	}
	if err := w.Commit(head, count); err != nil {
		return err
	}
	now := l.now()
	n := &l.numbers
	n.moved.Bytes.Add(count * l.samples.frame())
	n.grains.Add(1)
	n.commits.Add(1)
	n.moved.Samples.Add(count)
	c.head = head
	l.committed(head, count, now)
	l.delivered(w.Rate(), head-count, now)
	return nil
}

// committed counts what every commit has in common.
func (l *targetLane) committed(head, batch uint64, now int64) {
	n := &l.numbers
	n.moved.Head.Store(head)
	n.moved.Batch.Store(batch)
	if State(n.state.Load()) != StateActive {
		n.state.Store(uint32(StateActive))
	}
	l.spaced(now)
}

// spaced counts the time since the last commit.
func (l *targetLane) spaced(now int64) {
	n := &l.numbers
	if l.lastCommit != 0 {
		gap := now - l.lastCommit
		if l.cfg.Continuous != nil {
			n.gap.observe(gap, now)
			if l.usual.late(gap) {
				n.late.Add(1)
			}
		} else if lateGrain(gap, l.period) {
			n.late.Add(1)
		}
	}
	l.lastCommit = now
}

// delivered counts the age of the oldest new sample or of the grain.
func (l *targetLane) delivered(rate mxl.Rational, index uint64, now int64) {
	tai := mxl.Now()
	l.numbers.moved.At.Store(tai)
	l.numbers.age.observe(ageOf(rate, index, tai), now)
}

// ageOf is how long ago index was due, in nanoseconds; 0 for one that is not due yet.
func ageOf(rate mxl.Rational, index, tai uint64) int64 {
	due := rate.TimeOf(index)
	if due > tai {
		return 0
	}
	return int64(tai - due)
}
