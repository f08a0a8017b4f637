package doctor

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// rdmaPort is one port of an RDMA device.
type rdmaPort struct {
	Device, Port string
	Active       bool
	State        string // "4: ACTIVE"
	LinkLayer    string // "Ethernet", "InfiniBand"
	GIDs         []gid  // those that are set
}

// gid is one entry of a port's GID table.
type gid struct{ Address, Type, NetDev string }

// rdmaPorts reads /sys/class/infiniband.
func (s *System) rdmaPorts() []rdmaPort {
	var list []rdmaPort
	ports, _ := filepath.Glob(s.path("sys/class/infiniband/*/ports/*"))
	for _, dir := range ports {
		p := rdmaPort{Device: filepath.Base(filepath.Dir(filepath.Dir(dir))), Port: filepath.Base(dir), State: word(dir, "state"), LinkLayer: word(dir, "link_layer")}
		p.Active = strings.HasSuffix(p.State, "ACTIVE")
		entries, _ := filepath.Glob(filepath.Join(dir, "gids/*"))
		for _, entry := range entries {
			n := filepath.Base(entry)
			address := word(dir, "gids", n)
			if strings.Trim(address, "0:") == "" {
				continue
			}
			p.GIDs = append(p.GIDs, gid{address, word(dir, "gid_attrs/types", n), word(dir, "gid_attrs/ndevs", n)})
		}
		list = append(list, p)
	}
	slices.SortFunc(list, func(a, b rdmaPort) int { return cmp.Or(cmp.Compare(a.Device, b.Device), cmp.Compare(a.Port, b.Port)) })
	return list
}

// word is the text of a small file, empty when there is none.
func word(dir string, name ...string) string {
	text, _ := os.ReadFile(filepath.Join(append([]string{dir}, name...)...))
	return strings.TrimSpace(string(text))
}

func (e *examination) rdma() {
	harmless := !e.overVerbs()
	ports := e.sys.rdmaPorts()
	if len(ports) == 0 {
		e.found("rdma_devices", unless(harmless, Fail),
			"Load the NIC's RDMA driver (irdma in RoCEv2 mode, mlx5_ib; rdma link), or use DEFAULT_PROVIDER=tcp or PROVIDER_FALLBACK=tcp.",
			"This host has no RDMA device (/sys/class/infiniband is empty).")
		return
	}
	if nodes, _ := filepath.Glob(e.sys.path("dev/infiniband/uverbs*")); len(nodes) == 0 {
		e.found("rdma_files", unless(harmless, Fail), "Pass /dev/infiniband into the container (devices in Compose, a device plugin in Kubernetes).",
			"There are RDMA devices and no /dev/infiniband/uverbs*.")
	}
	for _, p := range ports {
		name := fmt.Sprintf("%s port %s (%s)", p.Device, p.Port, p.LinkLayer)
		var routable []string
		for _, g := range p.GIDs {
			if strings.Contains(g.Type, "v2") {
				routable = append(routable, g.NetDev)
			}
		}
		slices.Sort(routable)
		routable = slices.Compact(routable)
		switch {
		case !p.Active:
			e.found("rdma_devices", unless(harmless, Warn), "Check cable, switch port and ip link of its network device.", "%s is not active (%s).", name, p.State)
		case p.LinkLayer == "Ethernet" && len(routable) == 0:
			e.found("rdma_gids", unless(harmless, Fail), "Give its network device an IP address, and set the driver to RoCEv2 (irdma: roce_ena=1).",
				"%s has no RoCEv2 GID among its %d.", name, len(p.GIDs))
		default:
			e.ok("rdma_devices", "%s is active with %d GIDs, RoCEv2 on %s.", name, len(p.GIDs), strings.Join(routable, ", "))
		}
	}
}

func (e *examination) providers() {
	e.ok("libfabric", "libfabric %s offers %s.", e.sys.Libfabric(), cmp.Or(strings.Join(e.sys.Providers(), ", "), "none of the providers the agent uses"))
	for _, provider := range []string{"tcp", "verbs"} {
		err := e.sys.Probe(provider)
		needed := provider == e.cfg.DefaultProvider
		switch {
		case err == nil:
			e.ok("provider_"+provider, "Provider %s can be used.", provider)
		case needed && e.cfg.ProviderFallback == "tcp":
			e.found("provider_"+provider, Warn, "See the RDMA checks below; meanwhile tcp is used.", "Provider %s cannot be used: %v.", provider, err)
		case needed:
			e.found("provider_"+provider, Fail, "See the RDMA checks below, or set DEFAULT_PROVIDER=tcp or PROVIDER_FALLBACK=tcp; without either the agent exits 75.", "Provider %s cannot be used: %v.", provider, err)
		default:
			e.found("provider_"+provider, Note, "", "Provider %s cannot be used: %v.", provider, err)
		}
	}
}
