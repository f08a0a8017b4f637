package agent

import (
	"net/netip"
	"testing"

	"github.com/mxl-stack/mxl-fabrics-agent/agent/config"
	"github.com/mxl-stack/mxl-fabrics-agent/fabrics"
	"github.com/mxl-stack/mxl-fabrics-agent/peers"
)

func TestRouteTo(t *testing.T) {
	interfaces := []peers.Interface{
		{Name: "ens1", Addrs: []netip.Addr{netip.MustParseAddr("fe80::1"), netip.MustParseAddr("2001:db8::1"), netip.MustParseAddr("192.0.2.1")}, Carrier: true},
	}
	outgoing := func(netip.Addr) netip.Addr { return netip.MustParseAddr("198.51.100.7") }
	up := peers.Link{Up: true}
	for _, c := range []struct {
		name string
		cfg  config.Config
		peer peers.Peer
		want sourceRoute
	}{
		{"the peer's own entry wins", config.Config{DefaultProvider: "tcp", FabricInterface: "10.0.0.1"},
			peers.Peer{Provider: "verbs", LocalFabricAddr: "192.0.2.1", Link: up}, sourceRoute{Provider: fabrics.Verbs, Address: "192.0.2.1", LinkUp: true}},
		{"FABRIC_INTERFACE and DEFAULT_PROVIDER", config.Config{DefaultProvider: "tcp", FabricInterface: "10.0.0.1", ProviderFallback: "tcp"},
			peers.Peer{Link: up}, sourceRoute{Provider: fabrics.TCP, Address: "10.0.0.1", LinkUp: true, Fallback: true}},
		{"a device name stands for its first address", config.Config{DefaultProvider: "tcp", FabricInterface: "ens1"},
			peers.Peer{Link: up}, sourceRoute{Provider: fabrics.TCP, Address: "192.0.2.1", LinkUp: true}},
		{"nothing set: the address towards the peer", config.Config{DefaultProvider: "tcp"},
			peers.Peer{ControlURL: "http://198.51.100.9:8095/api/v1", Link: up}, sourceRoute{Provider: fabrics.TCP, Address: "198.51.100.7", LinkUp: true}},
		{"nothing set and a named peer: the announced address", config.Config{DefaultProvider: "tcp", NMOSHostAddress: "203.0.113.5"},
			peers.Peer{ControlURL: "http://node-b:8095/api/v1", Link: up}, sourceRoute{Provider: fabrics.TCP, Address: "203.0.113.5", LinkUp: true}},
		{"no address at all", config.Config{DefaultProvider: "tcp"}, peers.Peer{Link: up},
			sourceRoute{Provider: fabrics.TCP, LinkReason: "no local fabric address: set FABRIC_INTERFACE or the peer's local_fabric_addr"}},
		{"a dead link keeps its reason", config.Config{DefaultProvider: "tcp", FabricInterface: "192.0.2.1"},
			peers.Peer{Link: peers.Link{Error: "no carrier on ens1 (down)"}}, sourceRoute{Provider: fabrics.TCP, Address: "192.0.2.1", LinkReason: "no carrier on ens1 (down)"}},
	} {
		if got := routeTo(&c.cfg, &c.peer, interfaces, outgoing); got != c.want {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
	}
}

// TestWayTo: an entry of PEERS that says what holds without it is no other
// way, and where packets would go at the moment does not matter.
func TestWayTo(t *testing.T) {
	cfg := &config.Config{DefaultProvider: "tcp", FabricInterface: "192.0.2.1"}
	plain := wayTo(cfg, &peers.Peer{ControlURL: "http://198.51.100.9:8095/api/v1"})
	for _, same := range []peers.Peer{{}, {Provider: "tcp"}, {LocalFabricAddr: "192.0.2.1"}, {RemoteFabricAddr: "node-b.fabric"}} {
		if got := wayTo(cfg, &same); got != plain {
			t.Errorf("%+v: %v, want %v", same, got, plain)
		}
	}
	for _, other := range []peers.Peer{{Provider: "verbs"}, {LocalFabricAddr: "192.0.2.2"}, {RemoteFabricAddr: "198.51.100.9"}} {
		if got := wayTo(cfg, &other); got == plain {
			t.Errorf("%+v: %v as well", other, got)
		}
	}
}
