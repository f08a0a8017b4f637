package fabrics

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"strconv"

	"golang.org/x/sys/unix"
)

// decodeSockaddr reads a raw sockaddr_in or sockaddr_in6 (MXL Fabrics reference
// §2): family in host order, port big-endian, address.
func decodeSockaddr(b []byte) (netip.AddrPort, error) {
	if len(b) < 2 {
		return netip.AddrPort{}, fmt.Errorf("socket address of %d bytes", len(b))
	}
	family := binary.LittleEndian.Uint16(b)
	switch {
	case family == unix.AF_INET && len(b) == unix.SizeofSockaddrInet4:
		addr := netip.AddrFrom4([4]byte(b[4:8]))
		return netip.AddrPortFrom(addr, binary.BigEndian.Uint16(b[2:])), nil
	case family == unix.AF_INET6 && len(b) == unix.SizeofSockaddrInet6:
		addr := netip.AddrFrom16([16]byte(b[8:24]))
		if scope := binary.LittleEndian.Uint32(b[24:]); scope != 0 {
			addr = addr.WithZone(strconv.FormatUint(uint64(scope), 10))
		}
		return netip.AddrPortFrom(addr, binary.BigEndian.Uint16(b[2:])), nil
	}
	return netip.AddrPort{}, fmt.Errorf("socket address of family %d with %d bytes", family, len(b))
}

// encodeSockaddr is its inverse for addresses without a named zone.
func encodeSockaddr(ap netip.AddrPort) (format uint32, b []byte) {
	addr := ap.Addr()
	if addr.Is4() {
		b = make([]byte, unix.SizeofSockaddrInet4)
		binary.LittleEndian.PutUint16(b, unix.AF_INET)
		binary.BigEndian.PutUint16(b[2:], ap.Port())
		a := addr.As4()
		copy(b[4:], a[:])
		return formatIPv4, b
	}
	b = make([]byte, unix.SizeofSockaddrInet6)
	binary.LittleEndian.PutUint16(b, unix.AF_INET6)
	binary.BigEndian.PutUint16(b[2:], ap.Port())
	a := addr.As16()
	copy(b[8:], a[:])
	if scope, err := strconv.ParseUint(addr.Zone(), 10, 32); err == nil {
		binary.LittleEndian.PutUint32(b[24:], uint32(scope))
	}
	return formatIPv6, b
}
