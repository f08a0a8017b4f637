package ofi

/*
#include <stdlib.h>
#include "samples.h"
*/
import "C"

import (
	"fmt"
	"time"
	"unsafe"
)

// SampleEntry is one bounce-buffer entry of a target.
type SampleEntry struct{ Address, Key uint64 }

// SampleFeed is what batches towards one target are sent with.
type SampleFeed struct{ c *C.struct_ofi_feed }

// NextPost is when the batch after one with these times is due: gap after the first
// pass that was not before its completion, passes being pass apart from its post on.
func NextPost(posted, completed int64, pass, gap time.Duration) int64 {
	return int64(C.ofi_next_post(C.int64_t(posted), C.int64_t(completed), C.int64_t(pass), C.int64_t(gap)))
}

// NewSampleFeed makes a feed towards remote, from count buffers in m, stride bytes
// apart, each as long as an entry.
func NewSampleFeed(m *Memory, count, stride int, remote []SampleEntry) (*SampleFeed, error) {
	if m.c == nil || count < 1 || count*stride > m.len || len(remote) == 0 {
		return nil, fmt.Errorf("%d send buffers of %d bytes, %d entries", count, stride, len(remote))
	}
	c := (*C.struct_ofi_feed)(C.calloc(1, C.sizeof_struct_ofi_feed))
	r := (*C.struct_ofi_remote)(C.calloc(C.size_t(len(remote)), C.sizeof_struct_ofi_remote))
	if c == nil || r == nil {
		C.free(unsafe.Pointer(c))
		C.free(unsafe.Pointer(r))
		return nil, fmt.Errorf("sample feed: %w", ErrNoMemory)
	}
	for i := range unsafe.Slice(r, len(remote)) {
		unsafe.Slice(r, len(remote))[i] = C.struct_ofi_remote{C.uint64_t(remote[i].Address), C.uint64_t(remote[i].Key)}
	}
	c.remote, c.remotes = r, C.uint64_t(len(remote))
	c.buffers, c.stride, c.buffer_count = (*C.uint8_t)(m.base), C.uint64_t(stride), C.uint64_t(count)
	c.write.segments, c.write.has_immediate = 1, 1
	c.write.desc[0] = m.desc
	return &SampleFeed{c}, nil
}

// Close frees the feed.
func (f *SampleFeed) Close() {
	if f == nil || f.c == nil {
		return
	}
	C.free(unsafe.Pointer(f.c.remote))
	C.free(unsafe.Pointer(f.c))
	f.c = nil
}

// Run is what the last run moved.
func (f *SampleFeed) Run() SampleRun { return SampleRun{&f.c.run} }

// Refused is nil or why the last run's last batch was not posted. It is not in Run.
func (f *SampleFeed) Refused() error {
	if r := f.c.write.result; r != 0 {
		return Errno(-r)
	}
	return nil
}

// SampleTask is where a run of a feed begins, and its pace: a batch is due Gap after
// the pass that saw the last one complete; passes are Pass apart.
type SampleTask struct {
	Ring      SampleRing
	Endpoint  *Endpoint
	Token     uint64
	Entry     uint64 // number of the next batch, of all connections
	Next      uint64 // number of the next sample
	Limit     uint64 // most samples of a batch
	NextPost  int64  // lane time
	Pass, Gap time.Duration
}

// SendSamples is Exchange again and again, with one batch in flight at a time: it sends
// what the ring has beyond Next when that is due, until end. It returns earlier when
// that is not the ring's readable half, when the origin pauses, when a cycle took over
// 20 ms, and with anything but the batch's completion, which is left to the caller as
// by Exchange. now and end are the lane's time. Run of the feed tells what was sent;
// what was complete is in counts already.
func (p *Poller) SendSamples(f *SampleFeed, counts *SampleCounts, t *SampleTask, now, end int64) (int, error) {
	if p.c == nil || f.c == nil || t.Endpoint.c == nil {
		return 0, ErrClosed
	}
	c := f.c
	t.Ring.put(&c.ring)
	c.write.ep, c.write.token = t.Endpoint.c, C.uint64_t(t.Token)
	c.entry, c.next, c.limit = C.uint64_t(t.Entry), C.uint64_t(t.Next), C.uint64_t(t.Limit)
	c.next_post, c.pass, c.gap = C.int64_t(t.NextPost), C.int64_t(t.Pass), C.int64_t(t.Gap)
	n := C.ofi_send_samples(p.c, c, (*C.struct_ofi_sample_counts)(unsafe.Pointer(counts)), C.int64_t(now), C.int64_t(end))
	p.lost = p.mappingLost()
	if n < 0 {
		return 0, Errno(-n)
	}
	return int(n), nil
}
