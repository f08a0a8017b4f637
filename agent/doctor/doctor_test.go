package doctor

import (
	"context"
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mxl-stack/mxl-fabrics-agent/agent/config"
	"github.com/mxl-stack/mxl-fabrics-agent/peers"
)

// host is a made-up host on which everything is in order.
type host struct {
	files map[string]string // below Root; "" removes
	links map[string]string
	env   []string
	sys   System
}

const goodLimits = `Limit                     Soft Limit           Hard Limit           Units
Max locked memory         unlimited            unlimited            bytes
Max open files            1024                 1048576              files
`

func goodHost() *host {
	return &host{
		files: map[string]string{
			"proc/self/status":                                      "Name:\tdoctor\nCapEff:\t0000000000884000\n", // ipc_lock, sys_ptrace, sys_nice
			"proc/self/limits":                                      goodLimits,
			"proc/sys/vm/max_map_count":                             "65530\n",
			"proc/sys/fs/inotify/max_user_instances":                "1024\n",
			"proc/sys/fs/inotify/max_user_watches":                  "524288\n",
			"sys/class/infiniband/irdma0/ports/1/state":             "4: ACTIVE\n",
			"sys/class/infiniband/irdma0/ports/1/link_layer":        "Ethernet\n",
			"sys/class/infiniband/irdma0/ports/1/gids/0":            "fe80:0000:0000:0000:b696:91ff:fe00:0001\n",
			"sys/class/infiniband/irdma0/ports/1/gids/1":            "0000:0000:0000:0000:0000:ffff:c000:0201\n",
			"sys/class/infiniband/irdma0/ports/1/gids/2":            "0000:0000:0000:0000:0000:0000:0000:0000\n",
			"sys/class/infiniband/irdma0/ports/1/gid_attrs/types/1": "RoCE v2\n",
			"sys/class/infiniband/irdma0/ports/1/gid_attrs/ndevs/1": "ens1f0\n",
			"dev/infiniband/uverbs0":                                "",
		},
		env: []string{"HOST_ID=node-a", "NMOS_REGISTRY_ADDRESS=192.0.2.100", "NMOS_HOST_ADDRESS=192.0.2.1",
			`PEERS=[{"host_id":"node-b","control_url":"http://192.0.2.2:8095/api/v1","local_fabric_addr":"192.0.2.1","remote_fabric_addr":"192.0.2.2"}]`},
		sys: System{
			TAIOffset: func() (int, error) { return 37, nil },
			Statfs:    func(string) (Filesystem, error) { return Filesystem{Tmpfs: true, Free: 8 << 30, Size: 16 << 30}, nil },
			Access:    func(string) error { return nil },
			Listen:    func(int) error { return nil },
			Get:       func(context.Context, string) (int, []byte, error) { return 200, []byte("{}"), nil },
			Probe:     func(string) error { return nil },
			Providers: func() []string { return []string{"verbs", "tcp"} },
			Libfabric: func() string { return "1.17" },
			Readers:   func(context.Context) (bool, string) { return true, "" },
			Interfaces: func() ([]peers.Interface, error) {
				return []peers.Interface{{Name: "ens1f0", Addrs: []netip.Addr{netip.MustParseAddr("192.0.2.1")}, Carrier: true, OperState: "up"},
					{Name: "ens1f1", Addrs: []netip.Addr{netip.MustParseAddr("198.51.100.1")}, OperState: "down"},
					{Name: "lo", Addrs: []netip.Addr{netip.MustParseAddr("127.0.0.1")}, Carrier: true, OperState: "unknown"}}, nil
			},
			PathMTU: func(context.Context, string, string) (PathMTU, error) {
				return PathMTU{Interface: 9000, Path: 9000, Small: true, Large: true}, nil
			},
		},
	}
}

func (h *host) without(prefix string) {
	for name := range h.files {
		if strings.HasPrefix(name, prefix) {
			delete(h.files, name)
		}
	}
}

