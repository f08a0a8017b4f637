package ofi

/*
#include <stdlib.h>
#include "samples.h"
*/
import "C"

import (
	"fmt"
	"sync/atomic"
	"time"
	"unsafe"
)

// SampleRing is a ring of samples in mapped files, channel after channel.
type SampleRing struct {
	Channels []byte
	Length   uint64  // samples of one channel
	Count    int     // channels
	Word     int     // bytes of a sample
	Head     *uint32 // low half of the head index, which is little-endian and aligned
	Sync     *uint32 // futex word
}

func (r SampleRing) put(c *C.struct_ofi_ring) {
	c.channels = (*C.uint8_t)(unsafe.SliceData(r.Channels))
	c.length, c.count, c.word = C.uint64_t(r.Length), C.uint64_t(r.Count), C.uint64_t(r.Word)
	c.head = (*C.uint64_t)(unsafe.Pointer(r.Head))
	c.sync = (*C.uint32_t)(unsafe.Pointer(r.Sync))
}

// WakeRule says which commits wake readers: one in each batch of that many samples,
// as soon as it is more than Early samples into it. Woken is how far that has come
// (MXL format reference §8).
type WakeRule struct{ Batch, Early, Woken uint64 }

// SampleCounts are the running numbers of one end. Others may read them while a run
// lasts. The layout is that of struct ofi_sample_counts.
type SampleCounts struct {
	Head    atomic.Uint64 // last index
	Batch   atomic.Uint64 // samples of the last batch
	At      atomic.Uint64 // CLOCK_TAI nanoseconds of the last commit
	Batches atomic.Uint64
	Samples atomic.Uint64
	Bytes   atomic.Uint64
}

var _ = [1]struct{}{}[unsafe.Sizeof(SampleCounts{})-C.sizeof_struct_ofi_sample_counts]

// SampleBatch is a batch that a run has moved. Began and Ended are the lane's time: of
// a received one, when it was there and when readers could have it; of a sent one, just
// before it was copied and when it was complete, which is 0 while it is in flight.
type SampleBatch struct {
	Head, Count  uint64
	TAI          uint64 // CLOCK_TAI nanoseconds: received: of Ended; sent: of Began
	Began, Ended int64
	Posted       int64 // sent only
}

// SampleRun is what one run has moved.
type SampleRun struct{ c *C.struct_ofi_run }

// Len is how many batches.
func (r SampleRun) Len() int { return int(r.c.count) }

// Batch is one of them.
func (r SampleRun) Batch(i int) SampleBatch {
	b := &r.c.batches[i]
	return SampleBatch{uint64(b.head), uint64(b.count), uint64(b.tai), int64(b.began), int64(b.ended), int64(b.posted)}
}

// SampleCycle is the last cycle of a run, in lane time: when its wait began, how long
// that might have lasted, when it was over, and, of a sender, when its batch was posted.
type SampleCycle struct{ Began, Allowed, Woke, Posted int64 }

// Last is the last cycle.
func (r SampleRun) Last() SampleCycle {
	return SampleCycle{int64(r.c.began), int64(r.c.allowed), int64(r.c.woke), int64(r.c.posted)}
}

// Watch has the next run read the thread's schedstat now and then, as it was last read at
// noted, when the thread had waited for starved nanoseconds for a processor.
func (r SampleRun) Watch(schedstat int, noted, starved int64) {
	r.c.schedstat, r.c.noted, r.c.starved = C.int32_t(schedstat), C.int64_t(noted), C.int64_t(starved)
}

// Starved is the last such reading of the run, or what Watch was given.
func (r SampleRun) Starved() (noted, starved int64) { return int64(r.c.noted), int64(r.c.starved) }

// SampleSink is where a target's batches arrive, and the ring they go to.
type SampleSink struct{ c *C.struct_ofi_sink }

// NewSampleSink makes a sink of count entries of size bytes, stride bytes apart.
// Neither they nor the ring may be Go's memory; both stay until the sink is closed.
func NewSampleSink(ring SampleRing, entries []byte, size uint64, count, stride int) (*SampleSink, error) {
	if count < 1 || size <= C.OFI_SAMPLE_HEADER || uint64(len(entries)) < uint64(count-1)*uint64(stride)+size {
		return nil, fmt.Errorf("%d sample entries of %d bytes, %d apart, in %d bytes", count, size, stride, len(entries))
	}
	c := (*C.struct_ofi_sink)(C.calloc(1, C.sizeof_struct_ofi_sink))
	if c == nil {
		return nil, fmt.Errorf("sample sink: %w", ErrNoMemory)
	}
	ring.put(&c.ring)
	c.entries = (*C.uint8_t)(unsafe.SliceData(entries))
	c.stride, c.entry_size, c.entry_count = C.uint64_t(stride), C.uint64_t(size), C.uint64_t(count)
	return &SampleSink{c}, nil
}

// Close frees the sink.
func (s *SampleSink) Close() {
	if s != nil {
		C.free(unsafe.Pointer(s.c))
		s.c = nil
	}
}

// Renew has runs post a receive into m on e for each batch; without e they post none.
func (s *SampleSink) Renew(e *Endpoint, m *Memory) {
	s.c.receiver, s.c.receive, s.c.receive_desc, s.c.receive_len = nil, nil, nil, 0
	if e != nil && m != nil {
		s.c.receiver, s.c.receive, s.c.receive_desc, s.c.receive_len = e.c, m.base, m.desc, C.uint64_t(m.len)
	}
}

// Unposted is how many receives the last run could not post again; it ended then.
func (s *SampleSink) Unposted() int { return int(s.c.unposted) }

// Run is what the last run moved.
func (s *SampleSink) Run() SampleRun { return SampleRun{&s.c.run} }

// ReceiveSamples is Poll again and again: it publishes each batch that continues what
// the ring has and fits, for about run, and returns earlier when there was nothing for
// wait, when a cycle took over 20 ms, and with anything that is not such a batch, which
// is left to the caller as by Poll. now is the lane's time. Run of the sink tells what
// was published; it is in counts already.
func (p *Poller) ReceiveSamples(s *SampleSink, counts *SampleCounts, rule *WakeRule, now int64, wait, run time.Duration) (int, error) {
	if p.c == nil || s.c == nil {
		return 0, ErrClosed
	}
	s.c.sync_batch, s.c.early, s.c.woken = C.uint64_t(rule.Batch), C.uint64_t(rule.Early), C.uint64_t(rule.Woken)
	n := C.ofi_receive_samples(p.c, s.c, (*C.struct_ofi_sample_counts)(unsafe.Pointer(counts)),
		C.int64_t(now), C.int64_t(wait), C.int64_t(run))
	rule.Woken = uint64(s.c.woken)
	if n < 0 {
		return 0, Errno(-n)
	}
	if p.mappingLost() {
		return 0, ErrMappingLost
	}
	return int(n), nil
}
