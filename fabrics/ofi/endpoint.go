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

// Listener is a passive endpoint.
type Listener struct{ c *C.struct_fid_pep }

// Listen listens on i's source address; requests arrive on q.
func (f *Fabric) Listen(i *Info, q *EventQueue) (*Listener, error) {
	if f.fabric == nil || i == nil || i.c == nil || q.c == nil {
		return nil, ErrClosed
	}
	l := &Listener{}
	if err := check(C.fi_passive_ep(f.fabric, i.c, &l.c, nil), "open listener"); err != nil {
		return nil, err
	}
	if err := check(C.fi_pep_bind(l.c, &q.c.fid, 0), "bind listener to its event queue"); err != nil {
		l.Close()
		return nil, err
	}
	if err := check(C.fi_listen(l.c), "listen"); err != nil {
		l.Close()
		return nil, err
	}
	address, err := l.Address()
	if err == nil {
		err = boundHandshakes(address)
	}
	if err != nil {
		l.Close()
		return nil, err
	}
	return l, nil
}

// Close stops listening.
func (l *Listener) Close() error {
	if l == nil || l.c == nil {
		return nil
	}
	if err := check(C.fi_close(&l.c.fid), "close listener"); err != nil {
		return err
	}
	l.c = nil
	return nil
}

// Address is the raw socket address it listens on.
func (l *Listener) Address() ([]byte, error) {
	if l.c == nil {
		return nil, ErrClosed
	}
	var buf [128]byte
	n := C.size_t(len(buf))
	if err := check(C.fi_getname(&l.c.fid, unsafe.Pointer(&buf[0]), &n), "address of listener"); err != nil {
		return nil, err
	}
	return append([]byte(nil), buf[:min(int(n), len(buf))]...), nil
}

// Reject answers a connection request with no and frees it.
func (l *Listener) Reject(request *Info) error {
	if l.c == nil || request == nil || request.c == nil {
		return ErrClosed
	}
	err := check(C.fi_reject(l.c, request.c.handle, nil, 0), "reject")
	request.Close()
	return err
}

// Endpoint is one end of a connection.
type Endpoint struct {
	c   *C.struct_fid_ep
	tcp bool
}

// OpenEndpoint opens an endpoint and binds it, see ResolveEndpoint and Bind.
func (f *Fabric) OpenEndpoint(i *Info, events *EventQueue, transmit, receive *CompletionQueue) (*Endpoint, error) {
	e, err := f.ResolveEndpoint(i)
	if err != nil {
		return nil, err
	}
	if err := e.Bind(events, transmit, receive); err != nil {
		e.Close()
		return nil, err
	}
	return e, nil
}

// ResolveEndpoint opens an endpoint. The verbs provider of libfabric before 1.21
// resolves i's peer address in this call and waits up to 2 s for a host that does not
// answer (MXL Fabrics reference §11.1). So this call alone may be made on another
// thread than the fabric's own, as long as the fabric stays open.
func (f *Fabric) ResolveEndpoint(i *Info) (*Endpoint, error) {
	if f.domain == nil || i == nil || i.c == nil {
		return nil, ErrClosed
	}
	e := &Endpoint{tcp: i.Provider() == "tcp"}
	if err := check(C.fi_endpoint(f.domain, i.c, &e.c, nil), "open endpoint"); err != nil {
		return nil, err
	}
	return e, nil
}

// Bind binds the endpoint to its queues and enables it. transmit and receive may be
// the same queue, but both directions always have one: the tcp provider of libfabric
// 1.17 crashes otherwise (MXL Fabrics reference §10.1).
func (e *Endpoint) Bind(events *EventQueue, transmit, receive *CompletionQueue) error {
	if e.c == nil || events.c == nil || transmit.c == nil || receive.c == nil {
		return ErrClosed
	}
	err := check(C.fi_ep_bind(e.c, &events.c.fid, 0), "bind endpoint to its event queue")
	if err == nil && transmit.c == receive.c {
		err = check(C.fi_ep_bind(e.c, &transmit.c.fid, C.FI_TRANSMIT|C.FI_RECV), "bind endpoint to its completion queue")
	} else if err == nil {
		err = check(C.fi_ep_bind(e.c, &transmit.c.fid, C.FI_TRANSMIT), "bind endpoint to its transmit queue")
		if err == nil {
			err = check(C.fi_ep_bind(e.c, &receive.c.fid, C.FI_RECV), "bind endpoint to its receive queue")
		}
	}
	if err == nil {
		err = check(C.fi_enable(e.c), "enable endpoint")
	}
	return err
}

// Close closes the endpoint; what was in flight on it is cancelled.
func (e *Endpoint) Close() error {
	if e == nil || e.c == nil {
		return nil
	}
	if err := check(C.fi_close(&e.c.fid), "close endpoint"); err != nil {
		return err
	}
	e.c = nil
	return nil
}

// Connect starts connecting to the raw socket address. FI_CONNECTED or an error
// arrives on the event queue.
func (e *Endpoint) Connect(address, data []byte) error {
	if e.c == nil {
		return ErrClosed
	}
	if len(address) == 0 {
		return fmt.Errorf("connect: peer address is empty")
	}
	// A copy in C memory: some providers keep the address until it is resolved.
	addr := C.CBytes(address)
	defer C.free(addr)
	param, n := bytesOf(data)
	return check(C.ofi_connect(e.c, addr, param, n, C.bool(e.tcp)), "connect")
}

// Accept answers the request the endpoint was opened from.
func (e *Endpoint) Accept(data []byte) error {
	if e.c == nil {
		return ErrClosed
	}
	param, n := bytesOf(data)
	return check(C.fi_accept(e.c, param, n), "accept")
}

// Shutdown ends the connection.
func (e *Endpoint) Shutdown() error {
	if e.c == nil {
		return ErrClosed
	}
	return check(C.fi_shutdown(e.c, 0), "shut down")
}

// PostReceives posts count receives into m and returns how many were taken.
func (e *Endpoint) PostReceives(m *Memory, count int) (int, error) {
	if e.c == nil || m.c == nil {
		return 0, ErrClosed
	}
	n := C.ofi_post_receives(e.c, m.base, C.size_t(m.len), m.desc, C.int(count))
	if n < 0 {
		return 0, check(n, "post receives")
	}
	return int(n), nil
}

func bytesOf(b []byte) (unsafe.Pointer, C.size_t) {
	if len(b) == 0 {
		return nil, 0
	}
	return unsafe.Pointer(&b[0]), C.size_t(len(b))
}