func (h *host) examine(t *testing.T) Report {
	t.Helper()
	h.sys.Root = t.TempDir()
	for name, text := range h.files {
		path := filepath.Join(h.sys.Root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, target := range h.links {
		path := filepath.Join(h.sys.Root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(target, path); err != nil {
			t.Fatal(err)
		}
	}
	store, err := config.Load(config.Machine{Environ: append(h.env, "MXL_ROOT="+t.TempDir(), "STATE_DIR="+t.TempDir())})
	if err != nil {
		t.Fatal(err)
	}
	return Examine(t.Context(), &h.sys, store.Config(), nil)
}

func TestGoodHost(t *testing.T) {
	r := goodHost().examine(t)
	if !r.OK || r.HostID != "node-a" {
		t.Errorf("%+v", r)
	}
	for _, f := range r.Findings {
		if f.State != OK || f.What == "" {
			t.Errorf("%+v", f)
		}
	}
	if len(r.Findings) < 20 {
		t.Errorf("only %d checks", len(r.Findings))
	}
}

func TestFindings(t *testing.T) {
	memlock64k := strings.Replace(goodLimits, "unlimited            unlimited", "65536                65536   ", 1)
	noCapabilities := "CapEff:\t0000000000000000\n"
	for _, c := range []struct {
		name   string
		spoil  func(*host)
		check  string
		state  State
		what   string
		remedy string
	}{
		{"memlock 64k", func(h *host) { h.files["proc/self/limits"], h.files["proc/self/status"] = memlock64k, noCapabilities }, "memlock", Fail, "memlock is 64 KiB", "ulimit -l unlimited"},
		{"memlock 64k over tcp", func(h *host) {
			h.files["proc/self/limits"], h.files["proc/self/status"] = memlock64k, noCapabilities
			h.env = append(h.env, "DEFAULT_PROVIDER=tcp")
		}, "memlock", Note, "memlock is 64 KiB", "ulimit -l unlimited"},
		{"memlock 64k, ipc_lock", func(h *host) { h.files["proc/self/limits"] = memlock64k }, "memlock", OK, "CAP_IPC_LOCK stands above", ""},
		{"few files", func(h *host) { h.files["proc/self/limits"] = strings.Replace(goodLimits, "1048576", "4096   ", 1) }, "open_files", Warn, "4096 files", "nofile"},
		{"few mappings", func(h *host) { h.files["proc/sys/vm/max_map_count"] = "1000" }, "max_map_count", Warn, "1000", "sysctl vm.max_map_count"},
		{"TAI 0", func(h *host) { h.sys.TAIOffset = func() (int, error) { return 0, nil } }, "tai_offset", Warn, "TAI offset is 0", "chrony"},
		{"TAI 36", func(h *host) { h.sys.TAIOffset = func() (int, error) { return 36, nil } }, "tai_offset", Warn, "36 s", "chrony"},
		{"no tmpfs", func(h *host) {
			h.sys.Statfs = func(string) (Filesystem, error) { return Filesystem{Free: 8 << 30, Size: 16 << 30}, nil }
		}, "mxl_root_tmpfs", Warn, "not on a tmpfs", "mount -t tmpfs"},
		{"read-only root", func(h *host) {
			h.sys.Statfs = func(string) (Filesystem, error) { return Filesystem{Tmpfs: true, ReadOnly: true, Free: 8 << 30}, nil }
		}, "mxl_root_permissions", Fail, "read-only", "read-write"},
		{"foreign state directory", func(h *host) { h.sys.Access = func(string) error { return os.ErrPermission } }, "state_dir", Warn, "may not write to STATE_DIR", "until the agent stops"},
		{"foreign root", func(h *host) { h.sys.Access = func(string) error { return os.ErrPermission } }, "mxl_root_permissions", Fail, "may not write", "chmod 1777"},
		{"full root", func(h *host) {
			h.sys.Statfs = func(string) (Filesystem, error) { return Filesystem{Tmpfs: true, Free: 100 << 20, Size: 1 << 30}, nil }
		}, "mxl_root_space", Fail, "100 of 1024 MiB", "remount"},
		{"no RDMA", func(h *host) { h.without("sys/class/infiniband") }, "rdma_devices", Fail, "no RDMA device", "DEFAULT_PROVIDER=tcp"},
		{"no RDMA over tcp", func(h *host) { h.without("sys/class/infiniband"); h.env = append(h.env, "DEFAULT_PROVIDER=tcp") }, "rdma_devices", Note, "no RDMA device", "RDMA driver"},
		{"RDMA link down", func(h *host) { h.files["sys/class/infiniband/irdma0/ports/1/state"] = "1: DOWN" }, "rdma_devices", Warn, "1: DOWN", "cable"},
		{"no RoCEv2 GID", func(h *host) { h.files["sys/class/infiniband/irdma0/ports/1/gid_attrs/types/1"] = "IB/RoCE v1" }, "rdma_gids", Fail, "no RoCEv2 GID", "roce_ena"},
		{"no device files", func(h *host) { h.without("dev/") }, "rdma_files", Fail, "/dev/infiniband", "container"},
		{"no ptrace", func(h *host) { h.files["proc/self/status"] = noCapabilities }, "cap_sys_ptrace", Warn, "CAP_SYS_PTRACE is missing", "capabilities.add"},
		{"priority without nice", func(h *host) {
			h.files["proc/self/status"] = noCapabilities
			h.env = append(h.env, "RT_PRIORITY=49")
		}, "cap_sys_nice", Warn, "RT_PRIORITY has no effect", "capabilities.add"},
		{"priority over the interrupts", func(h *host) { h.env = append(h.env, "RT_PRIORITY=60") }, "rt_priority", Warn, "60", "49"},
		{"inotify instances used up", func(h *host) {
			h.files["proc/sys/fs/inotify/max_user_instances"] = "2"
			h.links = map[string]string{"proc/4711/fd/3": "anon_inode:inotify", "proc/4711/fd/4": "socket:[1]"}
		}, "inotify_instances", Fail, "hold 1", "max_user_instances=1024"},
		{"inotify instances of the kernel", func(h *host) { h.files["proc/sys/fs/inotify/max_user_instances"] = "128" }, "inotify_instances", Note, "is 128", "max_user_instances=1024"},
		{"inotify watches", func(h *host) { h.files["proc/sys/fs/inotify/max_user_watches"] = "8192" }, "inotify_watches", Warn, "8192", "max_user_watches"},
		{"no verbs", func(h *host) {
			h.sys.Probe = func(p string) error { return map[string]error{"verbs": errors.New("no data")}[p] }
		}, "provider_verbs", Fail, "no data", "exits 75"},
		{"no verbs, fallback", func(h *host) {
			h.sys.Probe = func(p string) error { return map[string]error{"verbs": errors.New("no data")}[p] }
			h.env = append(h.env, "PROVIDER_FALLBACK=tcp")
		}, "provider_verbs", Warn, "no data", "tcp is used"},
		{"web port taken", func(h *host) { h.taken(8095) }, "port_web", Fail, "no agent", "ss -ltnp"},
		{"web port of another agent", func(h *host) {
			h.taken(8095)
			h.sys.Get = func(context.Context, string) (int, []byte, error) { return 200, []byte(`{"host_id":"node-z"}`), nil }
		}, "port_web", Warn, "node-z", "different WEB_PORT"},
		{"nmos port taken", func(h *host) { h.taken(3233) }, "port_nmos", Fail, "3233", "NMOS_PORT"},
		{"fabric ports taken", func(h *host) { h.taken(23510) }, "ports_fabric", Warn, "23500-23599 1 cannot", "FABRIC_PORT_BASE"},
		{"registry unreachable", func(h *host) {
			h.sys.Get = func(context.Context, string) (int, []byte, error) { return 0, nil, errors.New("connection refused") }
		}, "registry_registration", Fail, "connection refused", "firewall"},
		{"no registry", func(h *host) { h.env[1] = "NMOS_REGISTRY_ADDRESS=" }, "registry", Warn, "no registry", "NMOS_REGISTRY_ADDRESS"},
		{"peer of the wrong path", func(h *host) {
			h.sys.Get = func(_ context.Context, url string) (int, []byte, error) {
				return map[bool]int{true: 404, false: 200}[strings.Contains(url, "192.0.2.2")], nil, nil
			}
		}, "peer_control", Warn, "404", "/api/v1"},
		{"another peer answers", func(h *host) { h.answers("node-z") }, "peer_control", Warn, "node-b at http://192.0.2.2:8095/api/v1 is the agent of node-z", "HOST_ID there"},
		{"ourselves answer", func(h *host) { h.answers("node-a") }, "peer_control", Warn, "this host's own HOST_ID node-a", "HOST_ID of its own"},
		{"own PID namespace", func(h *host) {
			h.sys.Readers = func(context.Context) (bool, string) {
				return false, "the agent runs in a PID namespace of its own (pid:[1]; hostPID is needed)"
			}
		}, "reader_sight", Warn, "PID namespace of its own", "hostPID: true"},
		{"process not readable", func(h *host) {
			h.sys.Readers = func(context.Context) (bool, string) { return false, "/proc/1/maps: permission denied" }
		}, "reader_sight", Warn, "/proc/1/maps: permission denied", "CAP_SYS_PTRACE"},
		{"FABRIC_INTERFACE without a peer", func(h *host) { h.fabric("", "192.0.2.77") }, "fabric_interface", Fail, "FABRIC_INTERFACE: no interface of this host has 192.0.2.77", "ip addr"},
		{"FABRIC_INTERFACE without carrier", func(h *host) { h.fabric("", "198.51.100.1") }, "fabric_interface", Fail, "no carrier on ens1f1", "cable"},
		{"FABRIC_INTERFACE by its device", func(h *host) { h.fabric("", "ens1f0") }, "fabric_interface", OK, "ens1f0 is on ens1f0", ""},
		{"FABRIC_INTERFACE on loopback", func(h *host) { h.fabric("", "127.0.0.1") }, "fabric_interface", Warn, "no other host is reached", "RDMA NIC"},
		{"no FABRIC_INTERFACE", func(h *host) { h.fabric("", "") }, "fabric_interface", Warn, "FABRIC_INTERFACE is empty", "Set FABRIC_INTERFACE"},
		{"no FABRIC_INTERFACE over tcp", func(h *host) {
			h.fabric("", "")
			h.env = append(h.env, "DEFAULT_PROVIDER=tcp")
		}, "fabric_interface", Note, "kernel's route", ""},
		{"address of a peer not here", func(h *host) { h.fabric(`[{"host_id":"node-b","local_fabric_addr":"192.0.2.99"}]`, "192.0.2.1") }, "fabric_interface", Fail, "local_fabric_addr of node-b", "Correct it"},
		{"own entry", func(h *host) { h.fabric(`[{"host_id":"node-a"}]`, "192.0.2.1") }, "own_peer", Note, "this host itself", ""},
		{"web port among the fabric ports", func(h *host) { h.env = append(h.env, "WEB_PORT=23555") }, "ports_fabric", Warn, "WEB_PORT 23555 lies among", "FABRIC_PORT_BASE"},
		{"smaller MTU known", func(h *host) { h.mtu(PathMTU{Interface: 9000, Path: 1500, Small: true}) }, "path_mtu", Warn, "1500", "one MTU"},
		{"MTU black hole", func(h *host) { h.mtu(PathMTU{Interface: 9000, Path: 9000, Small: true}) }, "path_mtu", Fail, "lost without a word", "one MTU"},
		{"filtered", func(h *host) { h.mtu(PathMTU{Interface: 1500, Path: 1500}) }, "path_mtu", Note, "filtered", ""},
		{"address not here", func(h *host) {
			h.sys.PathMTU = func(context.Context, string, string) (PathMTU, error) {
				return PathMTU{}, errors.New("bind 192.0.2.1: no such address")
			}
		}, "path_mtu", Warn, "no such address", "local_fabric_addr"},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := goodHost()
			c.spoil(h)
			r := h.examine(t)
			var got *Finding
			for i := range r.Findings {
				f := &r.Findings[i]
				if f.Check == c.check && (got == nil || f.State == c.state) {
					got = f
				}
				if (f.State == Warn || f.State == Fail) && f.Remedy == "" {
					t.Errorf("%s has no remedy: %s", f.Check, f.What)
				}
			}
			if got == nil {
				t.Fatalf("no finding %s in %+v", c.check, r.Findings)
			}
			if got.State != c.state || !strings.Contains(strings.ToLower(got.What), strings.ToLower(c.what)) || !strings.Contains(got.Remedy, c.remedy) {
				t.Errorf("%+v; want %s, %q, remedy %q", *got, c.state, c.what, c.remedy)
			}
			if bad := c.state == Warn || c.state == Fail; bad && r.OK {
				t.Error("the report is ok all the same")
			}
		})
	}
}

func (h *host) taken(port int) {
	h.sys.Listen = func(p int) error {
		if p == port {
			return errors.New("address already in use")
		}
		return nil
	}
}

// answers makes every agent answer /info with a host id.
func (h *host) answers(id string) {
	h.sys.Get = func(context.Context, string) (int, []byte, error) {
		return 200, []byte(`{"host_id":"` + id + `"}`), nil
	}
}

// fabric sets PEERS and FABRIC_INTERFACE.
func (h *host) fabric(peers, iface string) {
	h.env[3] = "PEERS=" + peers
	h.env = append(h.env, "FABRIC_INTERFACE="+iface)
}

func (h *host) mtu(m PathMTU) {
	h.sys.PathMTU = func(context.Context, string, string) (PathMTU, error) { return m, nil }
}

func TestRunningAgent(t *testing.T) {
	h := goodHost()
	h.sys.Listen = func(port int) error {
		if port < 23500 || port == 23501 {
			return errors.New("address already in use")
		}
		return nil
	}
	h.sys.Get = func(_ context.Context, url string) (int, []byte, error) {
		if strings.HasSuffix(url, "/api/v1/peers") {
			return 200, []byte(`[{"host_id":"node-b"},{"host_id":"node-c","control_url":"http://192.0.2.3:8095/api/v1"}]`), nil
		}
		for address, id := range map[string]string{"192.0.2.2": "node-b", "192.0.2.3": "node-c"} {
			if strings.Contains(url, address) {
				return 200, []byte(`{"host_id":"` + id + `"}`), nil
			}
		}
		return 200, []byte(`{"host_id":"node-a"}`), nil
	}
	r := h.examine(t)
	if !r.OK {
		t.Errorf("%+v", r.Findings)
	}
	discovered := 0
	for _, f := range r.Findings {
		if strings.Contains(f.What, "node-c") {
			discovered++
		}
	}
	if discovered != 2 { // control plane and path MTU
		t.Errorf("%d findings about the peer that only the agent knows", discovered)
	}
}

func TestInvalidConfiguration(t *testing.T) {
	store, err := config.Load(config.Machine{Environ: []string{"STATE_DIR=" + t.TempDir(), "MXL_ROOT=" + filepath.Join(t.TempDir(), "none")}})
	if err != nil {
		t.Fatal(err)
	}
	h := goodHost()
	h.sys.Root = t.TempDir()
	r := Examine(t.Context(), &h.sys, store.Config(), errors.New(`SCAN_INTERVAL_MS="1": must be from 100 to 600000`))
	if r.OK || r.Findings[0].State != Fail || !strings.Contains(r.Findings[0].What, "SCAN_INTERVAL_MS") {
		t.Errorf("%+v", r.Findings[0])
	}
	if f := r.Findings[2]; f.Check != "mxl_root" || f.State != Fail || !strings.Contains(f.Remedy, "tmpfs") {
		t.Errorf("a root that is missing: %+v", f)
	}
}

func TestThisHost(t *testing.T) {
	// Whatever this host is: every check says something and nothing fails to end.
	store, err := config.Load(config.Machine{Environ: []string{"MXL_ROOT=" + t.TempDir(), "STATE_DIR=" + t.TempDir(), "NMOS_ENABLE=false",
		`PEERS=[{"host_id":"here","control_url":"http://127.0.0.1:1/api/v1","local_fabric_addr":"127.0.0.1","remote_fabric_addr":"127.0.0.1"}]`}})
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range Examine(t.Context(), Host(), store.Config(), nil).Findings {
		t.Logf("%-4s %-20s %s | %s", f.State, f.Check, f.What, f.Remedy)
	}
}

func TestPathMTUOfLoopback(t *testing.T) {
	for _, address := range []string{"127.0.0.1", "::1"} {
		got, err := pathMTU(t.Context(), address, address)
		if address == "::1" && err != nil {
			t.Logf("no IPv6 here: %v", err)
			continue
		}
		if err != nil || got.Interface < 1280 || got.Path != got.Interface || !got.Small || !got.Large {
			t.Errorf("%s: %+v, %v", address, got, err)
		}
	}
	if _, err := pathMTU(t.Context(), "192.0.2.77", "192.0.2.78"); err == nil {
		t.Error("an address that is not here can be used")
	}
}
