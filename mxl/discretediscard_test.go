package mxl

import (
	"errors"
	"testing"
)

// TestDiscardSlot: an invalidated slot gives an invalid grain; a discarded slot is refused to a reader of its index, and the next commit there is like any other.
func TestDiscardSlot(t *testing.T) {
	d := newDomain(t, 0)
	w := newGrainWriter(t, d, videoDef(192, 108, 50, 1))
	r := newGrainReader(t, d, w.ID())
	depth := w.Depth()
	for index := depth; index < 2*depth; index++ {
		if _, err := w.OpenGrain(index); err != nil {
			t.Fatal(err)
		}
		if err := w.Commit(index, w.TotalSlices(), 0); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.DiscardSlot(3); err != nil {
		t.Fatal(err)
	}
	if h := w.Header(3); h.Index != UndefinedIndex || h.ValidSlices != 0 || !h.Invalid() {
		t.Errorf("header %+v", h)
	}
	if _, err := r.Grain(depth+3, AllSlices); !errors.Is(err, ErrTooLate) {
		t.Errorf("grain of a discarded slot: %v", err)
	}
	if _, err := r.Grain(depth+4, AllSlices); err != nil || w.Head() != 2*depth-1 {
		t.Errorf("its neighbour: %v, head %d", err, w.Head())
	}
	if _, err := w.OpenGrain(2*depth + 3); err != nil {
		t.Fatal(err)
	}
	if err := w.Commit(2*depth+3, w.TotalSlices(), 0); err != nil {
		t.Fatal(err)
	}
	if g, err := r.Grain(2*depth+3, AllSlices); err != nil || g.Invalid() {
		t.Errorf("committed again: %+v, %v", g.GrainHeader, err)
	}
	sync := w.Sync()
	if err := w.InvalidateSlot(5); err != nil {
		t.Fatal(err)
	}
	if g, err := r.Grain(depth+5, AllSlices); err != nil || !g.Invalid() || g.ValidSlices != 0 || w.Head() != 2*depth+3 || w.Sync() == sync {
		t.Errorf("invalidated: %+v, %v, head %d", g.GrainHeader, err, w.Head())
	}
	for _, slot := range []int{-1, int(depth)} {
		if err := w.DiscardSlot(slot); !errors.Is(err, ErrInvalidArgument) {
			t.Errorf("slot %d: %v", slot, err)
		}
		if err := w.InvalidateSlot(slot); !errors.Is(err, ErrInvalidArgument) {
			t.Errorf("slot %d: %v", slot, err)
		}
	}
}
