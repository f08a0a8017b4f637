package ofi

/*
#include <stdlib.h>
#include "mappings.h"
#include "ofi.h"
*/
import "C"

import (
	"errors"
	"fmt"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// EventKind is what happened to a connection.
type EventKind uint32

// Kinds of events.
const (
	EventRequest   = EventKind(C.FI_CONNREQ)
	EventConnected = EventKind(C.FI_CONNECTED)
	EventShutdown  = EventKind(C.FI_SHUTDOWN)
	EventError     = EventKind(0xffffffff)
)

// Event is one connection event.
type Event struct {
	Kind    EventKind
	Err     error  // of EventError
	Request *Info  // of EventRequest; the reader accepts or rejects it
	Data    []byte // connection data, valid until the next Poll
	fid     *C.struct_fid
}

// Of tells whether the event is about e.
func (v Event) Of(e *Endpoint) bool { return e != nil && e.c != nil && v.fid == &e.c.fid }

// Poller is what one thread waits on: a completion queue, an event queue and a
// wake-up of its own.
type Poller struct {
	c       *C.struct_ofi_poller
	entries []C.struct_fi_cq_data_entry
	event   Event
	faults  uint32 // of the thread's mappings, as last seen
	lost    bool   // one more during the last Exchange
}

// NewPoller makes a poller that reads up to capacity completions at a time.
func (f *Fabric) NewPoller(events *EventQueue, capacity int) (*Poller, error) {
	if f.fabric == nil || events.c == nil {
		return nil, ErrClosed
	}
	fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		return nil, fmt.Errorf("lane wake-up descriptor: %w", err)
	}
	p := (*C.struct_ofi_poller)(C.calloc(1, C.sizeof_struct_ofi_poller))
	e := C.calloc(C.size_t(capacity), C.sizeof_struct_fi_cq_data_entry)
	if p == nil || e == nil {
		C.free(unsafe.Pointer(p))
		C.free(e)
		unix.Close(fd)
		return nil, fmt.Errorf("poller of %d entries: %w", capacity, ErrNoMemory)
	}
	p.fabric = f.fabric
	p.eq, p.eq_fd = events.c, events.fd
	p.cq_fd = -1
	p.wake_fd = C.int(fd)
	p.capacity = C.int(capacity)
	p.entries = (*C.struct_fi_cq_data_entry)(e)
	return &Poller{c: p, entries: unsafe.Slice(p.entries, capacity)}, nil
}

// Close frees the poller; the queues stay.
func (p *Poller) Close() {
	if p == nil || p.c == nil {
		return
	}
	unix.Close(int(p.c.wake_fd))
	C.free(unsafe.Pointer(p.c.entries))
	C.free(unsafe.Pointer(p.c))
	p.c, p.entries = nil, nil
}

// Watch makes q the completion queue that is read; nil leaves none.
func (p *Poller) Watch(q *CompletionQueue) {
	p.c.cq, p.c.cq_fd = nil, -1
	if q != nil {
		p.c.cq, p.c.cq_fd = q.c, q.fd
	}
}

// WakeFD is an eventfd that ends a wait when 1 is written to it, from any thread.
func (p *Poller) WakeFD() int { return int(p.c.wake_fd) }

// Poll reads completions and at most one event. When there is neither it waits,
// at most for timeout, until there is or until the wake-up. It returns the number
// of completions.
func (p *Poller) Poll(timeout time.Duration) (int, error) {
	if p.c == nil {
		return 0, ErrClosed
	}
	n := C.ofi_poll(p.c, C.int64_t(timeout))
	if n < 0 {
		return 0, Errno(-n)
	}
	if p.mappingLost() {
		return 0, ErrMappingLost
	}
	return int(n), nil
}

// ErrMappingLost says that memory which the library was given belongs to a file that
// is shorter now: what was read from there is zeroes, what was written is gone.
var ErrMappingLost = errors.New("ofi: a mapped file was truncated")

// mappingLost says whether a page went missing on this thread since it last did.
func (p *Poller) mappingLost() bool {
	faults := uint32(C.ofi_mapping_faults())
	lost := faults != p.faults
	p.faults = faults
	return lost
}

