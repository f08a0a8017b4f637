package deploy

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"

	"github.com/mxl-stack/mxl-fabrics-agent/metrics"
)

// scrape labels are those that Prometheus or the shipped scrape configurations
// give to every series.
var scrape = []string{"job", "instance", "host_id"}

// others are series that are not the agent's own: of Prometheus and of the Go
// client library.
var others = []string{"up", "process_cpu_seconds_total", "process_resident_memory_bytes"}

// labelValues are the values of labels that have a known set, by metric and label.
var labelValues = map[string][]string{
	"demand_entries.state":                     {"local", "replicating", "unresolved", "stale_reference"},
	"domains.kind":                             {"local", "mirror", "conflict"},
	"mirror_state.state":                       {"live", "pending", "stale", "idle"},
	"replication_bytes_total.role":             {"source", "destination"},
	"replication_grains_total.role":            {"source", "destination"},
	"replications_active.role":                 {"source", "destination"},
	"replication_sample_age_max_seconds.stage": {"origin", "sent", "delivered"},
}

// seriesLabels returns the labels of a series by the name in a query, and its kind.
func seriesLabels(name string) (labelNames []string, kind metrics.Kind, err error) {
	if slices.Contains(others, name) {
		return nil, "", nil
	}
	for _, s := range metrics.All() {
		base := name
		if s.Kind == metrics.Histogram {
			for _, suffix := range []string{"_bucket", "_sum", "_count"} {
				base = strings.TrimSuffix(base, suffix)
			}
			if base == name {
				base = ""
			}
		}
		if base != s.Name {
			continue
		}
		labelNames = slices.Clone(s.Labels)
		if strings.HasSuffix(name, "_bucket") && s.Kind == metrics.Histogram {
			labelNames = append(labelNames, "le")
		}
		return labelNames, s.Kind, nil
	}
	return nil, "", fmt.Errorf("the agent has no series %s", name)
}

// check returns what is wrong with an expression, and the labels that its result
// can have.
func check(expr string) (problems []string, result []string) {
	tree, err := parser.NewParser(parser.Options{}).ParseExpr(expr)
	if err != nil {
		return []string{err.Error()}, nil
	}
	wrong := func(format string, args ...any) { problems = append(problems, fmt.Sprintf(format, args...)) }
	known := func(below parser.Node, name string) bool {
		found := slices.Contains(scrape, name)
		parser.Inspect(below, func(n parser.Node, _ []parser.Node) error {
			if v, ok := n.(*parser.VectorSelector); ok {
				list, _, _ := seriesLabels(v.Name)
				found = found || slices.Contains(list, name)
			}
			return nil
		})
		return found
	}
	parser.Inspect(tree, func(n parser.Node, path []parser.Node) error {
		switch n := n.(type) {
		case *parser.VectorSelector:
			list, kind, err := seriesLabels(n.Name)
			if err != nil {
				wrong("%v", err)
				return nil
			}
			for _, m := range n.LabelMatchers {
				if m.Name != labels.MetricName {
					checkMatcher(n.Name, list, m, wrong)
				}
			}
			checkRate(n.Name, kind, path, wrong)
		case *parser.AggregateExpr:
			for _, name := range n.Grouping {
				if !known(n.Expr, name) {
					wrong("grouped by %s, which nothing below has", name)
				}
			}
		case *parser.BinaryExpr:
			if n.VectorMatching != nil {
				for _, name := range slices.Concat(n.VectorMatching.MatchingLabels, n.VectorMatching.Include) {
					if !known(n.LHS, name) || !known(n.RHS, name) {
						wrong("matched by %s, which one side does not have", name)
					}
				}
			}
		case *parser.Call:
			if n.Func.Name == "histogram_quantile" && !strings.Contains(n.Args[1].String(), "_bucket") {
				wrong("a quantile of what is no bucket")
			}
		}
		return nil
	})
	return problems, resultLabels(tree)
}

func checkMatcher(series string, list []string, m *labels.Matcher, wrong func(string, ...any)) {
	if !slices.Contains(list, m.Name) && !slices.Contains(scrape, m.Name) {
		wrong("%s has no label %s", series, m.Name)
		return
	}
	values, set := labelValues[strings.TrimPrefix(series, metrics.Prefix)+"."+m.Name]
	switch {
	case slices.Contains(scrape, m.Name):
	case !set:
		wrong("the values of %s.%s are not in this test's table", series, m.Name)
	case m.Type == labels.MatchRegexp || m.Type == labels.MatchNotRegexp:
		for part := range strings.SplitSeq(m.Value, "|") {
			if !slices.Contains(values, part) {
				wrong("%s.%s is never %q", series, m.Name, part)
			}
		}
	case !slices.Contains(values, m.Value):
		wrong("%s.%s is never %q", series, m.Name, m.Value)
	}
}

