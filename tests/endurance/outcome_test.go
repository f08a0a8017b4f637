package main

import (
	"math"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/mxl-stack/mxl-fabrics-agent/tests/witness"
)

// looks are n looks, ten seconds apart, of a resident memory.
func looks(n int, rss func(minute float64) float64) (list []look) {
	for i := range n {
		at := time.Duration(i) * 10 * time.Second
		list = append(list, look{at: at, rss: rss(at.Minutes()), descriptors: 50, threads: 20, lines: 100})
	}
	return list
}

func TestGrowth(t *testing.T) {
	leak := growthOf("leak", looks(60, func(m float64) float64 { return 40_000 + 1000*m }))
	if math.Abs(leak.RSS.PerMinute-1000) > 0.01 || leak.RSS.Error > 0.01 || !leak.RSS.grows(rssLimit) {
		t.Errorf("a straight line: %+v", leak.RSS)
	}
	noisy := growthOf("noisy", looks(60, func(m float64) float64 { return 40_000 + 3000*math.Sin(40*m) }))
	if noisy.RSS.grows(rssLimit) {
		t.Errorf("noise: %+v", noisy.RSS)
	}
	if math.Abs(noisy.Descriptors.PerMinute) > 1e-9 || noisy.Descriptors.grows(countLimit) || noisy.LinesPerMinute != 0 || noisy.Lines != (slope{}) {
		t.Errorf("nothing moved: %+v", noisy)
	}
}

func TestVerdict(t *testing.T) {
	good := growthOf("node-a", looks(30, func(float64) float64 { return 40_000 }))
	for name, tc := range map[string]struct {
		seen   witness.Seen
		change func(*growth)
		want   string
	}{
		"good":         {witness.Seen{Verified: 9}, nil, ""},
		"lost":         {witness.Seen{Verified: 9, Lost: 2}, nil, "lost path: 2"},
		"no time":      {witness.Seen{Verified: 9, Lost: 2, LongestSleep: time.Second}, nil, "no time for 1000 ms"},
		"bad":          {witness.Seen{Verified: 9, Bad: 1, FirstBad: "grain 7"}, nil, "grain 7"},
		"nothing came": {witness.Seen{}, nil, "nothing was verified"},
		"memory":       {witness.Seen{Verified: 9}, func(g *growth) { g.RSS = slope{900, 10} }, "900 KiB"},
		"threads":      {witness.Seen{Verified: 9}, func(g *growth) { g.Threads = slope{1, 0.1} }, "threads"},
		"descriptors":  {witness.Seen{Verified: 9}, func(g *growth) { g.Descriptors = slope{1, 0.1} }, "descriptors"},
		"log":          {witness.Seen{Verified: 9}, func(g *growth) { g.LinesPerMinute = 100 }, "100.0 lines"},
	} {
		g := good
		if tc.change != nil {
			tc.change(&g)
		}
		o := outcome{Seconds: 600, agents: []growth{g}}
		o.take("path", tc.seen)
		err := o.verdict()
		if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v", name, err)
		}
		if err := o.save(filepath.Join(t.TempDir(), "endurance.json")); err != nil {
			t.Error(err)
		}
	}
}
