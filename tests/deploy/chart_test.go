package deploy

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/mxl-stack/mxl-fabrics-agent/agent/config"
)

const chartPath = "deploy/helm/mxl-fabrics-agent"

func loadChart(t testing.TB) *chart.Chart {
	t.Helper()
	c, err := loader.Load(filepath.Join(root, chartPath))
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Validate(); err != nil {
		t.Fatal(err)
	}
	return c
}

// render renders the chart as `helm template` does, the schema included.
func render(t testing.TB, values string) (objects, string, error) {
	t.Helper()
	c := loadChart(t)
	given := map[string]any{}
	if err := yaml.Unmarshal([]byte(values), &given); err != nil {
		t.Fatal(err)
	}
	release := chartutil.ReleaseOptions{Name: "mesh", Namespace: "media", Revision: 1, IsInstall: true}
	all, err := chartutil.ToRenderValues(c, given, release, chartutil.DefaultCapabilities)
	if err != nil {
		return objects{}, "", err
	}
	files, err := engine.Engine{Strict: true}.Render(c, all)
	if err != nil {
		return objects{}, "", err
	}
	var text bytes.Buffer
	var notes string
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if strings.HasSuffix(name, "NOTES.txt") {
			notes = files[name]
			continue
		}
		fmt.Fprintf(&text, "\n---\n# %s\n%s", name, files[name])
	}
	return decode(t, "chart", text.Bytes()), notes, nil
}

func TestChartWithDefaults(t *testing.T) {
	o, notes, err := render(t, "")
	if err != nil {
		t.Fatal(err)
	}
	if len(o.daemonSets) != 1 || len(o.configMaps) != 1 || len(o.services)+len(o.monitors)+len(o.networkPolicies)+len(o.rules) != 0 {
		t.Fatalf("objects %+v", o)
	}
	d := o.daemonSets[0]
	checkDaemonSet(t, d, o.configMaps)
	if d.Name != "mesh-mxl-fabrics-agent" || d.Namespace != "media" {
		t.Errorf("DaemonSet %s in %s", d.Name, d.Namespace)
	}
	if q := d.Spec.Template.Spec.Containers[0].Resources.Limits["rdma/infiniband"]; q.Value() != 1 {
		t.Errorf("rdma/infiniband %s, want 1", q.String())
	}
	if !strings.Contains(notes, "NMOS_REGISTRY_ADDRESS is empty") || !strings.Contains(notes, "daemonset/mesh-mxl-fabrics-agent") {
		t.Errorf("notes: %s", notes)
	}
}

func TestChartWithEverything(t *testing.T) {
	o, notes, err := render(t, string(readHere(t, "testdata/full.yaml")))
	if err != nil {
		t.Fatal(err)
	}
	if len(o.daemonSets) != 1 || len(o.configMaps) != 2 || len(o.services) != 1 || len(o.monitors) != 1 ||
		len(o.networkPolicies) != 1 || len(o.rules) != 1 {
		t.Fatalf("objects %+v", o)
	}
	d := o.daemonSets[0]
	i := slices.IndexFunc(o.configMaps, func(m *corev1.ConfigMap) bool { return m.Name == "mesh-mxl-fabrics-agent" })
	checkDaemonSet(t, d, o.configMaps[i:i+1])
	c := d.Spec.Template.Spec.Containers[0]
	env := environment(t, c)
	for k, want := range map[string]string{
		"MIRROR_IDLE_GRACE_S": "31536000", "CPU_AFFINITY": "2,3", "FABRIC_PORT_BASE": "24000", "METRICS_PER_FLOW": "false",
		"MIRROR_EXCLUDE_DOMAINS": "8c1d6a52-3f0e-4f5b-8b7e-2d9a4c6e1f01", "WEB_PORT": "9095", "NMOS_PORT": "4232",
		"NMOS_TAGS": `{"urn:x-plant:room":["1","2"]}`, "SHUTDOWN_TIMEOUT_S": "20",
	} {
		if env[k] != want {
			t.Errorf("%s=%s, want %s", k, env[k], want)
		}
	}
	cfg, err := load(t, env, []byte(o.configMaps[i].Data["node-a.json"]))
	if err != nil {
		t.Fatal(err)
	}
	if len(cfg.Peers) != 1 || cfg.Peers[0].HostID != "node-b" || len(cfg.LocalNodeCIDRs) != 2 {
		t.Errorf("peers %+v, networks %v", cfg.Peers, cfg.LocalNodeCIDRs)
	}
	pod := d.Spec.Template.Spec
	if pod.PriorityClassName != "system-node-critical" || pod.NodeSelector["media"] != "true" || len(pod.Tolerations) != 1 ||
		pod.Volumes[0].HostPath.Path != "/mnt/mxl" || c.Image != "registry.example/mxl-fabrics-agent:1.2.3" || pod.Affinity == nil {
		t.Errorf("pod %+v", pod)
	}
	if q := c.Resources.Limits["vendor.example/rdma_a"]; q.Value() != 2 {
		t.Errorf("limits %v", c.Resources.Limits)
	}
	if q := c.Resources.Limits["hugepages-2Mi"]; q.String() != "64Mi" {
		t.Errorf("limits %v", c.Resources.Limits)
	}
	checkMonitor(t, o.monitors[0], o.services[0].Labels)
	checkMonitor(t, o.monitors[0], d.Spec.Template.Labels)
	ports := o.networkPolicies[0].Spec.Ingress[0].Ports
	if last := ports[len(ports)-1]; last.Port.IntVal != 24000 || *last.EndPort != 24199 {
		t.Errorf("fabric ports from %d to %d", last.Port.IntVal, *last.EndPort)
	}
	if strings.Contains(notes, "is empty") {
		t.Errorf("notes: %s", notes)
	}
}