// Word is a futex word in memory that is not Go's, and the value it had when it was
// last looked at. No address is no word.
type Word struct {
	Address *uint32
	Seen    uint32
	// Glance is how often the word is looked at while the queues are waited on; 0
	// waits on the word, after one look at the queues.
	Glance time.Duration
	// Head is another word of the same file, looked at every HeadEvery of a wait on
	// the word; it ends the wait when it no longer holds HeadSeen. Nil is none.
	Head      *uint32
	HeadSeen  uint32
	HeadEvery time.Duration
}

// Hold keeps the completion of the one transfer in flight until the next may be
// posted: a return to Go in between would have nothing to do. The transfer was posted
// Age ago; passes are Pass apart from then on, the one that notices the completion is
// the first not before it, and the next transfer is due Gap after that. The zero
// value holds nothing.
type Hold struct{ Age, Pass, Gap time.Duration }

// Exchange posts the batch and then waits like Poll, also until the word holds
// another value than Seen. After a write that was refused it does not wait. A
// completion is held back as hold says; Held tells for how long it was. Only the
// wake-up ends that early: connection events come after it.
func (p *Poller) Exchange(w *Writes, timeout time.Duration, word Word, hold Hold) (int, error) {
	if p.c == nil || w.c == nil {
		return 0, ErrClosed
	}
	p.c.head = (*C.uint32_t)(unsafe.Pointer(word.Head))
	p.c.head_seen, p.c.head_every = C.uint32_t(word.HeadSeen), C.int64_t(word.HeadEvery)
	p.c.hold_age, p.c.hold_pass, p.c.hold_gap = C.int64_t(hold.Age), C.int64_t(hold.Pass), C.int64_t(hold.Gap)
	n := C.ofi_exchange(p.c, &w.c[0], C.int(w.count), C.int64_t(timeout),
		(*C.uint32_t)(unsafe.Pointer(word.Address)), C.uint32_t(word.Seen), C.int64_t(word.Glance))
	p.lost = p.mappingLost()
	if n < 0 {
		return 0, Errno(-n)
	}
	return int(n), nil
}

// Posting is how long the last Exchange took to post.
func (p *Poller) Posting() time.Duration { return time.Duration(p.c.posting) }

// Held is how long the last Exchange held a completion back.
func (p *Poller) Held() time.Duration { return time.Duration(p.c.held) }

// WordError is nil or why the last Exchange could not wait on its word, or could not
// read the memory that it posted from (ErrMappingLost).
func (p *Poller) WordError() error {
	if p.lost {
		return ErrMappingLost
	}
	if p.c.flags&C.OFI_WORD_ERROR == 0 {
		return nil
	}
	return Errno(p.c.word_error)
}

// Token is what the i-th completed transfer was posted with.
func (p *Poller) Token(i int) uint64 { return uint64(uintptr(p.entries[i].op_context)) }

// Immediate is the immediate data of the i-th completion, if it carries any. No
// other flag is looked at: they differ between versions (MXL Fabrics reference §8).
func (p *Poller) Immediate(i int) (uint32, bool) {
	e := &p.entries[i]
	return uint32(e.data), e.flags&C.FI_REMOTE_CQ_DATA != 0
}

// Failed reports the failed transfer that the last Poll took, if any.
func (p *Poller) Failed() (token uint64, err error) {
	if p.c.flags&C.OFI_CQ_ERROR == 0 {
		return 0, nil
	}
	no := Errno(p.c.error.err)
	if no <= 0 {
		no = Errno(C.FI_EOTHER)
	}
	return uint64(uintptr(p.c.error.op_context)), no
}

// Woken tells whether the last Poll saw the wake-up.
func (p *Poller) Woken() bool { return p.c.flags&C.OFI_WOKEN != 0 }

// Interrupted is how often a signal interrupted a wait so far.
func (p *Poller) Interrupted() uint64 { return uint64(p.c.interrupted) }

// Event returns the event that the last Poll took, if any.
func (p *Poller) Event() (*Event, bool) {
	if p.c.flags&C.OFI_EVENT == 0 {
		return nil, false
	}
	c := &p.c.event
	p.event = Event{Kind: EventKind(c.kind), fid: c.fid}
	if c.error != 0 {
		p.event.Kind, p.event.Err = EventError, Errno(c.error)
	}
	if c.info != nil {
		p.event.Request = newInfo(c.info)
		c.info = nil
	}
	if c.data_len > 0 {
		p.event.Data = unsafe.Slice((*byte)(unsafe.Pointer(&c.data[0])), int(c.data_len))
	}
	return &p.event, true
}
