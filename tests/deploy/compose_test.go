package deploy

import (
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/uuid"
	"sigs.k8s.io/yaml"

	"github.com/mxl-stack/mxl-fabrics-agent/agent/config"
)

// compose is the part of the Compose specification that is used here.
type compose struct {
	Name      string                   `json:"name"`
	Services  map[string]service       `json:"services"`
	Volumes   map[string]composeVolume `json:"volumes"`
	XAgent    any                      `json:"x-agent"`
	XSettings any                      `json:"x-settings"`
}

type service struct {
	Image string `json:"image"`
	Build *struct {
		Context    string `json:"context"`
		Dockerfile string `json:"dockerfile"`
		Target     string `json:"target"`
	} `json:"build"`
	Restart     string            `json:"restart"`
	NetworkMode string            `json:"network_mode"`
	PID         string            `json:"pid"`
	CapAdd      []string          `json:"cap_add"`
	SecurityOpt []string          `json:"security_opt"`
	Ulimits     map[string]int    `json:"ulimits"`
	Devices     []string          `json:"devices"`
	Environment map[string]string `json:"environment"`
	Volumes     []string          `json:"volumes"`
	StopGrace   string            `json:"stop_grace_period"`
	DependsOn   any               `json:"depends_on"`
	Entrypoint  []string          `json:"entrypoint"`
	Command     []string          `json:"command"`
	Healthcheck map[string]any    `json:"healthcheck"`
	Logging     any               `json:"logging"`
}

type composeVolume struct {
	Driver     string            `json:"driver"`
	DriverOpts map[string]string `json:"driver_opts"`
}

func readCompose(t testing.TB, name string) compose {
	t.Helper()
	var c compose
	if err := yaml.UnmarshalStrict(read(t, "docker/"+name), &c); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return c
}

// interpolate fills ${NAME:-default} and ${NAME:?words} in; what has no default
// is taken from given.
func interpolate(t testing.TB, text string, given map[string]string) string {
	t.Helper()
	return regexp.MustCompile(`\$\{(\w+)(?::([-?])([^}]*))?\}`).ReplaceAllStringFunc(text, func(m string) string {
		parts := regexp.MustCompile(`\$\{(\w+)(?::([-?])([^}]*))?\}`).FindStringSubmatch(m)
		if value, ok := given[parts[1]]; ok {
			return value
		}
		if parts[2] != "-" {
			t.Errorf("%s has no default and is not given", parts[1])
		}
		return parts[3]
	})
}

// settings is a service's environment as the agent gets it.
func settings(t testing.TB, s service, given map[string]string) map[string]string {
	t.Helper()
	env := make(map[string]string)
	for name, value := range s.Environment {
		if _, known := config.Lookup(name); !known {
			t.Errorf("%s is not a setting of the agent", name)
		}
		env[name] = interpolate(t, value, given)
	}
	return env
}

// sources: what a service mounts from the tree exists.
func sources(t testing.TB, c compose, given map[string]string) {
	t.Helper()
	for name, s := range c.Services {
		if s.Build != nil {
			if _, err := os.Stat(filepath.Join(root, "docker", s.Build.Context, s.Build.Dockerfile)); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			if s.Build.Target != "" && !regexp.MustCompile(`(?m)^FROM \S+ AS `+s.Build.Target+`$`).Match(read(t, "docker/Dockerfile")) {
				t.Errorf("%s: no stage %s", name, s.Build.Target)
			}
		}
		for _, v := range s.Volumes {
			from, _, _ := strings.Cut(interpolate(t, v, given), ":")
			if strings.HasPrefix(from, ".") {
				if _, err := os.Stat(filepath.Join(root, "docker", from)); err != nil {
					t.Errorf("%s: %v", name, err)
				}
			} else if _, declared := c.Volumes[from]; !declared && !strings.HasPrefix(from, "/") {
				t.Errorf("%s: volume %s is not declared", name, from)
			}
		}
	}
}

func TestComposeHost(t *testing.T) {
	given := map[string]string{"HOST_ID": "node-a", "NMOS_HOST_ADDRESS": "203.0.113.11"}
	c := readCompose(t, "docker-compose.host.yaml")
	sources(t, c, given)
	s := c.Services["mxl-fabrics-agent"]
	if len(c.Services) != 1 || s.NetworkMode != "host" || s.PID != "host" || s.Restart != "unless-stopped" ||
		!slices.Equal(s.CapAdd, []string{"IPC_LOCK", "SYS_NICE", "SYS_PTRACE"}) || !slices.Contains(s.SecurityOpt, "apparmor=unconfined") ||
		s.Ulimits["memlock"] != -1 || !slices.Equal(s.Devices, []string{"/dev/infiniband:/dev/infiniband"}) {
		t.Errorf("%+v", s)
	}
	cfg, err := load(t, settings(t, s, given), read(t, "docker/agent.host.json"))
	if err != nil {
		t.Fatal(err)
	}
	if cfg.HostID != "node-a" || cfg.ProviderFallback != "tcp" || cfg.DefaultProvider != "verbs" || len(cfg.Peers) != 2 {
		t.Errorf("%+v", cfg)
	}
	writable := false
	for _, v := range s.Volumes {
		writable = writable || interpolate(t, v, given) == cfg.ScanPath+":"+cfg.ScanPath
	}
	if !writable {
		t.Errorf("volumes %v, scan path %s", s.Volumes, cfg.ScanPath)
	}
	if grace := seconds(t, s.StopGrace); grace <= int(cfg.ShutdownTimeout.Duration().Seconds()) {
		t.Errorf("stop_grace_period %d s, SHUTDOWN_TIMEOUT_S %v", grace, cfg.ShutdownTimeout.Duration())
	}
}