func TestChartVariants(t *testing.T) {
	for name, test := range map[string]struct {
		values string
		check  func(objects) bool
	}{
		"pod monitor": {"podMonitor: {enabled: true}", func(o objects) bool {
			checkMonitor(t, o.monitors[0], o.daemonSets[0].Spec.Template.Labels)
			return o.monitors[0].Kind == "PodMonitor" && len(o.services) == 0
		}},
		"without RDMA": {"rdma: {enabled: false}\nsettings: {DEFAULT_PROVIDER: tcp}", func(o objects) bool {
			return len(o.daemonSets[0].Spec.Template.Spec.Containers[0].Resources.Limits) == 0
		}},
		"no annotations": {"scrapeAnnotations: false", func(o objects) bool {
			return len(o.daemonSets[0].Spec.Template.Annotations) == 0
		}},
		"a closed policy": {"networkPolicy: {enabled: true}", func(o objects) bool {
			return len(o.networkPolicies) == 1 && len(o.networkPolicies[0].Spec.Ingress) == 0
		}},
		"without a shipped setting": {"settings: {PROVIDER_FALLBACK: null}", func(o objects) bool {
			_, there := environment(t, o.daemonSets[0].Spec.Template.Spec.Containers[0])["PROVIDER_FALLBACK"]
			return !there
		}},
	} {
		o, _, err := render(t, test.values)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		checkDaemonSet(t, o.daemonSets[0], o.configMaps)
		if !test.check(o) {
			t.Errorf("%s: %+v", name, o)
		}
	}
}

