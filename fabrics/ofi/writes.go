package ofi

/*
#include <stdlib.h>
#include "ofi.h"
*/
import "C"

import (
	"fmt"
	"unsafe"
)

// MaxSegments is the most local segments a write can gather.
const MaxSegments = int(C.OFI_MAX_SEGMENTS)

// Writes is a batch of RMA writes in C memory, filled by Go and posted with one
// call.
type Writes struct {
	c     []C.struct_ofi_write
	count int
}

// NewWrites makes room for capacity writes.
func NewWrites(capacity int) (*Writes, error) {
	if capacity < 1 {
		return nil, fmt.Errorf("write batch of %d", capacity)
	}
	p := C.calloc(C.size_t(capacity), C.sizeof_struct_ofi_write)
	if p == nil {
		return nil, fmt.Errorf("write batch of %d: %w", capacity, ErrNoMemory)
	}
	return &Writes{c: unsafe.Slice((*C.struct_ofi_write)(p), capacity)}, nil
}

// Close frees the batch.
func (w *Writes) Close() {
	if w == nil || w.c == nil {
		return
	}
	C.free(unsafe.Pointer(&w.c[0]))
	w.c, w.count = nil, 0
}

// Len is the number of writes in the batch, Room how many more fit.
func (w *Writes) Len() int { return w.count }

// Room is how many more writes fit.
func (w *Writes) Room() int { return len(w.c) - w.count }

// Reset empties the batch.
func (w *Writes) Reset() { w.count = 0 }

// Add starts a write on e to the remote address and reports false when the batch
// is full. token comes back with the completion.
func (w *Writes) Add(e *Endpoint, token, address, key uint64) bool {
	if w.count == len(w.c) || e.c == nil {
		return false
	}
	x := &w.c[w.count]
	w.count++
	x.ep = e.c
	x.token = C.uint64_t(token)
	x.remote_addr = C.uint64_t(address)
	x.remote_key = C.uint64_t(key)
	x.immediate = 0
	x.has_immediate = 0
	x.segments = 0
	x.result = 0
	return true
}

// Segment appends length bytes at offset of m to the last added write. It panics
// when the segment is outside m or the write has MaxSegments already: both are
// mistakes of the caller's arithmetic.
func (w *Writes) Segment(m *Memory, offset, length uint64) {
	x := &w.c[w.count-1]
	if m.c == nil || offset > uint64(m.len) || length > uint64(m.len)-offset || int(x.segments) == MaxSegments {
		panic(fmt.Sprintf("segment %d+%d of a %d byte region as number %d of a write", offset, length, m.len, x.segments))
	}
	x.iov[x.segments].iov_base = unsafe.Add(m.base, offset)
	x.iov[x.segments].iov_len = C.size_t(length)
	x.desc[x.segments] = m.desc
	x.segments++
}

// Immediate gives the last added write immediate data.
func (w *Writes) Immediate(value uint32) {
	x := &w.c[w.count-1]
	x.immediate = C.uint64_t(value)
	x.has_immediate = 1
}

// Post posts the batch and returns how many writes were taken. Result tells which.
func (w *Writes) Post() int {
	if w.count == 0 {
		return 0
	}
	return int(C.ofi_post(&w.c[0], C.int(w.count)))
}

// Result is nil or why write i was not posted.
func (w *Writes) Result(i int) error {
	if r := w.c[i].result; r != 0 {
		return Errno(-r)
	}
	return nil
}
