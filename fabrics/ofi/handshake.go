package ofi

import (
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// handshakeWait bounds, in milliseconds, how long libfabric's tcp provider waits
// for the rest of a connection request. It reads the request's data with a blocking
// recv inside fi_eq_read (1.17, rx_cm_data), so that a client that announces data
// and sends none would stop the lane that reads the event queue for as long as it
// likes. Header and data of a real request are one segment.
const handshakeWait = 50

// boundHandshakes sets the receive timeout of the listening TCP sockets of this
// process that are bound to address; accepted sockets inherit it (socket(7)). It is
// of no effect once libfabric has made them non-blocking. libfabric does not give
// the socket away, so it is looked for. Where there is none (verbs), nothing is done.
func boundHandshakes(address []byte) error {
	fds, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return fmt.Errorf("bound handshakes: %w", err)
	}
	for _, entry := range fds {
		fd, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		if listening, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_ACCEPTCONN); err != nil || listening == 0 {
			continue
		}
		name, err := unix.Getsockname(fd)
		if err != nil || !sameSocket(name, address) {
			continue
		}
		wait := unix.NsecToTimeval(handshakeWait * 1e6)
		if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &wait); err != nil {
			return fmt.Errorf("bound handshakes: %w", err)
		}
	}
	return nil
}

// sameSocket compares a socket's name with a raw socket address (struct sockaddr_in
// or sockaddr_in6).
func sameSocket(name unix.Sockaddr, address []byte) bool {
	switch name := name.(type) {
	case *unix.SockaddrInet4:
		return len(address) >= 8 && int(address[2])<<8|int(address[3]) == name.Port && [4]byte(address[4:8]) == name.Addr
	case *unix.SockaddrInet6:
		return len(address) >= 24 && int(address[2])<<8|int(address[3]) == name.Port && [16]byte(address[8:24]) == name.Addr
	}
	return false
}
