package deploy

import (
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql/parser"
	"sigs.k8s.io/yaml"
)

// What promtool check rules says.
func TestAlertRulesLoad(t *testing.T) {
	_, errs := rulefmt.Parse(read(t, "deploy/monitoring/alerts.yaml"), false, model.LegacyValidation,
		parser.NewParser(parser.Options{}), slog.New(slog.NewTextHandler(io.Discard, nil)))
	for _, err := range errs {
		t.Error(err)
	}
}

func TestAlertRules(t *testing.T) {
	rules, err := readRules(root)
	if err != nil {
		t.Fatal(err)
	}
	label := regexp.MustCompile(`\$labels\.(\w+)`)
	seen := make(map[string]bool)
	for _, r := range rules {
		if seen[r.Alert] {
			t.Errorf("%s is there twice", r.Alert)
		}
		seen[r.Alert] = true
		problems, has := check(r.Expr)
		for _, p := range problems {
			t.Errorf("%s: %s", r.Alert, p)
		}
		if !slices.Contains([]string{"critical", "warning", "info"}, r.Labels["severity"]) {
			t.Errorf("%s: severity %q", r.Alert, r.Labels["severity"])
		}
		if r.Annotations["summary"] == "" || r.Annotations["description"] == "" {
			t.Errorf("%s: annotations %v", r.Alert, r.Annotations)
		}
		for name, text := range r.Annotations {
			for _, m := range label.FindAllStringSubmatch(text, -1) {
				if !slices.Contains(has, m[1]) {
					t.Errorf("%s: %s uses label %s, the result has %v", r.Alert, name, m[1], has)
				}
			}
		}
		checkRunbook(t, r)
	}
	if len(rules) < 15 {
		t.Errorf("%d rules only", len(rules))
	}
}

// checkRunbook: the page and the heading that an alert sends people to exist.
func checkRunbook(t *testing.T, r rule) {
	t.Helper()
	url := r.Annotations["runbook_url"]
	if url == "" {
		return
	}
	path, ok := strings.CutPrefix(url, "https://github.com/mxl-stack/mxl-fabrics-agent/blob/main/")
	if !ok {
		t.Errorf("%s: runbook %s", r.Alert, url)
		return
	}
	path, anchor, _ := strings.Cut(path, "#")
	text, err := os.ReadFile(filepath.Join(root, path))
	if err != nil {
		t.Errorf("%s: %v", r.Alert, err)
		return
	}
	if anchor == "" {
		return
	}
	for _, heading := range regexp.MustCompile(`(?m)^#+ (.*)$`).FindAllStringSubmatch(string(text), -1) {
		slug := strings.ReplaceAll(strings.ToLower(heading[1]), " ", "-")
		if regexp.MustCompile(`[^\w-]`).ReplaceAllString(slug, "") == anchor {
			return
		}
	}
	t.Errorf("%s: %s has no heading #%s", r.Alert, path, anchor)
}

// prometheusConfig is what the shipped configurations use of Prometheus' own.
type prometheusConfig struct {
	Global struct {
		ScrapeInterval     string `json:"scrape_interval"`
		EvaluationInterval string `json:"evaluation_interval"`
	} `json:"global"`
	RuleFiles     []string `json:"rule_files"`
	ScrapeConfigs []struct {
		JobName       string `json:"job_name"`
		StaticConfigs []struct {
			Targets []string          `json:"targets"`
			Labels  map[string]string `json:"labels"`
		} `json:"static_configs"`
	} `json:"scrape_configs"`
}

func TestPrometheusConfigurations(t *testing.T) {
	for name, want := range map[string]string{"deploy/monitoring/prometheus.yaml": `^node-[abc]:8095$`, "docker/demo/prometheus.yaml": `^127\.0\.0\.1:1809[56]$`} {
		var c prometheusConfig
		if err := yaml.UnmarshalStrict(read(t, name), &c); err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if len(c.ScrapeConfigs) != 1 || c.ScrapeConfigs[0].JobName != "mxl-fabrics-agent" || len(c.RuleFiles) != 1 {
			t.Errorf("%s: %+v", name, c)
			continue
		}
		for _, s := range c.ScrapeConfigs[0].StaticConfigs {
			if len(s.Targets) != 1 || !regexp.MustCompile(want).MatchString(s.Targets[0]) || s.Labels["host_id"] == "" || len(s.Labels) != 1 {
				t.Errorf("%s: %+v", name, s)
			}
		}
		for _, text := range []string{c.Global.ScrapeInterval, c.Global.EvaluationInterval} {
			if _, err := model.ParseDuration(text); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}
