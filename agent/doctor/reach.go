package doctor

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"

	"github.com/mxl-stack/mxl-fabrics-agent/nmos"
)

// registry says whether the Registration and Query APIs answer.
func (e *examination) registry(ctx context.Context) {
	switch {
	case !e.cfg.NMOSEnable:
		e.found("registry", Note, "", "NMOS is off: no receivers are known, and peers come from PEERS alone.")
		return
	case e.cfg.NMOSRegistryAddress == "" && e.cfg.NMOSDNSSD:
		e.found("registry", Note, "", "The registry is looked for by DNS-SD; this check does not browse.")
		return
	case e.cfg.NMOSRegistryAddress == "":
		e.found("registry", Warn, "Set NMOS_REGISTRY_ADDRESS (and NMOS_REGISTRY_PORT).", "No registry is configured: no receivers are known.")
		return
	}
	for _, api := range []struct {
		name, address string
		port          int
	}{
		{"registration", e.cfg.NMOSRegistryAddress, e.cfg.NMOSRegistryPort},
		{"query", e.cfg.NMOSQueryAddress, e.cfg.NMOSQueryPort},
	} {
		check := "registry_" + api.name
		base, err := nmos.BaseURL(api.address, api.port)
		if err != nil {
			e.found(check, Fail, "Correct the address.", "%v.", err)
			continue
		}
		at := base + "/x-nmos/" + api.name + "/"
		status, _, err := e.sys.Get(ctx, at)
		switch {
		case err != nil:
			e.found(check, Fail, "Check address, port, firewall, and that the registry runs.", "%s does not answer: %v.", at, err)
		case status != http.StatusOK:
			e.found(check, Fail, "Check the port: something else may listen there.", "%s answers %d.", at, status)
		default:
			e.ok(check, "%s answers.", at)
		}
	}
}

// peerLink is the two ends of a fabric link.
type peerLink struct{ Host, ControlURL, Local, Remote string }

// peers looks at every peer of PEERS and, when the agent runs, at those it knows.
func (e *examination) peers(ctx context.Context, running bool) {
	links := e.links(ctx, running)
	if len(links) == 0 {
		e.found("peers", Note, "", "No peers are configured; those of the registry are known to the running agent only.")
	}
	for _, l := range links {
		if l.ControlURL != "" {
			status, body, err := e.sys.Get(ctx, l.ControlURL+"/info")
			host := hostIDOf(body)
			switch {
			case err != nil:
				e.found("peer_control", Warn, "Start its agent, check control_url, name resolution and firewall.", "%s does not answer at %s: %v.", l.Host, l.ControlURL, err)
			case status != http.StatusOK:
				e.found("peer_control", Warn, "control_url has to end in /api/v1.", "%s answers %d at %s/info.", l.Host, status, l.ControlURL)
			case host == e.cfg.HostID:
				e.found("peer_control", Warn, "Correct control_url, or give every agent a HOST_ID of its own.",
					"What answers for %s at %s has this host's own HOST_ID %s: it is this agent itself, or two hosts share one.", l.Host, l.ControlURL, host)
			case host != "" && host != l.Host:
				e.found("peer_control", Warn, "Make host_id in PEERS and HOST_ID there the same, or correct control_url.", "What answers for %s at %s is the agent of %s.", l.Host, l.ControlURL, host)
			default:
				e.ok("peer_control", "%s answers at %s.", l.Host, l.ControlURL)
			}
		}
		e.pathMTU(ctx, l)
	}
}

func (e *examination) links(ctx context.Context, running bool) []peerLink {
	var links []peerLink
	known := map[string]bool{}
	for _, p := range e.cfg.Peers {
		if p.HostID == e.cfg.HostID {
			continue
		}
		known[p.HostID] = true
		links = append(links, peerLink{p.HostID, p.ControlURL, p.LocalFabricAddr, p.RemoteFabricAddr})
	}
	if running {
		var rows []struct {
			HostID     string `json:"host_id"`
			ControlURL string `json:"control_url"`
			Local      string `json:"local_fabric_addr"`
			Remote     string `json:"remote_fabric_addr"`
		}
		_, body, err := e.sys.Get(ctx, fmt.Sprintf("http://127.0.0.1:%d/api/v1/peers", e.cfg.WebPort))
		if err == nil && json.Unmarshal(body, &rows) == nil {
			for _, r := range rows {
				if !known[r.HostID] {
					links = append(links, peerLink{r.HostID, r.ControlURL, r.Local, r.Remote})
				}
			}
		}
	}
	for i := range links {
		l := &links[i]
		if l.Local == "" {
			l.Local = e.cfg.FabricInterface
		}
		if _, err := netip.ParseAddr(l.Local); err != nil {
			l.Local = "" // a device name: let the kernel choose
		}
		if l.Remote == "" {
			if u, err := url.Parse(l.ControlURL); err == nil {
				l.Remote = u.Hostname()
			}
		}
	}
	return links
}

func (e *examination) pathMTU(ctx context.Context, l peerLink) {
	if _, err := netip.ParseAddr(l.Remote); err != nil {
		return
	}
	mtu, err := e.sys.PathMTU(ctx, l.Local, l.Remote)
	const check = "path_mtu"
	switch {
	case err != nil:
		e.found(check, Warn, "Check local_fabric_addr, FABRIC_INTERFACE and the routes.", "%s cannot be reached at %s: %v.", l.Host, l.Remote, err)
	case mtu.Path < mtu.Interface:
		e.found(check, Warn, "Use one MTU along the link: both hosts and every switch port between.", "Packets to %s (%s) may have %d bytes, and this host's interface sends %d.", l.Host, l.Remote, mtu.Path, mtu.Interface)
	case mtu.Small && !mtu.Large:
		e.found(check, Fail, "Use one MTU along the link: both hosts and every switch port between.", "Short packets reach %s (%s), packets of %d bytes are lost without a word.", l.Host, l.Remote, mtu.Interface)
	case !mtu.Small && !mtu.Large:
		e.found(check, Note, "", "The MTU towards %s (%s) is %d here; the peer's answers are filtered, so the path could not be tried.", l.Host, l.Remote, mtu.Interface)
	default:
		e.ok(check, "Packets of %d bytes reach %s (%s).", mtu.Interface, l.Host, l.Remote)
	}
}
