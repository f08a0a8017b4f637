package deploy

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/mxl-stack/mxl-fabrics-agent/agent/config"
)

// container finds one by its name.
func container(t testing.TB, list []corev1.Container, name string) corev1.Container {
	t.Helper()
	i := slices.IndexFunc(list, func(c corev1.Container) bool { return c.Name == name })
	if i < 0 {
		t.Fatalf("no container %s", name)
	}
	return list[i]
}

// environment is a container's, with the downward API filled in for node-a.
func environment(t testing.TB, c corev1.Container) map[string]string {
	t.Helper()
	fields := map[string]string{"spec.nodeName": "node-a", "status.hostIP": "192.0.2.10"}
	got := make(map[string]string)
	for _, e := range c.Env {
		if _, twice := got[e.Name]; twice {
			t.Errorf("%s is there twice", e.Name)
		}
		if _, known := config.Lookup(e.Name); !known {
			t.Errorf("%s is not a setting", e.Name)
		}
		got[e.Name] = e.Value
		if e.ValueFrom != nil {
			value, known := fields[e.ValueFrom.FieldRef.FieldPath]
			if !known {
				t.Errorf("%s: field %s", e.Name, e.ValueFrom.FieldRef.FieldPath)
			}
			got[e.Name] = value
		}
	}
	return got
}

// checkDaemonSet holds a DaemonSet against the contract, "Running on the
// platform" and "Mirror cleanup".
func checkDaemonSet(t *testing.T, d *appsv1.DaemonSet, configMaps []*corev1.ConfigMap) {
	t.Helper()
	pod := d.Spec.Template.Spec
	c := container(t, pod.Containers, "mxl-fabrics-agent")
	env := environment(t, c)

	for name, ok := range map[string]bool{
		"host network":            pod.HostNetwork && pod.DNSPolicy == corev1.DNSClusterFirstWithHostNet,
		"host PIDs":               pod.HostPID,
		"no host IPC":             !pod.HostIPC,
		"no API token":            pod.AutomountServiceAccountToken != nil && !*pod.AutomountServiceAccountToken,
		"AppArmor unconfined":     pod.SecurityContext.AppArmorProfile.Type == corev1.AppArmorProfileTypeUnconfined,
		"uid and gid 1000":        *pod.SecurityContext.RunAsUser == 1000 && *pod.SecurityContext.RunAsGroup == 1000,
		"not privileged":          c.SecurityContext.Privileged == nil,
		"file capabilities work":  *c.SecurityContext.AllowPrivilegeEscalation,
		"capabilities":            slices.Equal(c.SecurityContext.Capabilities.Add, []corev1.Capability{"IPC_LOCK", "SYS_NICE", "SYS_PTRACE"}),
		"no other capabilities":   slices.Equal(c.SecurityContext.Capabilities.Drop, []corev1.Capability{"ALL"}),
		"HOST_ID is the node":     env["HOST_ID"] == "node-a",
		"address is the node's":   env["NMOS_HOST_ADDRESS"] == "192.0.2.10",
		"no seed":                 !slices.Contains(slices.Collect(maps.Keys(env)), "NMOS_SEED"),
		"labelled app":            d.Spec.Template.Labels["app"] == "mxl-fabrics-agent",
		"no limit of memory":      c.Resources.Limits.Memory().IsZero(),
		"state is at STATE_DIR":   env["STATE_DIR"] == "/config" && env["AGENT_CONFIG_FILE"] == "/config/agent.json",
		"scan path is the volume": env["MXL_DOMAIN_SCAN_PATH"] == "/Volumes/mxl",
	} {
		if !ok {
			t.Errorf("not so: %s", name)
		}
	}
	for k, v := range d.Spec.Selector.MatchLabels {
		if d.Spec.Template.Labels[k] != v {
			t.Errorf("selector %s=%s does not match the pod's labels %v", k, v, d.Spec.Template.Labels)
		}
	}
	checkProbes(t, c)
	checkVolumes(t, pod, c)

	cfg, err := load(t, env, []byte("{}"))
	if err != nil {
		t.Fatalf("the agent does not start with this environment: %v", err)
	}
	if grace, timeout := *pod.TerminationGracePeriodSeconds, int64(cfg.ShutdownTimeout.Duration().Seconds()); grace <= timeout {
		t.Errorf("terminationGracePeriodSeconds %d, SHUTDOWN_TIMEOUT_S %d", grace, timeout)
	}
	ports := make(map[string]int)
	for _, p := range c.Ports {
		ports[p.Name] = int(p.ContainerPort)
		if p.HostPort != 0 && p.HostPort != p.ContainerPort {
			t.Errorf("port %s: host port %d on the host network", p.Name, p.HostPort)
		}
	}
	if want := map[string]int{"http": cfg.WebPort, "nmos": cfg.NMOSPort, "nmos-ws": cfg.NMOSPort + 1}; !maps.Equal(ports, want) {
		t.Errorf("ports %v, want %v", ports, want)
	}
	if a := d.Spec.Template.Annotations; a["prometheus.io/scrape"] == "true" &&
		(a["prometheus.io/port"] != strconv.Itoa(cfg.WebPort) || a["prometheus.io/path"] != "/metrics") {
		t.Errorf("scrape annotations %v", a)
	}
	for _, m := range configMaps {
		for name, text := range m.Data {
			if !strings.HasSuffix(name, ".json") {
				t.Errorf("ConfigMap %s has %s", m.Name, name)
			}
			if _, err := load(t, env, []byte(text)); err != nil {
				t.Errorf("the agent does not start with %s: %v", name, err)
			}
		}
	}
}

