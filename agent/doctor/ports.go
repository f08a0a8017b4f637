package doctor

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"net/http"
	"slices"
	"strconv"
)

// fabricPortsTried is how many of the pool's ports are tried.
const fabricPortsTried = 1000

// ports says whether the agent's ports are free, or held by the agent itself.
func (e *examination) ports(ctx context.Context) (running bool) {
	web := e.cfg.WebPort
	if err := e.sys.Listen(web); err == nil {
		e.ok("port_web", "WEB_PORT %d is free: no agent runs here.", web)
	} else if host := e.agentOn(ctx, web); host != "" {
		running = true
		e.ok("port_web", "WEB_PORT %d is held by an agent, host id %s.", web, host)
		if host != e.cfg.HostID {
			e.found("port_web", Warn, "Give the agents different WEB_PORT, NMOS_PORT and FABRIC_PORT_BASE.", "WEB_PORT %d is held by the agent of %s, not of %s.", web, host, e.cfg.HostID)
		}
	} else {
		e.found("port_web", Fail, "End the other process (ss -ltnp), or set WEB_PORT.", "WEB_PORT %d cannot be bound: %v; what holds it is no agent.", web, err)
	}
	if e.cfg.NMOSEnable {
		for _, port := range []int{e.cfg.NMOSPort, e.cfg.NMOSPort + 1} {
			switch err := e.sys.Listen(port); {
			case err == nil:
				e.ok("port_nmos", "NMOS port %d is free.", port)
			case running:
				e.ok("port_nmos", "NMOS port %d is held, as is right while the agent runs.", port)
			default:
				e.found("port_nmos", Fail, "End the other process (ss -ltnp), or set NMOS_PORT.", "NMOS port %d cannot be bound: %v.", port, err)
			}
		}
	}
	e.fabricPorts(running)
	return running
}

func (e *examination) fabricPorts(running bool) {
	base, count := e.cfg.FabricPortBase, min(e.cfg.FabricPortCount, fabricPortsTried)
	own := map[string]int{"WEB_PORT": e.cfg.WebPort}
	if e.cfg.NMOSEnable {
		own["NMOS_PORT"], own["NMOS_PORT+1"] = e.cfg.NMOSPort, e.cfg.NMOSPort+1
	}
	for _, name := range slices.Sorted(maps.Keys(own)) {
		if port := own[name]; port >= base && port < base+e.cfg.FabricPortCount {
			e.found("ports_fabric", Warn, "Choose another FABRIC_PORT_BASE.", "%s %d lies among the fabric ports %d-%d.", name, port, base, base+e.cfg.FabricPortCount-1)
		}
	}
	held := 0
	for port := base; port < base+count; port++ {
		if e.sys.Listen(port) != nil {
			held++
		}
	}
	switch {
	case held == 0:
		e.ok("ports_fabric", "The fabric ports %d-%d are free.", base, base+count-1)
	case running && held < count:
		e.ok("ports_fabric", "Of the fabric ports %d-%d %d are in use.", base, base+count-1, held)
	default:
		e.found("ports_fabric", Warn, "Choose another FABRIC_PORT_BASE, outside net.ipv4.ip_local_port_range, or a larger FABRIC_PORT_COUNT.",
			"Of the fabric ports %d-%d %d cannot be bound.", base, base+count-1, held)
	}
}

// agentOn is the host id of the agent on a port of this host, empty when what is
// there is none.
func (e *examination) agentOn(ctx context.Context, port int) string {
	status, body, err := e.sys.Get(ctx, fmt.Sprintf("http://127.0.0.1:%d/api/v1/info", port))
	if err != nil || status != http.StatusOK {
		return ""
	}
	return hostIDOf(body)
}

// hostIDOf is the host id in the body of /info, empty when there is none.
func hostIDOf(body []byte) string {
	var info struct {
		HostID string `json:"host_id"`
	}
	if json.Unmarshal(body, &info) != nil {
		return ""
	}
	return info.HostID
}

// listen tries to bind a port on all addresses, as the agent does.
func listen(port int) error {
	l, err := net.Listen("tcp", ":"+strconv.Itoa(port))
	if err != nil {
		return err
	}
	return l.Close()
}
