package mxl

import (
	"fmt"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"sync/atomic"
)

func grainName(slot int) string { return "data." + strconv.Itoa(slot) }

// grainRing is the mapped ring of a discrete flow.
type grainRing struct {
	flow
	slots       [][]byte
	totalSlices int
	payloadSize int
}

// mapRing maps the header and every grain file.
func (r *grainRing) mapRing(files *flowFiles) error {
	r.slots = make([][]byte, 0, len(files.ring))
	if err := r.mapData(files); err != nil {
		return err
	}
	for i, g := range files.ring {
		mem, err := mapFile(g.fd, g.size, files.write)
		if err != nil {
			r.unmapRing()
			return fmt.Errorf("mxl: %s: %w", filepath.Join(files.dir, nameGrains, grainName(i)), err)
		}
		r.slots = append(r.slots, mem)
	}
	r.totalSlices, r.payloadSize = int(files.grain.TotalSlices), int(files.grain.GrainSize)
	return nil
}

func (r *grainRing) unmapRing() {
	for i := range r.slots {
		unmap(&r.slots[i])
	}
	r.unmapData()
}

// Depth returns the slots of the ring.
func (r *grainRing) Depth() uint64 { return uint64(len(r.slots)) }

// SlotOf returns the ring slot of an index.
func (r *grainRing) SlotOf(index uint64) int { return int(index % uint64(len(r.slots))) }

// PayloadSize returns the payload bytes of a grain.
func (r *grainRing) PayloadSize() int { return r.payloadSize }

// TotalSlices returns the slices of a grain.
func (r *grainRing) TotalSlices() int { return r.totalSlices }

// SliceSizes returns the bytes of a slice in each plane.
func (r *grainRing) SliceSizes() [4]uint32 { return r.info.SliceSizes }

// PlaneOffset returns where a plane starts in the slot, in bytes: slice s of plane p is at
// PlaneOffset(p) + s*SliceSizes()[p] (MXL format reference §3.1).
func (r *grainRing) PlaneOffset(plane int) int {
	off := PayloadOffset
	for p := range plane {
		off += int(r.info.SliceSizes[p]) * r.totalSlices
	}
	return off
}

// Slot returns a whole mapped grain file, PayloadOffset bytes of header and then the payload; nil after Close.
func (r *grainRing) Slot(i int) []byte { return r.slots[i] }

// Header returns the header of a slot, consistent while no writer changes its index. After Close and when the mapping
// lost its file its Index is UndefinedIndex.
func (r *grainRing) Header(slot int) (h GrainHeader) {
	h.Index = UndefinedIndex
	if r.closed() {
		return h
	}
	defer r.recoverValue(debug.SetPanicOnFault(true))
	return r.loadHeader(slot)
}

// loadHeader reads the header with atomic loads, again when its index changed meanwhile.
func (r *grainRing) loadHeader(slot int) GrainHeader {
	mem := r.slots[slot]
	index := word64(mem, offGrainIndex)
	h := GrainHeader{Index: atomic.LoadUint64(index)}
	for range 4 {
		h.Version = atomic.LoadUint32(word32(mem, offVersion))
		h.Size = atomic.LoadUint32(word32(mem, offSize))
		h.Flags = atomic.LoadUint32(word32(mem, offGrainFlags))
		h.GrainSize = atomic.LoadUint32(word32(mem, offGrainSize))
		slices := atomic.LoadUint32(word32(mem, offGrainSlices))
		h.TotalSlices, h.ValidSlices = uint16(slices), uint16(slices>>16)
		again := atomic.LoadUint64(index)
		if again == h.Index {
			break
		}
		h.Index = again
	}
	return h
}

// storeSlices sets validSlices, the last field of a header to be written.
func (r *grainRing) storeSlices(slot, valid int) {
	atomic.StoreUint32(word32(r.slots[slot], offGrainSlices), uint32(r.totalSlices)|uint32(valid)<<16)
}

// grainStatus decides whether a reader gets an index: nil, ErrTooEarly, ErrTooLate or ErrSkipped
// (MXL format reference §7.2, with the check of the slot's index that the SDK lacks).
func grainStatus(index, head, depth uint64, written bool, h GrainHeader, minSlices int) error {
	oldest := uint64(0)
	if head >= depth {
		oldest = head - depth + 1
	}
	switch {
	case index > head:
		return ErrTooEarly
	case index < oldest:
		return ErrTooLate
	case h.Index > index:
		return ErrTooLate // the slot is being written for a later index
	case h.Index < index:
		return ErrSkipped
	case h.Invalid():
		return nil
	case !written:
		return ErrTooEarly // a new flow: index 0 looks like the head and was never written
	case int(h.ValidSlices) >= min(minSlices, int(h.TotalSlices)):
		return nil
	}
	return ErrTooEarly
}