func checkProbes(t *testing.T, c corev1.Container) {
	t.Helper()
	for name, p := range map[string]struct {
		probe *corev1.Probe
		path  string
	}{"readiness": {c.ReadinessProbe, "/readyz"}, "liveness": {c.LivenessProbe, "/livez"}, "startup": {c.StartupProbe, "/livez"}} {
		if p.probe == nil || p.probe.HTTPGet == nil || p.probe.HTTPGet.Path != p.path || p.probe.HTTPGet.Port.StrVal != "http" {
			t.Errorf("%s probe: %+v, want %s on http", name, p.probe, p.path)
		}
	}
}

func checkVolumes(t *testing.T, pod corev1.PodSpec, c corev1.Container) {
	t.Helper()
	volumes := make(map[string]corev1.Volume)
	for _, v := range pod.Volumes {
		volumes[v.Name] = v
	}
	mounted := make(map[string]string)
	for _, list := range [][]corev1.Container{pod.InitContainers, pod.Containers} {
		for _, c := range list {
			for _, m := range c.VolumeMounts {
				if _, ok := volumes[m.Name]; !ok {
					t.Errorf("container %s mounts %s, which is no volume", c.Name, m.Name)
				}
			}
		}
	}
	for _, m := range c.VolumeMounts {
		if m.ReadOnly {
			t.Errorf("%s is read-only", m.MountPath)
		}
		if v := volumes[m.Name]; v.HostPath != nil {
			mounted[m.MountPath] = fmt.Sprintf("%s %s", v.HostPath.Path, *v.HostPath.Type)
		}
	}
	if !strings.HasSuffix(mounted["/Volumes/mxl"], " Directory") || !strings.HasSuffix(mounted["/config"], " DirectoryOrCreate") {
		t.Errorf("host paths %v", mounted)
	}
}

func TestManifest(t *testing.T) {
	o := decode(t, "manifest", read(t, "deploy/mxl-fabrics-agent.yaml"))
	if len(o.daemonSets) != 1 || len(o.configMaps) != 1 {
		t.Fatalf("%d DaemonSets, %d ConfigMaps", len(o.daemonSets), len(o.configMaps))
	}
	d := o.daemonSets[0]
	checkDaemonSet(t, d, o.configMaps)
	if len(o.configMaps[0].Data) != 3 {
		t.Errorf("%d nodes in the ConfigMap, want 3", len(o.configMaps[0].Data))
	}
	c := d.Spec.Template.Spec.Containers[0]
	if q := c.Resources.Limits["rdma/infiniband"]; q.Value() != 1 {
		t.Errorf("rdma/infiniband %s, want 1", q.String())
	}
	if got := d.Spec.Template.Spec.Volumes[0].HostPath.Path; got != "/Volumes/mxl" {
		t.Errorf("MXL root %s", got)
	}
}

// The links of the ConfigMap's nodes are each other's ends.
func TestManifestLinks(t *testing.T) {
	o := decode(t, "manifest", read(t, "deploy/mxl-fabrics-agent.yaml"))
	links := make(map[string]config.Peer)
	for name, text := range o.configMaps[0].Data {
		cfg, err := load(t, map[string]string{"AGENT_CONFIG_FILE": ""}, []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range cfg.Peers {
			links[strings.TrimSuffix(name, ".json")+" "+p.HostID] = p
		}
	}
	if len(links) != 6 {
		t.Fatalf("%d ends of links, want 6", len(links))
	}
	for ends, p := range links {
		a, b, _ := strings.Cut(ends, " ")
		other := links[b+" "+a]
		if p.LocalFabricAddr != other.RemoteFabricAddr || p.RemoteFabricAddr != other.LocalFabricAddr || p.LocalFabricAddr == "" {
			t.Errorf("%s: %+v, the other end: %+v", ends, p, other)
		}
	}
}

func TestMonitoringExamples(t *testing.T) {
	for name, kind := range map[string]string{"servicemonitor": "ServiceMonitor", "podmonitor": "PodMonitor"} {
		o := decode(t, name, read(t, "deploy/monitoring/"+name+".yaml"))
		if len(o.monitors) != 1 || o.monitors[0].Kind != kind {
			t.Fatalf("%s: %+v", name, o.monitors)
		}
		checkMonitor(t, o.monitors[0], map[string]string{"app": "mxl-fabrics-agent"})
		for _, s := range o.services {
			if s.Spec.ClusterIP != corev1.ClusterIPNone || s.Spec.Ports[0].Name != "http" || s.Spec.Ports[0].Port != 8095 {
				t.Errorf("service %+v", s.Spec)
			}
		}
	}
}

func checkMonitor(t *testing.T, m *monitor, labels map[string]string) {
	t.Helper()
	endpoints := append(slices.Clone(m.Spec.Endpoints), m.Spec.PodMetricsEndpoints...)
	if len(endpoints) != 1 || (m.Kind == "ServiceMonitor") != (len(m.Spec.Endpoints) == 1) {
		t.Fatalf("%s has endpoints %+v", m.Kind, endpoints)
	}
	e := endpoints[0]
	if e.Port != "http" || e.Path != "/metrics" || e.Interval != "15s" ||
		len(e.Relabelings) != 1 || e.Relabelings[0].TargetLabel != "host_id" {
		t.Errorf("%s: %+v", m.Kind, e)
	}
	for k, v := range m.Spec.Selector.MatchLabels {
		if labels[k] != v {
			t.Errorf("%s selects %s=%s, labels are %v", m.Kind, k, v, labels)
		}
	}
}
