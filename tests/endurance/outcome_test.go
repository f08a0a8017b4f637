package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/mxl-stack/mxl-fabrics-agent/tests/witness"
)

func TestVerdict(t *testing.T) {
	grown := func(key string, s slope) func(*growth) {
		return func(g *growth) { g.Slopes[figureOf(t, key)] = s }
	}
	for name, tc := range map[string]struct {
		seen    witness.Seen
		seconds float64
		change  func(*growth)
		want    string
	}{
		"good":                    {witness.Seen{Verified: 9}, 600, nil, ""},
		"lost":                    {witness.Seen{Verified: 9, Lost: 2}, 600, nil, "lost path: 2"},
		"no time":                 {witness.Seen{Verified: 9, Lost: 2, LongestSleep: time.Second}, 600, nil, "no time for 1000 ms"},
		"bad":                     {witness.Seen{Verified: 9, Bad: 1, FirstBad: "grain 7"}, 600, nil, "grain 7"},
		"nothing came":            {witness.Seen{}, 600, nil, "nothing was verified"},
		"memory":                  {witness.Seen{Verified: 9}, 600, grown("anon_but_stacks", slope{100, 15}), "anonymous without stacks grows by 100.00 KiB"},
		"within noise":            {witness.Seen{Verified: 9}, 600, grown("anon_but_stacks", slope{100, 40}), ""},
		"too short to tell":       {witness.Seen{Verified: 9}, 120, grown("anon_but_stacks", slope{120, 1}), ""},
		"short, and more than so": {witness.Seen{Verified: 9}, 120, grown("anon_but_stacks", slope{130, 1}), "anonymous without"},
		"longer is no excuse":     {witness.Seen{Verified: 9}, 3600, grown("anon_but_stacks", slope{27, 0.5}), "anonymous without"},
		"heap":                    {witness.Seen{Verified: 9}, 600, grown("heap_live", slope{60, 5}), "live Go heap"},
		"C":                       {witness.Seen{Verified: 9}, 600, grown("beyond_go", slope{60, 5}), "beyond heap"},
		"mappings":                {witness.Seen{Verified: 9}, 600, grown("shmem", slope{60, 5}), "pages of rings"},
		"not judged":              {witness.Seen{Verified: 9}, 600, grown("stacks", slope{60, 5}), ""},
		"stacks, less":            {witness.Seen{Verified: 9}, 600, func(g *growth) { g.Stacks, g.Ceiling = 6000, 11000 }, ""},
		"stacks, more":            {witness.Seen{Verified: 9}, 600, func(g *growth) { g.Stacks, g.Ceiling = 12000, 11000 }, "12000 KiB of stacks"},
		"goroutines":              {witness.Seen{Verified: 9}, 600, grown("goroutines", slope{1, 0.1}), "goroutines grows by 1.00"},
		"threads":                 {witness.Seen{Verified: 9}, 600, grown("threads", slope{1, 0.1}), "threads"},
		"descriptors":             {witness.Seen{Verified: 9}, 600, grown("descriptors", slope{1, 0.1}), "descriptors"},
		"log":                     {witness.Seen{Verified: 9}, 600, func(g *growth) { g.LinesPerMinute = 100 }, "100.0 lines"},
	} {
		g := growth{Host: "node-a"}
		if tc.change != nil {
			tc.change(&g)
		}
		o := outcome{Seconds: tc.seconds, agents: []growth{{Host: "node-b"}, g}}
		o.take("path", tc.seen)
		err := o.verdict()
		if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestSavedFigures(t *testing.T) {
	o := outcome{Seconds: 600, agents: []growth{{Host: "node-a"}, {Host: "node-b"}}}
	o.agents[1].Slopes[figureOf(t, "anon")] = slope{12, 3}
	o.agents[1].Slopes[figureOf(t, "anon_but_stacks")] = slope{12, 3}
	path := filepath.Join(t.TempDir(), "endurance.json")
	if err := o.save(path); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var flat map[string]float64
	if err := json.Unmarshal(text, &flat); err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]float64{"anon_slope_kib_per_min": 12, "anon_slope_error": 3, "anon_least_leak_seen_kib_per_min": 38.5,
		"node_a_anon_slope_kib_per_min": 0, "node_b_anon_slope_kib_per_min": 12, "rss_slope_kib_per_min": 0, "rss_slope_error": 0,
		"node_b_rss_slope_kib_per_min": 0, "descriptors_slope_per_min": 0, "threads_slope_per_min": 0, "log_lines_per_min": 0,
		"node_a_log_lines_per_min": 0, "node_a_stall_lines_per_min": 0} {
		if got, there := flat[key]; !there || got != want {
			t.Errorf("%s is %v (%v), want %v", key, got, there, want)
		}
	}
}
