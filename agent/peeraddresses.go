package agent

import (
	"fmt"
	"net/netip"
	"net/url"
	"slices"

	"github.com/mxl-stack/mxl-fabrics-agent/fabrics"
	"github.com/mxl-stack/mxl-fabrics-agent/peers"
)

// peerAddresses are the addresses that a peer's fabric connections can have: the
// remote_fabric_addr of its entry, and its control URL's when that is a literal. Nil
// when the entry names none: a peer found over NMOS, or one behind a switch, sends
// from whatever its own FABRIC_INTERFACE is, which need not be where it is controlled.
func peerAddresses(p *peers.Peer) []netip.Addr {
	remote, err := netip.ParseAddr(p.RemoteFabricAddr)
	if err != nil {
		return nil
	}
	list := []netip.Addr{plainAddress(remote)}
	if u, err := url.Parse(p.ControlURL); err == nil {
		if control, err := netip.ParseAddr(u.Hostname()); err == nil && plainAddress(control) != list[0] {
			list = append(list, plainAddress(control))
		}
	}
	return list
}

// checkTargetAddress says why this host does not connect to what a destination's
// TargetInfo names. Where the peer's addresses are known it is one of them, or where
// the request came from. A host with several addresses is not refused for using
// another one unless its entry says which one the link has.
func checkTargetAddress(info fabrics.TargetInfo, p *peers.Peer, requestFrom string) error {
	to, err := info.AddrPort()
	if err != nil {
		return nil // the lane says what is wrong with it
	}
	addr := plainAddress(to.Addr())
	if addr.IsUnspecified() || addr.IsMulticast() || to.Port() == 0 {
		return &fabrics.FieldError{Field: "fabricAddress", Err: fmt.Errorf("%s cannot be connected to", to)}
	}
	known := peerAddresses(p)
	if len(known) == 0 || slices.Contains(known, addr) {
		return nil
	}
	if from, err := netip.ParseAddrPort(requestFrom); err == nil && plainAddress(from.Addr()) == addr {
		return nil
	}
	return &fabrics.FieldError{Field: "fabricAddress", Err: fmt.Errorf(
		"%s is none of the addresses of %s, %v (remote_fabric_addr and control_url in PEERS), nor where the request comes from", addr, p.HostID, known)}
}

func plainAddress(a netip.Addr) netip.Addr { return a.Unmap().WithZone("") }
