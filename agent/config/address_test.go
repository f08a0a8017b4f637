package config

import (
	"net"
	"testing"

	"github.com/vishvananda/netlink"

	"github.com/mxl-stack/mxl-fabrics-agent/tests/namespace"
)

// TestHostAddress: of two interfaces, both with an address, the first is down.
func TestHostAddress(t *testing.T) {
	if !namespace.Within(t) {
		return
	}
	add := func(name, peer string, ip net.IP) netlink.Link {
		t.Helper()
		if err := netlink.LinkAdd(&netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: name}, PeerName: peer}); err != nil {
			t.Fatal(err)
		}
		link, err := netlink.LinkByName(name)
		if err != nil {
			t.Fatal(err)
		}
		if err := netlink.AddrAdd(link, &netlink.Addr{IPNet: &net.IPNet{IP: ip, Mask: net.CIDRMask(24, 32)}}); err != nil {
			t.Fatal(err)
		}
		return link
	}
	address := func() string {
		t.Helper()
		s, err := Load(Machine{Environ: []string{"STATE_DIR=" + t.TempDir(), "HOST_ID=x"}})
		if err != nil {
			t.Fatal(err)
		}
		return s.Config().NMOSHostAddress
	}
	first := add("e1", "e2", net.IPv4(192, 0, 2, 1))
	if got := address(); got != "192.0.2.1" {
		t.Errorf("%q, want the only one, down or not", got)
	}
	if err := netlink.LinkSetUp(add("e3", "e4", net.IPv4(198, 51, 100, 1))); err != nil {
		t.Fatal(err)
	}
	if got := address(); got != "198.51.100.1" {
		t.Errorf("%q, want the one that is up", got)
	}
	if err := netlink.LinkSetUp(first); err != nil {
		t.Fatal(err)
	}
	if got := address(); got != "192.0.2.1" {
		t.Errorf("%q, want the first of two", got)
	}
}
