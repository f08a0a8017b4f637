package ofi

/*
#include <stdlib.h>
#include <netinet/in.h>
#include "ofi.h"
*/
import "C"

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"runtime"
	"unsafe"
)

// Role says which side of RMA writes an endpoint is on.
type Role int

const (
	// Receiver endpoints are written to by their peer.
	Receiver Role = iota
	// Sender endpoints write to their peer.
	Sender
)

// Address formats (enum in rdma/fabric.h).
const (
	FormatIPv4 = uint32(C.FI_SOCKADDR_IN)
	FormatIPv6 = uint32(C.FI_SOCKADDR_IN6)
)

// Query selects an interface.
type Query struct {
	Provider string // libfabric provider name, "tcp" or "verbs"
	Address  string // numeric local address; empty asks for any
	Role     Role
	// Rescan makes the provider look for its interfaces again first, where
	// CanRescan says so.
	Rescan bool
}

// Info describes an interface, or one end of a connection to be made.
type Info struct{ c *C.struct_fi_info }

// GetInfo returns the provider's first interface for q. It binds no port.
// Errno 61 (ErrNoData) means that the provider or the address is not there.
func GetInfo(q Query) (*Info, error) {
	C.ofi_setup()
	var node *C.char
	format, flags := uint32(C.FI_FORMAT_UNSPEC), uint64(0)
	if q.Address != "" {
		addr, err := netip.ParseAddr(q.Address)
		if err != nil {
			return nil, fmt.Errorf("fabric address %q is not a numeric address: %w", q.Address, err)
		}
		format, flags = FormatIPv4, C.FI_SOURCE
		if addr.Is6() && !addr.Is4In6() {
			format = FormatIPv6
		}
		node = C.CString(q.Address)
		defer C.free(unsafe.Pointer(node))
	}
	if q.Rescan && CanRescan() {
		flags |= rescanFlag
	}
	caps := C.uint64_t(C.FI_RMA | C.FI_REMOTE_WRITE)
	if q.Role == Sender {
		caps = C.FI_RMA | C.FI_WRITE
	}
	name := C.CString(q.Provider)
	defer C.free(unsafe.Pointer(name))
	var out *C.struct_fi_info
	ret := C.ofi_getinfo(name, node, caps, C.uint32_t(format), C.uint64_t(flags), &out)
	if err := check(ret, fmt.Sprintf("provider %s, address %q", q.Provider, q.Address)); err != nil {
		return nil, err
	}
	return newInfo(out), nil
}

func newInfo(c *C.struct_fi_info) *Info {
	i := &Info{c: c}
	runtime.SetFinalizer(i, (*Info).Close)
	return i
}

// Close frees the description.
func (i *Info) Close() {
	if i == nil || i.c == nil {
		return
	}
	C.fi_freeinfo(i.c)
	i.c = nil
	runtime.SetFinalizer(i, nil)
}

// Dup returns a copy of its own.
func (i *Info) Dup() (*Info, error) {
	if i == nil || i.c == nil {
		return nil, ErrClosed
	}
	c := C.fi_dupinfo(i.c)
	if c == nil {
		return nil, fmt.Errorf("copy of interface description: %w", ErrNoMemory)
	}
	return newInfo(c), nil
}

// WithPort returns a copy whose source address has the port (0: any).
func (i *Info) WithPort(port int) (*Info, error) {
	d, err := i.Dup()
	if err != nil {
		return nil, err
	}
	if d.c.src_addr == nil || d.c.src_addrlen < 4 {
		d.Close()
		return nil, fmt.Errorf("interface has no source address to put port %d into", port)
	}
	// sockaddr_in and sockaddr_in6 both have the port, big-endian, at offset 2.
	binary.BigEndian.PutUint16(unsafe.Slice((*byte)(d.c.src_addr), 4)[2:], uint16(port))
	return d, nil
}

// WithPeer returns a copy whose destination is the raw socket address.
func (i *Info) WithPeer(address []byte) (*Info, error) {
	if len(address) == 0 {
		return nil, fmt.Errorf("peer address is empty")
	}
	d, err := i.Dup()
	if err != nil {
		return nil, err
	}
	ret := C.ofi_info_set_peer(d.c, unsafe.Pointer(&address[0]), C.size_t(len(address)))
	if err := check(ret, "peer address"); err != nil {
		d.Close()
		return nil, err
	}
	return d, nil
}

// Provider is the provider's name.
func (i *Info) Provider() string { return C.GoString(i.c.fabric_attr.prov_name) }

// Device is the domain's name, on verbs the RDMA device.
func (i *Info) Device() string { return C.GoString(i.c.domain_attr.name) }

// AddressFormat is the libfabric address format of its addresses.
func (i *Info) AddressFormat() uint32 { return uint32(i.c.addr_format) }

// Peer is the raw destination address; of a connection request, the requester's.
func (i *Info) Peer() []byte {
	if i.c.dest_addr == nil {
		return nil
	}
	return C.GoBytes(i.c.dest_addr, C.int(i.c.dest_addrlen))
}

// Segments is how many local segments one write may gather.
func (i *Info) Segments() int {
	return max(1, min(int(i.c.tx_attr.iov_limit), C.OFI_MAX_SEGMENTS))
}

// TransmitSize and ReceiveSize are the depths of an endpoint's work queues.
func (i *Info) TransmitSize() int { return int(i.c.tx_attr.size) }

// ReceiveSize is the depth of an endpoint's receive queue.
func (i *Info) ReceiveSize() int { return int(i.c.rx_attr.size) }

// VirtualAddresses tells whether remote addresses are virtual addresses; they are
// offsets into the region otherwise.
func (i *Info) VirtualAddresses() bool {
	return i.c.domain_attr.mr_mode&C.FI_MR_VIRT_ADDR != 0
}

// ReceivePerImmediate tells whether every immediate consumes a posted receive.
func (i *Info) ReceivePerImmediate() bool { return i.c.rx_attr.mode&C.FI_RX_CQ_DATA != 0 }
