package httpapi

import (
	"cmp"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strings"
)

// guard keeps web pages of other sites from changing anything through a
// browser that can reach the agent. Scripts and peers send neither an Origin
// nor Sec-Fetch-Site and are not affected.
type guard struct {
	crossOrigin *http.CrossOriginProtection
	names       map[string]bool // host names that are ours, lower case
}

func newGuard(names []string) *guard {
	g := &guard{crossOrigin: http.NewCrossOriginProtection(), names: make(map[string]bool)}
	for _, n := range names {
		if n != "" {
			g.names[strings.ToLower(strings.TrimSuffix(n, "."))] = true
		}
	}
	return g
}

// check is nil when the request may go on.
func (g *guard) check(r *http.Request) error {
	if r.Method == http.MethodGet || r.Method == http.MethodHead {
		return nil
	}
	origin, site := r.Header.Get("Origin"), r.Header.Get("Sec-Fetch-Site")
	if origin == "" && site == "" {
		return nil
	}
	if err := g.crossOrigin.Check(r); err != nil {
		return fmt.Errorf("a page of another site (%s) may not change anything here", cmp.Or(origin, site))
	}
	// A name that somebody else's DNS points at us looks like one origin to
	// the browser. Only names that are ours count.
	if !g.ours(r.Host) {
		return fmt.Errorf("the host name %q is not one of this agent; use its address or its own name", r.Host)
	}
	return nil
}

// ours takes address literals, localhost, our names, and our names within any
// DNS domain.
func (g *guard) ours(hostport string) bool {
	host := hostport
	if h, _, err := net.SplitHostPort(hostport); err == nil {
		host = h
	}
	host = strings.ToLower(strings.TrimSuffix(strings.Trim(host, "[]"), "."))
	if _, err := netip.ParseAddr(host); err == nil {
		return true
	}
	if host == "localhost" || g.names[host] {
		return true
	}
	first, _, _ := strings.Cut(host, ".")
	return first != "" && g.names[first]
}
