package deploy

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"sigs.k8s.io/yaml"
)

// Query is one PromQL expression that is shipped.
type Query struct {
	// Where names file and panel or alert.
	Where string
	// Expr is the expression with Grafana's variables filled in.
	Expr string
	// Legend is the panel's legend.
	Legend string
}

// variables are those that Grafana knows by itself, and the dashboard's own.
var variables = strings.NewReplacer("$__rate_interval", "1m", "$__interval", "15s", "$__range", "30m", "$host_id", ".+")

type panel struct {
	Type       string
	ID         int
	Title      string
	Datasource struct{ UID string }
	GridPos    struct{ H, W, X, Y int }
	Targets    []struct {
		RefID        string
		Expr         string
		LegendFormat string
	}
	Panels []panel
}

type dashboard struct {
	UID, Title  string
	Panels      []panel
	Annotations struct {
		List []struct{ Name, Expr, TextFormat string }
	}
	Templating struct {
		List []struct {
			Name, Type, Definition string
			Query                  json.RawMessage
		}
	}
}

func readDashboard(root string) (dashboard, error) {
	var d dashboard
	text, err := os.ReadFile(filepath.Join(root, "deploy/grafana/mxl-fabrics-agent.json"))
	if err != nil {
		return d, err
	}
	return d, json.NewDecoder(bytes.NewReader(text)).Decode(&d)
}

// DashboardQueries returns every expression of the dashboard below the top of
// the tree.
func DashboardQueries(root string) ([]Query, error) {
	d, err := readDashboard(root)
	if err != nil {
		return nil, err
	}
	var list []Query
	var add func([]panel)
	add = func(panels []panel) {
		for _, p := range panels {
			for _, t := range p.Targets {
				list = append(list, Query{fmt.Sprintf("dashboard, %q %s", p.Title, t.RefID), variables.Replace(t.Expr), t.LegendFormat})
			}
			add(p.Panels)
		}
	}
	add(d.Panels)
	for _, a := range d.Annotations.List {
		if a.Expr != "" {
			list = append(list, Query{fmt.Sprintf("dashboard, annotation %q", a.Name), variables.Replace(a.Expr), a.TextFormat})
		}
	}
	return list, nil
}

type ruleFile struct {
	Groups []struct {
		Name  string `json:"name"`
		Rules []rule `json:"rules"`
	} `json:"groups"`
}

type rule struct {
	Alert       string            `json:"alert"`
	Expr        string            `json:"expr"`
	For         string            `json:"for,omitempty"`
	Labels      map[string]string `json:"labels"`
	Annotations map[string]string `json:"annotations"`
}

// AlertQueries returns every expression of the alert rules.
func AlertQueries(root string) ([]Query, error) {
	rules, err := readRules(root)
	if err != nil {
		return nil, err
	}
	var list []Query
	for _, r := range rules {
		list = append(list, Query{Where: "alert " + r.Alert, Expr: r.Expr})
	}
	return list, nil
}

func readRules(root string) ([]rule, error) {
	text, err := os.ReadFile(filepath.Join(root, "deploy/monitoring/alerts.yaml"))
	if err != nil {
		return nil, err
	}
	var file ruleFile
	if err := yaml.UnmarshalStrict(text, &file); err != nil {
		return nil, err
	}
	var list []rule
	for _, g := range file.Groups {
		list = append(list, g.Rules...)
	}
	return list, nil
}
