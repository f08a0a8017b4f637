package nmos

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"syscall"

	"golang.org/x/net/ipv4"
	"golang.org/x/sys/unix"
)

// multicastGroup is mDNS over IPv4 (RFC 6762 §3).
var multicastGroup = netip.MustParseAddrPort("224.0.0.251:5353")

// multicastSocket is one UDP socket that has joined a group on every interface.
type multicastSocket struct {
	conn       *ipv4.PacketConn
	group      *net.UDPAddr
	interfaces []net.Interface
}

// openMulticast binds the group's port next to other responders of this host
// (Avahi) and joins the group. interfaces nil: all that are up and multicast.
func openMulticast(ctx context.Context, group netip.AddrPort, interfaces []net.Interface) (*multicastSocket, error) {
	if interfaces == nil {
		all, err := net.Interfaces()
		if err != nil {
			return nil, fmt.Errorf("mdns: %w", err)
		}
		for _, i := range all {
			if i.Flags&net.FlagUp != 0 && i.Flags&net.FlagMulticast != 0 {
				interfaces = append(interfaces, i)
			}
		}
	}
	lc := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) error {
		var err error
		if e := c.Control(func(fd uintptr) {
			err = errors.Join(
				unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEADDR, 1),
				unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEPORT, 1))
		}); e != nil {
			return e
		}
		return err
	}}
	pc, err := lc.ListenPacket(ctx, "udp4", netip.AddrPortFrom(netip.IPv4Unspecified(), group.Port()).String())
	if err != nil {
		return nil, fmt.Errorf("mdns: %w", err)
	}
	s := &multicastSocket{conn: ipv4.NewPacketConn(pc), group: net.UDPAddrFromAddrPort(group)}
	for _, i := range interfaces {
		if s.conn.JoinGroup(&i, s.group) == nil { // an interface without IPv4 cannot
			s.interfaces = append(s.interfaces, i)
		}
	}
	// Loopback lets a responder on this host see our questions; 255 is what
	// RFC 6762 §11 asks for.
	err = errors.Join(s.conn.SetMulticastLoopback(true), s.conn.SetMulticastTTL(255))
	if err == nil && len(s.interfaces) == 0 {
		err = errors.New("no interface can join the group")
	}
	if err != nil {
		return nil, fmt.Errorf("mdns: group %s: %w", group, errors.Join(err, pc.Close()))
	}
	return s, nil
}

// send sends a packet out of every interface; it fails only when all fail.
func (s *multicastSocket) send(packet []byte) error {
	var failed []error
	for _, i := range s.interfaces {
		_, err := s.conn.WriteTo(packet, &ipv4.ControlMessage{IfIndex: i.Index}, s.group)
		if err != nil {
			failed = append(failed, fmt.Errorf("%s: %w", i.Name, err))
		}
	}
	if len(failed) == len(s.interfaces) {
		return fmt.Errorf("mdns: sending: %w", errors.Join(failed...))
	}
	return nil
}

// reply answers one asker directly (legacy unicast, RFC 6762 §6.7).
func (s *multicastSocket) reply(packet []byte, to net.Addr) error {
	_, err := s.conn.WriteTo(packet, nil, to)
	return err
}

func (s *multicastSocket) close() error { return s.conn.Close() }
