package agent

import (
	"testing"

	"github.com/mxl-stack/mxl-fabrics-agent/mxl"
)

func TestLag(t *testing.T) {
	p50 := mxl.Rational{Numerator: 50, Denominator: 1}
	p5994 := mxl.Rational{Numerator: 60000, Denominator: 1001}
	k48 := mxl.Rational{Numerator: 48000, Denominator: 1}
	const tai = uint64(1_700_000_000_120_000_000)
	for _, c := range []struct {
		name   string
		facts  lagFacts
		grains float64
		ms     float64
	}{
		{"two grains behind at 50/1", lagFacts{Rate: p50, MirrorHead: p50.IndexAt(tai) - 2, HasGrain: true, OriginActive: true}, 2, 40},
		{"three behind at 59.94", lagFacts{Rate: p5994, MirrorHead: p5994.IndexAt(tai) - 3, HasGrain: true, OriginActive: true}, 3, 50.05},
		{"480 samples behind in batches of 192", lagFacts{Rate: k48, Continuous: true, BatchSamples: 192, MirrorHead: k48.IndexAt(tai) - 480, HasGrain: true, OriginActive: true}, 2.5, 10},
		{"batch not known", lagFacts{Rate: k48, Continuous: true, MirrorHead: k48.IndexAt(tai) - 48, HasGrain: true, OriginActive: true}, 48, 1},
		{"at the current index", lagFacts{Rate: p50, MirrorHead: p50.IndexAt(tai), HasGrain: true, OriginActive: true}, 0, 0},
		{"ahead of the clock", lagFacts{Rate: p50, MirrorHead: p50.IndexAt(tai) + 5, HasGrain: true, OriginActive: true}, 0, 0},
		{"before the first grain", lagFacts{Rate: p50, OriginActive: true}, 0, 0},
		{"no writer", lagFacts{Rate: p50, MirrorHead: 1, HasGrain: true}, 0, 0},
		{"origin is silent", lagFacts{Rate: p50, MirrorHead: 1, HasGrain: true, OriginActive: true, OriginSilent: true}, 0, 0},
		{"rate not known", lagFacts{MirrorHead: 1, HasGrain: true, OriginActive: true}, 0, 0},
	} {
		grains, ms := lag(c.facts, tai)
		if grains != c.grains || ms < c.ms-1e-9 || ms > c.ms+1e-9 {
			t.Errorf("%s: %v grains %v ms, want %v and %v", c.name, grains, ms, c.grains, c.ms)
		}
	}
}