// checkRate: counters and histograms are read by rate and increase, gauges are not.
func checkRate(series string, kind metrics.Kind, path []parser.Node, wrong func(string, ...any)) {
	rated := false
	for _, n := range path {
		if call, ok := n.(*parser.Call); ok && (call.Func.Name == "rate" || call.Func.Name == "increase") {
			rated = true
		}
	}
	counter := kind == metrics.Counter || kind == metrics.Histogram || series == "process_cpu_seconds_total"
	if kind == "" && series != "process_cpu_seconds_total" {
		counter = false
	}
	if rated != counter {
		wrong("%s is a %q, and rate or increase over it: %v", series, kind, rated)
	}
}

// resultLabels are the labels that the series of a result can have.
func resultLabels(n parser.Node) []string {
	switch n := n.(type) {
	case *parser.VectorSelector:
		list, _, _ := seriesLabels(n.Name)
		return append(list, scrape...)
	case *parser.AggregateExpr:
		if !n.Without {
			return n.Grouping
		}
		return slices.DeleteFunc(resultLabels(n.Expr), func(name string) bool { return slices.Contains(n.Grouping, name) })
	case *parser.BinaryExpr:
		list := resultLabels(n.LHS)
		if n.LHS.Type() == parser.ValueTypeScalar {
			list = resultLabels(n.RHS)
		}
		if n.Op == parser.LOR {
			list = append(list, resultLabels(n.RHS)...)
		}
		if n.VectorMatching != nil {
			list = append(list, n.VectorMatching.Include...)
		}
		return list
	}
	var list []string
	for _, child := range parser.Children(n) {
		list = append(list, resultLabels(child)...)
	}
	return list
}

func TestDashboardQueries(t *testing.T) {
	queries, err := DashboardQueries(root)
	if err != nil {
		t.Fatal(err)
	}
	if len(queries) < 40 {
		t.Fatalf("%d queries only", len(queries))
	}
	legend := regexp.MustCompile(`{{\s*(\w+)\s*}}`)
	for _, q := range queries {
		problems, has := check(q.Expr)
		for _, p := range problems {
			t.Errorf("%s: %s\n%s", q.Where, p, q.Expr)
		}
		for _, m := range legend.FindAllStringSubmatch(q.Legend, -1) {
			if !slices.Contains(has, m[1]) {
				t.Errorf("%s: legend %s, the result has %v", q.Where, m[1], has)
			}
		}
		if !strings.Contains(q.Where, "annotation") && !strings.Contains(q.Expr, `host_id=~".+"`) {
			t.Errorf("%s does not follow the variable host_id:\n%s", q.Where, q.Expr)
		}
	}
}

// Every family that is worth a look is in the dashboard.
func TestDashboardShowsEverySeries(t *testing.T) {
	queries, err := DashboardQueries(root)
	if err != nil {
		t.Fatal(err)
	}
	left := map[string]string{
		"completion_queue_depth":               "a setting",
		"transfer_stall_threshold_seconds":     "two constants, drawn as thresholds",
		"fabric_requested_ack_timeout_seconds": "a setting",
		"fabric_requested_retry_count":         "a setting",
		"mirror_stale":                         "mirror_state shows it",
		"peers_up":                             "",
	}
	for _, s := range metrics.All() {
		pattern := regexp.MustCompile(`\b` + s.Name + `(_bucket|_count|_sum)?\b`)
		shown := slices.ContainsFunc(queries, func(q Query) bool { return pattern.MatchString(q.Expr) })
		reason, excepted := left[strings.TrimPrefix(s.Name, metrics.Prefix)]
		if !shown && (!excepted || reason == "") {
			t.Errorf("%s is on no panel", s.Name)
		}
	}
}

// The checks of this test find what they are for.
func TestCheckFindsMistakes(t *testing.T) {
	for expr, part := range map[string]string{
		`sum(`:                                 "parse error",
		`mxl_fabrics_agent_mirror_stail`:       "no series",
		`mxl_fabrics_agent_peers_up{peer="a"}`: "no label peer",
		`mxl_fabrics_agent_demand_entries{state="unresolvd"}`:                                  "never",
		`mxl_fabrics_agent_replication_bytes_total`:                                            "rate or increase",
		`rate(mxl_fabrics_agent_peers_up[1m])`:                                                 "rate or increase",
		`sum by (flow) (mxl_fabrics_agent_replication_lag_ms)`:                                 "grouped by flow",
		`mxl_fabrics_agent_peers_up * on (peer) mxl_fabrics_agent_tmpfs_free_bytes`:            "matched by peer",
		`histogram_quantile(0.9, rate(mxl_fabrics_agent_setup_seconds_sum[1m]))`:               "no bucket",
		`rate(mxl_fabrics_agent_grain_transfer_seconds[1m])`:                                   "no series",
		`sum by (le, flow_id) (rate(mxl_fabrics_agent_grain_transfer_seconds_bucket[1m])) > 0`: "grouped by flow_id",
	} {
		problems, _ := check(expr)
		if !slices.ContainsFunc(problems, func(p string) bool { return strings.Contains(p, part) }) {
			t.Errorf("%s: %q, want %q", expr, problems, part)
		}
	}
}
