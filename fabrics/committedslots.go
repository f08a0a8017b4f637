package fabrics

import "github.com/mxl-stack/mxl-fabrics-agent/mxl"

// committedSlots is what a target has committed in each slot of its ring. A peer
// writes a slot's header before the payload, so a transfer that breaks off leaves a
// header that says complete over a mixture of two grains (MXL Fabrics reference
// §6.3); only the immediate makes it good.
type committedSlots []committedSlot

type committedSlot struct {
	index     uint64
	slices    int
	discarded bool
}

// broken tells whether a slot holds what was never committed there: a header above
// the ring's head, of another index or of more slices than were committed.
func (c committedSlot) broken(slot int, h mxl.GrainHeader, head, depth uint64) bool {
	switch {
	case h.Index == undefinedIndex:
		return false // discarded already
	case h.Index > head:
		return true
	case h.Index%depth != uint64(slot):
		// A new ring has index 0 everywhere.
		return h.ValidSlices > 0 || h.Invalid()
	}
	return h.Index != c.index || int(h.ValidSlices) > c.slices
}

// adopted takes the slots of a ring as committed that another target, or this agent
// before it ended, has left.
func adoptedSlots(w *mxl.DiscreteWriter) committedSlots {
	s := make(committedSlots, w.Depth())
	for slot := range s {
		h := w.Header(slot)
		s[slot] = committedSlot{index: h.Index, slices: int(h.ValidSlices)}
	}
	return s
}

// discardBroken invalidates every slot whose content was not committed. No
// connection may be there, and nothing of the next one committed yet.
func (l *targetLane) discardBroken() error {
	w := l.cfg.Discrete
	if w == nil {
		return nil
	}
	head := w.Head()
	for slot := range l.slots {
		if !l.slots[slot].broken(slot, w.Header(slot), head, w.Depth()) {
			continue
		}
		if err := w.DiscardSlot(slot); err != nil {
			return err
		}
		l.slots[slot] = committedSlot{index: undefinedIndex, discarded: true}
		l.numbers.discarded.Add(1)
	}
	return nil
}
