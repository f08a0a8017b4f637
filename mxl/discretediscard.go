package mxl

import (
	"fmt"
	"runtime/debug"
	"sync/atomic"
)

// InvalidateSlot flags the grain of a slot invalid and takes its slices away; its index and the head stay. It wakes readers,
// who may be waiting for more slices of it. ErrInvalidArgument when the slot does not exist. It allocates nothing.
func (w *DiscreteWriter) InvalidateSlot(slot int) error {
	return w.invalidate(slot, func([]byte) { w.wake() })
}

// DiscardSlot makes what a slot holds unacceptable: its index becomes UndefinedIndex, it has no valid slice and is flagged
// invalid. It is for content that came from outside (RDMA) and was never committed; the head stays and nobody is woken. A
// reader of this package that asks for the slot's former index gets ErrTooLate; one that does not compare indexes gets an
// invalid grain at once (MXL format reference §7.2). ErrInvalidArgument when the slot does not exist. It allocates nothing.
func (w *DiscreteWriter) DiscardSlot(slot int) error {
	return w.invalidate(slot, func(mem []byte) { atomic.StoreUint64(word64(mem, offGrainIndex), UndefinedIndex) })
}

func (w *DiscreteWriter) invalidate(slot int, then func(mem []byte)) (err error) {
	if w.closed() {
		return ErrInvalidFlowWriter
	}
	if slot < 0 || slot >= len(w.slots) {
		return fmt.Errorf("%w: slot %d of %d", ErrInvalidArgument, slot, len(w.slots))
	}
	defer recoverFault(debug.SetPanicOnFault(true), &err)
	mem := w.slots[slot]
	w.storeSlices(slot, 0)
	flags := word32(mem, offGrainFlags)
	atomic.StoreUint32(flags, atomic.LoadUint32(flags)|GrainInvalid)
	then(mem)
	return nil
}
