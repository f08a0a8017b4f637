package plant

import (
	"errors"
	"fmt"
	"net"
	"net/netip"

	"github.com/vishvananda/netlink"
)

// End is a host's device at one end of a cable.
type End struct {
	Device string       // its name at the host
	Prefix netip.Prefix // the host's address and the link's network

	host *namespace
	wall *namespace // where the cable's other end is
	port string     // its name there
}

// Cable is a link between two hosts, or between a host and a switch, which has
// one end here. It can be pulled.
type Cable struct {
	Ends []*End
}

// bridge makes a bridge without spanning tree in the namespace: its ports
// forward from the moment they are up.
func (n *namespace) bridge(name string) error {
	if err := n.handle.LinkAdd(&netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: name}}); err != nil {
		return fmt.Errorf("bridge %s of %s: %w", name, n.name, err)
	}
	return n.up(name)
}

// lay makes a device of a host that leads to a port of a bridge.
func lay(host *namespace, device string, prefix netip.Prefix, wall *namespace, bridge, port string) (*End, error) {
	e := &End{Device: device, Prefix: prefix, host: host, wall: wall, port: port}
	at, err := wall.handle.LinkByName(bridge)
	if err != nil {
		return nil, fmt.Errorf("bridge %s: %w", bridge, err)
	}
	err = wall.handle.LinkAdd(&netlink.Veth{
		LinkAttrs: netlink.LinkAttrs{Name: port, MasterIndex: at.Attrs().Index},
		PeerName:  device, PeerNamespace: netlink.NsFd(host.fd)})
	if err != nil {
		return nil, fmt.Errorf("veth pair %s of %s, %s of %s: %w", device, host.name, port, wall.name, err)
	}
	if err := e.AddressAdd(); err != nil {
		return nil, err
	}
	return e, errors.Join(host.up(device), e.plug())
}

func (e *End) pull() error { return e.wall.down(e.port) }
func (e *End) plug() error { return e.wall.up(e.port) }

// Down pulls the cable: no end has carrier. Devices and addresses stay.
func (c *Cable) Down() error {
	var errs []error
	for _, e := range c.Ends {
		errs = append(errs, e.pull())
	}
	return errors.Join(errs...)
}

// Up plugs the cable in again.
func (c *Cable) Up() error {
	var errs []error
	for _, e := range c.Ends {
		errs = append(errs, e.plug())
	}
	return errors.Join(errs...)
}

// AddressRemove takes the address from the host's device.
func (e *End) AddressRemove() error { return e.address("remove", e.host.handle.AddrDel) }

// AddressAdd gives the host's device its address again.
func (e *End) AddressAdd() error { return e.address("add", e.host.handle.AddrAdd) }

func (e *End) address(deed string, do func(netlink.Link, *netlink.Addr) error) error {
	device, err := e.host.handle.LinkByName(e.Device)
	if err == nil {
		err = do(device, &netlink.Addr{IPNet: &net.IPNet{IP: e.Prefix.Addr().AsSlice(),
			Mask: net.CIDRMask(e.Prefix.Bits(), e.Prefix.Addr().BitLen())}})
	}
	if err != nil {
		return fmt.Errorf("%s %v at %s of %s: %w", deed, e.Prefix, e.Device, e.host.name, err)
	}
	return nil
}

// DeviceDown turns the host's device off (ip link set down): unlike a pulled
// cable this takes its routes away, too.
func (e *End) DeviceDown() error { return e.host.down(e.Device) }

// DeviceUp turns the host's device on again.
func (e *End) DeviceUp() error { return e.host.up(e.Device) }

// addressOf gives a device of the namespace an address.
func (n *namespace) addressOf(device string, prefix netip.Prefix) error {
	return (&End{Device: device, Prefix: prefix, host: n}).AddressAdd()
}
