package doctor

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"golang.org/x/sys/unix"
)

// PathMTU is what was learnt of the way to an address.
type PathMTU struct {
	Interface int // of the outgoing interface
	Path      int // as the kernel knows the path, after trying
	// Small and Large: a short datagram, and one of Interface bytes, arrived:
	// the host answered that nobody listens on its port.
	Small, Large bool
}

const (
	// discard is the port that the datagrams go to (RFC 863); hosts answer that
	// nobody is there.
	discard   = 9
	mtuAnswer = 400 * time.Millisecond
)

// pathMTU sends two datagrams that must not be fragmented to a port where nobody
// listens. A host that gets one answers with an ICMP error, a router that cannot
// pass it on with another.
func pathMTU(ctx context.Context, local, remote string) (PathMTU, error) {
	to, err := netip.ParseAddr(remote)
	if err != nil {
		return PathMTU{}, err
	}
	var from netip.Addr
	if local != "" {
		if from, err = netip.ParseAddr(local); err != nil {
			return PathMTU{}, err
		}
	}
	s, err := openProbe(from, to.Unmap())
	if err != nil {
		return PathMTU{}, err
	}
	defer unix.Close(s.fd)
	var out PathMTU
	if out.Interface, err = s.mtu(); err != nil {
		return out, err
	}
	if out.Small, err = s.try(ctx, 32); err != nil {
		return out, err
	}
	if out.Large, err = s.try(ctx, out.Interface-s.headers); err != nil {
		return out, err
	}
	out.Path, err = s.mtu()
	return out, err
}

// probe is a connected UDP socket that never fragments.
type probe struct {
	fd                  int
	headers             int // IP and UDP
	level, option, flag int // IP_MTU and the level it is at
}

func openProbe(from, to netip.Addr) (*probe, error) {
	s := &probe{headers: 28, level: unix.IPPROTO_IP, option: unix.IP_MTU, flag: unix.IP_MTU_DISCOVER}
	family := unix.AF_INET
	if to.Is6() {
		s.headers, s.level, s.option, s.flag, family = 48, unix.IPPROTO_IPV6, unix.IPV6_MTU, unix.IPV6_MTU_DISCOVER, unix.AF_INET6
	}
	var err error
	if s.fd, err = unix.Socket(family, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0); err != nil {
		return nil, fmt.Errorf("socket: %w", err)
	}
	fail := func(what string, err error) (*probe, error) {
		unix.Close(s.fd)
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	// IP_PMTUDISC_DO, 2 for both families: set the don't-fragment bit.
	if err := unix.SetsockoptInt(s.fd, s.level, s.flag, unix.IP_PMTUDISC_DO); err != nil {
		return fail("don't fragment", err)
	}
	if from.IsValid() {
		if err := unix.Bind(s.fd, sockaddr(from.Unmap(), 0)); err != nil {
			return fail("bind "+from.String(), err)
		}
	}
	if err := unix.Connect(s.fd, sockaddr(to, discard)); err != nil {
		return fail("connect "+to.String(), err)
	}
	wait := unix.NsecToTimeval(int64(mtuAnswer))
	if err := unix.SetsockoptTimeval(s.fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &wait); err != nil {
		return fail("time limit", err)
	}
	return s, nil
}

func sockaddr(a netip.Addr, port int) unix.Sockaddr {
	if a.Is4() {
		return &unix.SockaddrInet4{Addr: a.As4(), Port: port}
	}
	return &unix.SockaddrInet6{Addr: a.As16(), Port: port}
}

func (s *probe) mtu() (int, error) {
	mtu, err := unix.GetsockoptInt(s.fd, s.level, s.option)
	if err != nil {
		return 0, fmt.Errorf("MTU: %w", err)
	}
	return mtu, nil
}

// maxDatagram is the largest UDP payload; a loopback's MTU is above it.
const maxDatagram = 65507

// try says whether a datagram arrived.
func (s *probe) try(ctx context.Context, size int) (bool, error) {
	if ctx.Err() != nil {
		return false, ctx.Err()
	}
	err := unix.Send(s.fd, make([]byte, min(size, maxDatagram)), 0)
	if err == nil {
		_, err = unix.Read(s.fd, make([]byte, 1))
	}
	switch {
	case err == nil, errors.Is(err, unix.ECONNREFUSED):
		return true, nil
	case errors.Is(err, unix.EAGAIN), errors.Is(err, unix.EMSGSIZE):
		return false, nil
	}
	return false, err
}
