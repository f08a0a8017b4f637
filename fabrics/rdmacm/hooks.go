package rdmacm

/*
#cgo pkg-config: librdmacm libibverbs
#cgo CFLAGS: -O2 -std=gnu11 -Wall
#cgo LDFLAGS: -rdynamic -ldl
#include "hooks.h"
*/
import "C"

import (
	"encoding/binary"
	"net/netip"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Configure is applied to every queue pair that is connected or accepted from now
// on.
func Configure(s Settings) { C.rdmacm_configure(C.uint8_t(s.ACKTimeout), C.uint8_t(s.RetryCount)) }

// Hooked tells whether this package's functions are the ones that libfabric finds.
// They are not where the executable does not export them.
func Hooked() bool { return C.rdmacm_hooked() != 0 }

// Dropped is how many connections were not reported because nobody called
// Established for long, or because there were more than the table holds.
func Dropped() uint64 { return uint64(C.rdmacm_dropped()) }

// Established returns the queue pairs whose connections were made since the last
// call, nil when there are none.
func Established() []QueuePair {
	var list []QueuePair
	var c C.struct_rdmacm_pair
	for C.rdmacm_next(&c) != 0 {
		q := QueuePair{
			Role:        Role(c.role),
			Number:      uint32(c.qp_num),
			Device:      C.GoString(&c.device[0]),
			Local:       address(c.local),
			Remote:      address(c.remote),
			Wanted:      Settings{int(c.ack_wanted), int(c.retry_wanted)},
			ACKTimeout:  int(c.ack_timeout),
			RetryCount:  int(c.retry_count),
			RNRRetry:    int(c.rnr_retry),
			OptionError: errno(c.option_error),
			QueryError:  errno(c.query_error),
		}
		list = append(list, q)
	}
	return list
}

func errno(no C.int32_t) error {
	if no == 0 {
		return nil
	}
	return syscall.Errno(no)
}

// address reads a sockaddr_in or sockaddr_in6; anything else is the zero value.
func address(c [C.RDMACM_ADDRESS]C.uint8_t) netip.AddrPort {
	b := unsafe.Slice((*byte)(unsafe.Pointer(&c[0])), len(c))
	port := binary.BigEndian.Uint16(b[2:])
	switch binary.NativeEndian.Uint16(b) {
	case unix.AF_INET:
		return netip.AddrPortFrom(netip.AddrFrom4([4]byte(b[4:8])), port)
	case unix.AF_INET6:
		return netip.AddrPortFrom(netip.AddrFrom16([16]byte(b[8:24])).Unmap(), port)
	}
	return netip.AddrPort{}
}