func seconds(t testing.TB, text string) int {
	t.Helper()
	n, err := strconv.Atoi(strings.TrimSuffix(text, "s"))
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// option is the value of -name=value or --name=value in a command.
func option(command []string, name string) string {
	for _, c := range command {
		if value, ok := strings.CutPrefix(strings.TrimLeft(c, "-"), name+"="); ok {
			return value
		}
	}
	return ""
}

func TestComposeDemo(t *testing.T) {
	c := readCompose(t, "docker-compose.demo.yaml")
	sources(t, c, nil)
	want := []string{"agent-a", "agent-b", "audio", "controller", "grafana", "prometheus", "registry", "video"}
	if got := slices.Sorted(maps.Keys(c.Services)); !slices.Equal(got, want) {
		t.Fatalf("services %v, want %v", got, want)
	}
	ports := make(map[int]string)
	hosts := make(map[string]*config.Config)
	registry := c.Services["registry"]
	node := option(registry.Command, "node-ids")
	for _, name := range []string{"agent-a", "agent-b"} {
		s := c.Services[name]
		cfg, err := load(t, settings(t, s, nil), nil)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		hosts[cfg.HostID] = cfg
		used := []int{cfg.WebPort, cfg.NMOSPort, cfg.NMOSPort + 1}
		for port := cfg.FabricPortBase; port < cfg.FabricPortBase+cfg.FabricPortCount; port++ {
			used = append(used, port)
		}
		for _, port := range used {
			if ports[port] != "" {
				t.Errorf("port %d is %s's and %s's", port, ports[port], name)
			}
			ports[port] = name
		}
		if strconv.Itoa(cfg.NMOSRegistryPort) != option(registry.Command, "registry-port") || strconv.Itoa(cfg.NMOSQueryPort) != option(registry.Command, "query-port") {
			t.Errorf("%s: registry ports %d, %d; the registry: %v", name, cfg.NMOSRegistryPort, cfg.NMOSQueryPort, registry.Command)
		}
		if grace := seconds(t, s.StopGrace); grace <= int(cfg.ShutdownTimeout.Duration().Seconds()) {
			t.Errorf("%s: stop_grace_period %d s", name, grace)
		}
	}
	a, b := hosts["host-a"], hosts["host-b"]
	if a.WebPort != 18095 || a.NMOSPort != 18232 || a.FabricPortBase != 23600 || b.WebPort != 18096 || b.NMOSPort != 18242 || b.FabricPortBase != 23700 {
		t.Errorf("ports of A %d %d %d, of B %d %d %d", a.WebPort, a.NMOSPort, a.FabricPortBase, b.WebPort, b.NMOSPort, b.FabricPortBase)
	}
	if !slices.Equal(b.LocalNodeIDs, config.List{node}) || len(a.LocalNodeIDs) != 0 {
		t.Errorf("local nodes of A %v, of B %v; the registry's node is %s", a.LocalNodeIDs, b.LocalNodeIDs, node)
	}
	for _, pair := range [][2]*config.Config{{a, b}, {b, a}} {
		p := pair[0].Peers[0]
		u, err := url.Parse(p.ControlURL)
		if err != nil || p.HostID != pair[1].HostID || u.Port() != strconv.Itoa(pair[1].WebPort) || p.Provider != "tcp" {
			t.Errorf("%s has peer %+v", pair[0].HostID, p)
		}
	}
	for _, name := range []string{"mxl-a", "mxl-b"} {
		if o := c.Volumes[name].DriverOpts; o["type"] != "tmpfs" || !strings.Contains(o["o"], "uid=1000") {
			t.Errorf("volume %s: %v", name, o)
		}
	}
	// The controller connects what the writers write.
	said := strings.Join(c.Services["controller"].Command, " ")
	for _, name := range []string{"video", "audio"} {
		for _, id := range []string{"domain-id", "flow-id"} {
			value := option(c.Services[name].Command, id)
			if _, err := uuid.Parse(value); err != nil || !strings.Contains(said, value) {
				t.Errorf("%s: %s %q is not connected", name, id, value)
			}
		}
	}
	grafana := c.Services["grafana"].Environment
	if grafana["GF_AUTH_ANONYMOUS_ENABLED"] != "true" || grafana["GF_AUTH_ANONYMOUS_ORG_ROLE"] != "Admin" || grafana["GF_SERVER_HTTP_PORT"] != "3000" {
		t.Errorf("grafana %v", grafana)
	}
}
