package config

import (
	"errors"
	"net"
	"net/netip"
	"strings"
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
	case addr.Unmap().IsMulticast() || addr.Unmap() == netip.AddrFrom4([4]byte{255, 255, 255, 255}):
		return errors.New("must be the address of one host")
	}
	return nil
}

// nameOrAddress checks a setting that names another host: a host name, or an IP
// literal, IPv6 with or without brackets. Empty is "none".
func nameOrAddress(value string) error {
	host := strings.TrimSpace(value)
	if value == "" {
		return nil
	}
	bare, bracketed := strings.CutPrefix(host, "[")
	bare, closed := strings.CutSuffix(bare, "]")
	addr, err := netip.ParseAddr(bare)
	switch {
	case err == nil && addr.Zone() == "" && bracketed == closed && (!bracketed || addr.Is6()):
		return nil
	case strings.Contains(host, "://") || strings.Contains(host, "/"):
		return errors.New("must be a host name or an IP address, not a URL")
	case strings.Count(host, ":") == 1:
		return errors.New("must be a host name or an IP address, without a port")
	case !hostName(host):
		return errors.New("must be a host name or an IP address")
	}
	return nil
}

// hostName says whether text can be one: letters, digits, hyphens and (as
// container engines use them) underscores between dots. One whose last label is
// a number is an IPv4 address gone wrong (RFC 1123, 2.1).
func hostName(text string) bool {
	text = strings.TrimSuffix(text, ".")
	if text == "" || len(text) > 253 {
		return false
	}
	last := ""
	for label := range strings.SplitSeq(text, ".") {
		if label == "" || len(label) > 63 || strings.Trim(label, letters+digits+"-_") != "" || label[0] == '-' || label[len(label)-1] == '-' {
			return false
		}
		last = label
	}
	return strings.Trim(last, digits) != ""
}

const (
	digits  = "0123456789"
	letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
)

// addressOrDevice checks a local fabric address: an IP literal, or the name of a
// network device as Linux allows it (dev_valid_name in net/core/dev.c). What
// looks like an address and is none is no device. Empty is "none".
func addressOrDevice(value string) error {
	if value == "" {
		return nil
	}
	if _, err := netip.ParseAddr(value); err == nil {
		return nil
	}
	const longest = 15 // IFNAMSIZ less its NUL
	switch {
	case strings.Trim(value, digits+".") == "" && strings.Count(value, ".") == 3, strings.Contains(value, ":"):
		return errors.New("is no IP address")
	case strings.ContainsAny(value, "/ \t\r\n\v\f"), len(value) > longest, value == ".", value == "..":
		return errors.New("must be an IP address or the name of a network device")
	}
	return nil
}

// hostAddrs are the addresses of this host, those of interfaces that are up first:
// nobody reaches it at the address of a second port that is left down.
func hostAddrs() ([]net.Addr, error) {
	interfaces, err := net.Interfaces()
	if err != nil {
		return nil, err
	}
	var up, down []net.Addr
	for i := range interfaces {
		addrs, err := interfaces[i].Addrs()
		switch {
		case err != nil:
			return nil, err
		case interfaces[i].Flags&net.FlagUp != 0:
			up = append(up, addrs...)
		default:
			down = append(down, addrs...)
		}
	}
	return append(up, down...), nil
}

// firstIPv4 is the first IPv4 address of a list that is not a loopback one, or
// empty.
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
