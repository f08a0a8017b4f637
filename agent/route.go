package agent

import (
	"cmp"
	"net"
	"net/netip"
	"net/url"
	"slices"

	"github.com/mxl-stack/mxl-fabrics-agent/agent/config"
	"github.com/mxl-stack/mxl-fabrics-agent/fabrics"
	"github.com/mxl-stack/mxl-fabrics-agent/peers"
)

// routeTo says over which provider and from which local address this host
// reaches a peer: the peer's own entry, else FABRIC_INTERFACE and
// DEFAULT_PROVIDER, else the address from which the peer's control URL is
// reached. The source address is always explicit (field notes 19).
func routeTo(cfg *config.Config, p *peers.Peer, interfaces []peers.Interface, outgoing func(netip.Addr) netip.Addr) sourceRoute {
	r := sourceRoute{
		Provider:   fabrics.Provider(cmp.Or(p.Provider, cfg.DefaultProvider)),
		LinkUp:     p.Link.Up,
		LinkReason: p.Link.Error,
		Fallback:   cfg.ProviderFallback == string(fabrics.TCP),
	}
	r.Address = cmp.Or(p.LocalFabricAddr, cfg.FabricInterface)
	if r.Address == "" {
		if to := hostAddress(p.RemoteFabricAddr, p.ControlURL); to.IsValid() {
			if from := outgoing(to); from.IsValid() {
				r.Address = from.String()
			}
		}
	}
	r.Address = cmp.Or(r.Address, cfg.NMOSHostAddress)
	if addr := deviceAddress(r.Address, interfaces); addr.IsValid() {
		r.Address = addr.String()
	}
	if r.LinkUp && r.Address == "" {
		r.LinkUp, r.LinkReason = false, "no local fabric address: set FABRIC_INTERFACE or the peer's local_fabric_addr"
	}
	return r
}

// way is what the settings say of the way to a peer. Unlike the sourceRoute that
// follows from it, nothing but a setting changes it.
type way struct {
	Provider, Address string
	Remote            netip.Addr // who may connect to a target, see peerAddresses; invalid: not known
}

func wayTo(cfg *config.Config, p *peers.Peer) way {
	w := way{Provider: cmp.Or(p.Provider, cfg.DefaultProvider), Address: cmp.Or(p.LocalFabricAddr, cfg.FabricInterface)}
	if remote, err := netip.ParseAddr(p.RemoteFabricAddr); err == nil {
		w.Remote = plainAddress(remote)
	}
	return w
}

// hostAddress is the first of the two that is, or names, an address literal.
func hostAddress(remote, controlURL string) netip.Addr {
	if a, err := netip.ParseAddr(remote); err == nil {
		return a
	}
	u, err := url.Parse(controlURL)
	if err != nil {
		return netip.Addr{}
	}
	a, _ := netip.ParseAddr(u.Hostname())
	return a
}

// deviceAddress is the first address of the interface called name, IPv4 before
// IPv6 and never link-local before another; invalid when there is none of that
// name.
func deviceAddress(name string, interfaces []peers.Interface) netip.Addr {
	for _, i := range interfaces {
		if i.Name != name {
			continue
		}
		addrs := slices.Clone(i.Addrs)
		slices.SortStableFunc(addrs, func(a, b netip.Addr) int {
			return cmp.Compare(addressRank(a), addressRank(b))
		})
		if len(addrs) > 0 {
			return addrs[0]
		}
	}
	return netip.Addr{}
}

func addressRank(a netip.Addr) int {
	switch {
	case a.Is4():
		return 0
	case !a.IsLinkLocalUnicast():
		return 1
	}
	return 2
}

// outgoingAddress asks the kernel's routing table from which address packets to
// a host would go. Nothing is sent.
func outgoingAddress(to netip.Addr) netip.Addr {
	conn, err := net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(netip.AddrPortFrom(to, 9)))
	if err != nil {
		return netip.Addr{}
	}
	defer conn.Close()
	if a, ok := conn.LocalAddr().(*net.UDPAddr); ok {
		return a.AddrPort().Addr().Unmap()
	}
	return netip.Addr{}
}
