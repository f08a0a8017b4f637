package nmos

import (
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"
)

// Directory says where the Registration and Query APIs are, best first, as base
// URLs without path ("http://192.0.2.1:3210"). An empty list: none known (now).
type Directory interface {
	RegistrationURLs() []string
	QueryURLs() []string
	// Failed tells that a request to a URL failed, so that a browsed entry can
	// be passed over for a while.
	Failed(url string)
}

// StaticDirectory is the directory of configured addresses.
type StaticDirectory struct{ Registration, Query []string }

// RegistrationURLs implements Directory.
func (d StaticDirectory) RegistrationURLs() []string { return d.Registration }

// QueryURLs implements Directory.
func (d StaticDirectory) QueryURLs() []string { return d.Query }

// Failed implements Directory; configured addresses stay.
func (d StaticDirectory) Failed(string) {}

// BaseURL gives the http base URL of a configured address (name or IP literal,
// IPv6 with or without brackets) and port.
func BaseURL(address string, port int) (string, error) {
	host := strings.TrimSpace(address)
	if strings.HasPrefix(host, "[") && strings.HasSuffix(host, "]") {
		host = host[1 : len(host)-1]
	}
	if strings.Contains(host, ":") {
		if _, err := netip.ParseAddr(host); err != nil {
			return "", fmt.Errorf("registry address %q is neither a name nor an ip literal", clip(address))
		}
	}
	if host == "" || strings.ContainsAny(host, " /@?#%") {
		return "", fmt.Errorf("registry address %q is neither a name nor an ip literal", clip(address))
	}
	if port < 1 || port > 65535 {
		return "", fmt.Errorf("registry port %d is not in 1-65535", port)
	}
	return "http://" + net.JoinHostPort(host, strconv.Itoa(port)), nil
}
