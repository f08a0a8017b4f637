package deploy

import (
	"encoding/json"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

func TestDashboard(t *testing.T) {
	d, err := readDashboard(root)
	if err != nil {
		t.Fatal(err)
	}
	if d.UID != "mxl-fabrics-agent" || d.Title != "mxl-fabrics-agent" {
		t.Errorf("uid %q, title %q", d.UID, d.Title)
	}
	variables := make(map[string]string)
	for _, v := range d.Templating.List {
		variables[v.Name] = v.Type + " " + v.Definition
	}
	if variables["host_id"] != "query label_values(mxl_fabrics_agent_info, host_id)" || variables["datasource"] != "datasource " {
		t.Errorf("variables %v", variables)
	}
	ids, titles := make(map[int]bool), make(map[string]bool)
	for i, p := range d.Panels {
		if ids[p.ID] || titles[p.Title] {
			t.Errorf("panel %d %q: id or title is there twice", p.ID, p.Title)
		}
		ids[p.ID], titles[p.Title] = true, true
		if p.GridPos.X < 0 || p.GridPos.X+p.GridPos.W > 24 || p.GridPos.W <= 0 || p.GridPos.H <= 0 {
			t.Errorf("%q lies at %+v", p.Title, p.GridPos)
		}
		for _, other := range d.Panels[:i] {
			a, b := p.GridPos, other.GridPos
			if a.X < b.X+b.W && b.X < a.X+a.W && a.Y < b.Y+b.H && b.Y < a.Y+a.H {
				t.Errorf("%q lies on %q", p.Title, other.Title)
			}
		}
		if p.Type != "row" && (len(p.Targets) == 0 || p.Datasource.UID != "${datasource}") {
			t.Errorf("%q has %d queries and data source %q", p.Title, len(p.Targets), p.Datasource.UID)
		}
	}
	// The panels of the agent API reference §19.5, by what they ask.
	queries, _ := DashboardQueries(root)
	for _, want := range []string{"peers_up", "replication_bytes_total", "replication_lag_grains", "replication_errors_total", "tmpfs_free_bytes", "tai_offset_seconds", "grain_transfer_seconds_bucket"} {
		found := false
		for _, q := range queries {
			found = found || strings.Contains(q.Expr, "mxl_fabrics_agent_"+want)
		}
		if !found {
			t.Errorf("nothing shows %s", want)
		}
	}
}

// No member of the dashboard's JSON is there twice, and it is one document.
func TestDashboardIsPlainJSON(t *testing.T) {
	text := read(t, "deploy/grafana/mxl-fabrics-agent.json")
	if !json.Valid(text) {
		t.Fatal("not JSON")
	}
	var any map[string]any
	if err := yaml.UnmarshalStrict(text, &any); err != nil {
		t.Error(err)
	}
}

// Grafana's provisioning of the demo points at what Compose mounts.
func TestGrafanaProvisioning(t *testing.T) {
	var sources struct {
		APIVersion  int `json:"apiVersion"`
		Datasources []struct {
			Name      string         `json:"name"`
			Type      string         `json:"type"`
			Access    string         `json:"access"`
			URL       string         `json:"url"`
			IsDefault bool           `json:"isDefault"`
			JSONData  map[string]any `json:"jsonData"`
		} `json:"datasources"`
	}
	if err := yaml.UnmarshalStrict(read(t, "docker/demo/grafana/datasources.yaml"), &sources); err != nil {
		t.Fatal(err)
	}
	if len(sources.Datasources) != 1 || !sources.Datasources[0].IsDefault || sources.Datasources[0].URL != "http://127.0.0.1:9090" {
		t.Errorf("%+v", sources)
	}
	var dashboards struct {
		APIVersion int `json:"apiVersion"`
		Providers  []struct {
			Name    string            `json:"name"`
			Type    string            `json:"type"`
			Options map[string]string `json:"options"`
		} `json:"providers"`
	}
	if err := yaml.UnmarshalStrict(read(t, "docker/demo/grafana/dashboards.yaml"), &dashboards); err != nil {
		t.Fatal(err)
	}
	mounted := false
	for _, v := range readCompose(t, "docker-compose.demo.yaml").Services["grafana"].Volumes {
		mounted = mounted || v == "../deploy/grafana:"+dashboards.Providers[0].Options["path"]+":ro"
	}
	if !mounted {
		t.Errorf("dashboards %+v are not mounted there", dashboards)
	}
}