// What the agent would refuse at its start, or what nobody would see, is refused
// before anything is installed.
func TestChartRefuses(t *testing.T) {
	for values, part := range map[string]string{
		"setings: {}":                                             "setings",
		"settings: {MIRROR_INCLUDE: x}":                           "MIRROR_INCLUDE",
		"settings: {HOST_ID: x}":                                  "HOST_ID",
		"settings: {AUDIO_PASS_MS: 5}":                            "AUDIO_PASS_MS",
		"settings: {FABRIC_ACK_TIMEOUT: 3}":                       "FABRIC_ACK_TIMEOUT",
		"settings: {DEFAULT_PROVIDER: shm}":                       "DEFAULT_PROVIDER",
		"settings: {NMOS_DNS_SD: maybe}":                          "NMOS_DNS_SD",
		"nodes: {node-a: {PEERS: [{hostid: b}]}}":                 "PEERS",
		"nodes: {node-a: {PEERS: [{host_id: b, provider: udp}]}}": "provider",
		"nodes: {node-a: {MIRROR_ADMIN_REBUILD: true}}":           "MIRROR_ADMIN_REBUILD",
		"nodes: {Node_A: {}}":                                     "Node_A",
		"mxlRoot: Volumes/mxl":                                    "mxlRoot",
		"ports: {web: 70000}":                                     "web",
		"ports: {web: 3233}":                                      "taken by the NMOS node",
		"image: {pullPolicy: Sometimes}":                          "pullPolicy",
		"shutdownTimeout: 30":                                     "must be more than shutdownTimeout",
		"serviceMonitor: {enabled: true}":                         "needs service.enabled",
		"service: {enabled: true}\nserviceMonitor: {enabled: true}\npodMonitor: {enabled: true}": "twice",
		"podMonitor: {enabled: true, interval: often}":                                           "interval",
		"networkPolicy: {peers: [192.0.2.1]}":                                                    "peers",
	} {
		_, _, err := render(t, values)
		if err == nil {
			t.Errorf("%s: accepted", values)
		} else if !strings.Contains(err.Error(), part) {
			t.Errorf("%s: %v, which does not name %s", values, err, part)
		}
	}
}

// The schema has the settings of the agent, no others, with the same ranges.
func TestSchemaHasTheSettings(t *testing.T) {
	type property struct {
		Type             any
		Minimum, Maximum *int64
		Enum             []string
	}
	var schema struct {
		Properties struct {
			Settings struct{ Properties map[string]property }
			Nodes    struct {
				AdditionalProperties struct{ Properties map[string]property }
			}
		}
	}
	if err := json.Unmarshal(read(t, chartPath+"/values.schema.json"), &schema); err != nil {
		t.Fatal(err)
	}
	// Those that the chart sets itself.
	own := []string{"HOST_ID", "MXL_DOMAIN_SCAN_PATH", "STATE_DIR", "AGENT_CONFIG_FILE", "WEB_PORT", "NMOS_PORT", "NMOS_HOST_ADDRESS", "SHUTDOWN_TIMEOUT_S"}
	var settings, node []string
	for _, k := range config.Keys() {
		if slices.Contains(own, k.Name) {
			continue
		}
		settings = append(settings, k.Name)
		if !k.EnvironmentOnly {
			node = append(node, k.Name)
		}
	}
	slices.Sort(settings)
	slices.Sort(node)
	if got := slices.Sorted(maps.Keys(schema.Properties.Settings.Properties)); !slices.Equal(got, settings) {
		t.Errorf("settings %v\nwant %v", got, settings)
	}
	if got := slices.Sorted(maps.Keys(schema.Properties.Nodes.AdditionalProperties.Properties)); !slices.Equal(got, node) {
		t.Errorf("settings of a node %v\nwant %v", got, node)
	}
	accepts := func(name, value string) bool {
		// Others whose default depends on it, or that its range is bounded by.
		env := map[string]string{"FABRIC_PORT_COUNT": "1", "NMOS_QUERY_PORT": "3211"}
		env[name] = value
		_, err := load(t, env, nil)
		return err == nil
	}
	for name, p := range schema.Properties.Settings.Properties {
		if p.Minimum != nil && p.Maximum != nil {
			for value, want := range map[int64]bool{*p.Minimum: true, *p.Maximum: true, *p.Minimum - 1: false, *p.Maximum + 1: false} {
				if got := accepts(name, fmt.Sprint(value)); got != want {
					t.Errorf("%s=%d: the schema's range says %v, the agent %v", name, value, want, got)
				}
			}
		}
		for _, value := range p.Enum {
			if !accepts(name, value) {
				t.Errorf("%s=%s: the agent refuses it", name, value)
			}
		}
	}
}

// The chart cannot read files outside of it.
func TestChartFilesAreTheShippedOnes(t *testing.T) {
	for inside, outside := range map[string]string{"alerts.yaml": "deploy/monitoring/alerts.yaml", "dashboard.json": "deploy/grafana/mxl-fabrics-agent.json"} {
		if !bytes.Equal(read(t, chartPath+"/files/"+inside), read(t, outside)) {
			t.Errorf("%s/files/%s differs from %s: copy it", chartPath, inside, outside)
		}
	}
}
