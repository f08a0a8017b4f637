package mxl

import (
	"errors"
	"fmt"
	"runtime/debug"
	"sync/atomic"
)

var errNotOpen = errors.New("no grain of this index is open")

// DiscreteWriter writes grains. It holds the shared lock that tells the flow is active. One goroutine at a time; Close
// must not run while another method does.
type DiscreteWriter struct {
	grainRing
	files flowFiles
	watch *accessEntry
	open  bool
	index uint64
	valid int // slices committed of the open grain
}

// OpenGrain starts a grain. Its slot is made unacceptable to readers (no valid slice, not invalid) and gets the index; the
// payload to fill is returned, with the bytes of the slot's previous grain. It allocates nothing.
func (w *DiscreteWriter) OpenGrain(index uint64) (payload []byte, err error) {
	if w.closed() {
		return nil, ErrInvalidFlowWriter
	}
	if index == UndefinedIndex {
		return nil, fmt.Errorf("%w: undefined index", ErrInvalidArgument)
	}
	defer recoverFault(debug.SetPanicOnFault(true), &err)
	slot := w.SlotOf(index)
	mem := w.slots[slot]
	// Order of MXL format reference §7.1: what was there must be refused before the slot claims the new index.
	w.storeSlices(slot, 0)
	flags := word32(mem, offGrainFlags)
	atomic.StoreUint32(flags, atomic.LoadUint32(flags)&^GrainInvalid)
	atomic.SwapUint64(word64(mem, offGrainIndex), index)
	w.barrier()
	w.open, w.index, w.valid = true, index, 0
	return mem[PayloadOffset : PayloadOffset+w.payloadSize], nil
}

// Commit publishes the first validSlices slices of the open grain, which must be that of index, and wakes readers. Flags
// are 0 or GrainInvalid. The grain stays open for more slices until all are valid. Errors: ErrInvalidArgument when another
// index is open, or the slices are more than TotalSlices or fewer than committed before (unless the grain becomes
// invalid). It allocates nothing.
func (w *DiscreteWriter) Commit(index uint64, validSlices int, flags uint32) (err error) {
	if w.closed() {
		return ErrInvalidFlowWriter
	}
	if !w.open || w.index != index {
		return fmt.Errorf("%w: commit of index %d: %w", ErrInvalidArgument, index, errNotOpen)
	}
	if validSlices < 0 || validSlices > w.totalSlices || (validSlices < w.valid && flags&GrainInvalid == 0) {
		return fmt.Errorf("%w: commit of %d slices, %d of %d were valid", ErrInvalidArgument, validSlices, w.valid,
			w.totalSlices)
	}
	defer recoverFault(debug.SetPanicOnFault(true), &err)
	slot := w.SlotOf(index)
	w.barrier() // payload before header
	atomic.StoreUint32(word32(w.slots[slot], offGrainFlags), flags)
	w.storeSlices(slot, validSlices)
	w.publish(index)
	w.valid = validSlices
	w.open = validSlices < w.totalSlices
	return nil
}

// Cancel forgets the open grain; its slot keeps the index and no valid slice.
func (w *DiscreteWriter) Cancel() { w.open = false }

// CommitSlot publishes a grain whose header and payload were written into the slot from outside (RDMA): it sets
// validSlices, the head, the write time and the sync counter, wakes readers, and resets nothing. It returns the index found
// in the header. Errors: ErrInvalidArgument when the slot does not exist, its header does not fit the ring, or the slices
// are more than there are; then nothing is published. It allocates nothing.
func (w *DiscreteWriter) CommitSlot(slot int, validSlices uint16) (index uint64, err error) {
	if w.closed() {
		return UndefinedIndex, ErrInvalidFlowWriter
	}
	if slot < 0 || slot >= len(w.slots) {
		return UndefinedIndex, fmt.Errorf("%w: slot %d of %d", ErrInvalidArgument, slot, len(w.slots))
	}
	defer recoverFault(debug.SetPanicOnFault(true), &err)
	h := w.loadHeader(slot)
	if err := w.fits(slot, h, validSlices); err != nil {
		return h.Index, fmt.Errorf("%w: slot %d of flow %v: %w", ErrInvalidArgument, slot, w.info.ID, err)
	}
	w.storeSlices(slot, int(validSlices))
	w.publish(h.Index)
	return h.Index, nil
}

// fits says why a header that came from outside must not be published.
func (w *DiscreteWriter) fits(slot int, h GrainHeader, validSlices uint16) error {
	if int(validSlices) > w.totalSlices {
		return fmt.Errorf("%d valid slices of %d", validSlices, w.totalSlices)
	}
	if w.SlotOf(h.Index) != slot || h.Index == UndefinedIndex {
		return fmt.Errorf("index %d does not belong there, the ring has %d slots", h.Index, len(w.slots))
	}
	return checkGrainHeader(h, w.info.SliceSizes, uint32(w.payloadSize), uint16(w.totalSlices))
}

// publish makes a committed header visible (MXL format reference §7.1).
func (w *DiscreteWriter) publish(index uint64) {
	atomic.StoreUint64(w.head, index)
	atomic.StoreUint64(w.lastW, Now())
	w.wake()
}

// Close lets go of the flow and keeps its files: garbage collection may take them once no writer is left. It may be
// called again.
func (w *DiscreteWriter) Close() error {
	w.watch.remove()
	w.watch = nil
	w.unmapRing()
	w.files.close()
	return nil
}

// Release closes the writer and deletes the flow when no other writer holds it, as the SDK does when a writer is released.
func (w *DiscreteWriter) Release() (deleted bool, err error) {
	if w.closed() {
		return false, nil
	}
	deleted, err = w.files.removeIfLast()
	return deleted, firstError(err, w.Close())
}

func firstError(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
