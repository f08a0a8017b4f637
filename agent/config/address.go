package config

import (
	"errors"
	"net"
	"net/netip"
)

// hostAddress checks the address that other nodes are told to use. Empty is
// what a host without any IPv4 address has.
func hostAddress(value string) error {
	if value == "" {
		return nil
	}
	addr, err := netip.ParseAddr(value)
	switch {
	case err != nil || addr.Zone() != "":
		return errors.New("must be an IP literal")
	case addr.Unmap().IsLoopback():
		return errors.New("must not be a loopback address")
	case addr.Unmap().IsUnspecified():
		return errors.New("must not be the unspecified address")
	}
	return nil
}

// firstIPv4 is the first IPv4 address of the host that is not a loopback one
// and whose interface is up, or empty.
func firstIPv4(addrs []net.Addr) string {
	for _, a := range addrs {
		network, ok := a.(*net.IPNet)
		if !ok {
			continue
		}
		if v4 := network.IP.To4(); v4 != nil && !v4.IsLoopback() && !v4.IsUnspecified() {
			return v4.String()
		}
	}
	return ""
}
