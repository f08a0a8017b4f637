package config

import (
	"fmt"
	"net/netip"
)

// CIDRs is a list of IPv4 and IPv6 prefixes.
type CIDRs []netip.Prefix

// Contains reports whether one of the prefixes holds the address. An
// IPv4-mapped IPv6 address counts as the IPv4 address in it.
func (c CIDRs) Contains(addr netip.Addr) bool {
	addr = addr.Unmap().WithZone("")
	for _, p := range c {
		if p.Contains(addr) {
			return true
		}
	}
	return false
}

// UnmarshalText implements encoding.TextUnmarshaler.
func (c *CIDRs) UnmarshalText(text []byte) error {
	var items List
	if err := items.UnmarshalText(text); err != nil {
		return err
	}
	*c = nil
	for _, item := range items {
		p, err := netip.ParsePrefix(item)
		if err != nil {
			return fmt.Errorf("%q is not an address with a prefix length", item)
		}
		*c = append(*c, p.Masked())
	}
	return nil
}
