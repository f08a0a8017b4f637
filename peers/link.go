package peers

import (
	"fmt"
	"net/netip"
	"slices"
)

// Link is the state of the local end of a fabric link.
type Link struct {
	Up        bool
	Error     string // why it is down, empty when up
	Interface string // the device of the local address, empty when none or unknown
}

// Interface is one network device of this host.
type Interface struct {
	Name      string
	Addrs     []netip.Addr
	Carrier   bool
	OperState string // as in /sys/class/net/<name>/operstate
}

// LinkOf judges the link behind a local fabric address: the address of an
// interface, or the name of one. An empty address is up without a device
// (agent API reference §16.7).
func LinkOf(address string, interfaces []Interface) Link {
	if address == "" {
		return Link{Up: true}
	}
	at := slices.IndexFunc(interfaces, func(i Interface) bool { return i.Name == address })
	if at < 0 {
		at = holderOf(address, interfaces)
	}
	if at < 0 {
		return Link{Error: "source interface unavailable: no local interface has " + address}
	}
	device := interfaces[at]
	if !device.Carrier {
		return Link{Error: fmt.Sprintf("no carrier on %s (%s)", device.Name, device.OperState), Interface: device.Name}
	}
	return Link{Up: true, Interface: device.Name}
}

// holderOf finds the interface that holds an address. An address that more
// than one holds is up when it is up on one of them.
func holderOf(address string, interfaces []Interface) int {
	want, err := netip.ParseAddr(address)
	if err != nil {
		return -1
	}
	want = want.Unmap()
	found := -1
	for i, device := range interfaces {
		holds := slices.ContainsFunc(device.Addrs, func(a netip.Addr) bool {
			a = a.Unmap()
			return a == want || want.Zone() == "" && a.WithZone("") == want
		})
		if holds && (found < 0 || device.Carrier && !interfaces[found].Carrier) {
			found = i
		}
	}
	return found
}
