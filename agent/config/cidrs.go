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
		if p, err = unmapped(p); err != nil {
			return fmt.Errorf("%q %w", item, err)
		}
		*c = append(*c, p.Masked())
	}
	return nil
}

// unmapped is a prefix of IPv4-mapped addresses (::ffff:10.0.0.0/104) as the IPv4
// prefix that it is: [CIDRs.Contains] knows the addresses in it as those.
func unmapped(p netip.Prefix) (netip.Prefix, error) {
	const mappedBits = 96
	switch {
	case !p.Addr().Is4In6():
		return p, nil
	case p.Bits() < mappedBits:
		return netip.Prefix{}, fmt.Errorf("is shorter than the /%d of IPv4-mapped addresses: write it as IPv4 or as IPv6", mappedBits)
	}
	return netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-mappedBits), nil
}
