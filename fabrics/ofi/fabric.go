package ofi

/*
#include "ofi.h"
*/
import "C"

import (
	"fmt"
	"unsafe"
)

// Fabric is an opened fabric with one domain on it, the root of a lane's objects.
type Fabric struct {
	fabric *C.struct_fid_fabric
	domain *C.struct_fid_domain
}

// Open opens the fabric and the domain that i describes.
func Open(i *Info) (*Fabric, error) {
	if i == nil || i.c == nil {
		return nil, ErrClosed
	}
	f := &Fabric{}
	if err := check(C.fi_fabric(i.c.fabric_attr, &f.fabric, nil), "open fabric"); err != nil {
		return nil, err
	}
	if err := check(C.fi_domain(f.fabric, i.c, &f.domain, nil), "open domain"); err != nil {
		C.fi_close(&f.fabric.fid)
		return nil, err
	}
	return f, nil
}

// Close closes domain and fabric. Everything opened from them must be closed
// before; libfabric refuses otherwise and the error says so.
func (f *Fabric) Close() error {
	if f.domain != nil {
		if err := check(C.fi_close(&f.domain.fid), "close domain"); err != nil {
			return err
		}
		f.domain = nil
	}
	if f.fabric != nil {
		if err := check(C.fi_close(&f.fabric.fid), "close fabric"); err != nil {
			return err
		}
		f.fabric = nil
	}
	return nil
}

// EventQueue reports connection events.
type EventQueue struct {
	c  *C.struct_fid_eq
	fd C.int
}

// OpenEventQueue opens an event queue of depth entries.
func (f *Fabric) OpenEventQueue(depth int) (*EventQueue, error) {
	if f.fabric == nil {
		return nil, ErrClosed
	}
	q := &EventQueue{}
	if err := check(C.ofi_open_eq(f.fabric, C.size_t(depth), &q.c, &q.fd), "open event queue"); err != nil {
		return nil, err
	}
	return q, nil
}

// Close closes the queue.
func (q *EventQueue) Close() error {
	if q == nil || q.c == nil {
		return nil
	}
	if err := check(C.fi_close(&q.c.fid), "close event queue"); err != nil {
		return err
	}
	q.c = nil
	return nil
}

// CompletionQueue reports finished transfers.
type CompletionQueue struct {
	c  *C.struct_fid_cq
	fd C.int
}

// OpenCompletionQueue opens a completion queue of depth entries.
func (f *Fabric) OpenCompletionQueue(depth int) (*CompletionQueue, error) {
	if f.domain == nil {
		return nil, ErrClosed
	}
	q := &CompletionQueue{}
	if err := check(C.ofi_open_cq(f.domain, C.size_t(depth), &q.c, &q.fd), "open completion queue"); err != nil {
		return nil, err
	}
	return q, nil
}

// Close closes the queue. Endpoints bound to it must be closed before.
func (q *CompletionQueue) Close() error {
	if q == nil || q.c == nil {
		return nil
	}
	if err := check(C.fi_close(&q.c.fid), "close completion queue"); err != nil {
		return err
	}
	q.c = nil
	return nil
}

// Access says what a memory region may be used for.
type Access int

const (
	// AccessSource regions are what writes are made from; they may be read-only.
	AccessSource Access = iota
	// AccessTarget regions are written by the peer.
	AccessTarget
)

// Memory is a registered region.
type Memory struct {
	c    *C.struct_fid_mr
	base unsafe.Pointer
	desc unsafe.Pointer
	key  uint64
	len  int
	virt bool
}

// Register registers mem, which must not be Go heap memory and must stay mapped
// until Close. key is used where the provider takes the caller's key.
func (f *Fabric) Register(i *Info, mem []byte, access Access, key uint64) (*Memory, error) {
	if f.domain == nil {
		return nil, ErrClosed
	}
	if len(mem) == 0 {
		return nil, fmt.Errorf("register memory: region is empty")
	}
	rights := C.uint64_t(C.FI_WRITE)
	if access == AccessTarget {
		rights = C.FI_REMOTE_WRITE
	}
	m := &Memory{base: unsafe.Pointer(&mem[0]), len: len(mem), virt: i.VirtualAddresses()}
	ret := C.ofi_register(f.domain, unsafe.Pointer(&mem[0]), C.size_t(len(mem)), rights, C.uint64_t(key), &m.c)
	if err := check(ret, fmt.Sprintf("register %d bytes", len(mem))); err != nil {
		return nil, err
	}
	m.desc, m.key = C.fi_mr_desc(m.c), uint64(C.fi_mr_key(m.c))
	return m, nil
}

// Close deregisters the region.
func (m *Memory) Close() error {
	if m == nil || m.c == nil {
		return nil
	}
	if err := check(C.fi_close(&m.c.fid), "deregister memory"); err != nil {
		return err
	}
	m.c = nil
	return nil
}

// Key is what a peer needs to write to the region.
func (m *Memory) Key() uint64 { return m.key }

// RemoteAddress is the address by which a peer addresses the region's first byte.
func (m *Memory) RemoteAddress() uint64 {
	if m.virt {
		return uint64(uintptr(m.base))
	}
	return 0
}

// Len is the region's length in bytes.
func (m *Memory) Len() int { return m.len }
