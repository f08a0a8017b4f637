package doctor

import (
	"net/netip"

	"github.com/mxl-stack/mxl-fabrics-agent/peers"
)

// fabric looks at the local ends of the fabric links: FABRIC_INTERFACE, which
// needs no peer to be wrong, and local_fabric_addr of each peer.
func (e *examination) fabric() {
	interfaces, err := e.sys.Interfaces()
	if err != nil {
		e.found("fabric_interface", Note, "", "The network interfaces cannot be listed: %v.", err)
		return
	}
	alone := 0
	for _, p := range e.cfg.Peers {
		if p.HostID == e.cfg.HostID {
			e.found("own_peer", Note, "", "PEERS has an entry of this host itself, which is passed over.")
			continue
		}
		if p.LocalFabricAddr == "" {
			alone++
			continue
		}
		e.localEnd("local_fabric_addr of "+p.HostID+" in PEERS", p.LocalFabricAddr, interfaces)
	}
	verbs := e.overVerbs()
	switch {
	case e.cfg.FabricInterface != "":
		e.localEnd("FABRIC_INTERFACE", e.cfg.FabricInterface, interfaces)
	case alone == 0 && len(e.cfg.Peers) > 0:
		// Every peer that is configured has an address of its own.
	case verbs:
		e.found("fabric_interface", Warn, "Set FABRIC_INTERFACE to the address of the RDMA NIC, or local_fabric_addr for each peer.",
			"FABRIC_INTERFACE is empty: peers without local_fabric_addr are reached from whatever address the kernel's route to them has, which need not be the RDMA NIC's.")
	default:
		e.found("fabric_interface", Note, "", "FABRIC_INTERFACE is empty: peers without local_fabric_addr are reached from the address that the kernel's route to them has.")
	}
}

// localEnd judges one local address as the agent does.
func (e *examination) localEnd(setting, address string, interfaces []peers.Interface) {
	const check = "fabric_interface"
	link := peers.LinkOf(address, interfaces)
	switch {
	case link.Interface == "":
		e.found(check, Fail, "Correct it, or bring the address up (ip addr).", "%s: no interface of this host has %s, or is called so.", setting, address)
	case !link.Up:
		e.found(check, Fail, "Check cable, switch port and ip link.", "%s: %s.", setting, link.Error)
	case e.overVerbs() && isLoopback(address):
		e.found(check, Warn, "Set it to the address of the RDMA NIC.", "%s is %s: no other host is reached over it.", setting, address)
	default:
		e.ok(check, "%s %s is on %s, which has carrier.", setting, address, link.Interface)
	}
}

func isLoopback(address string) bool {
	a, err := netip.ParseAddr(address)
	return err == nil && a.Unmap().IsLoopback()
}
