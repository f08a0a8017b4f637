package agent

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/mxl-stack/mxl-fabrics-agent/fabrics"
	"github.com/mxl-stack/mxl-fabrics-agent/mxl"
	"github.com/mxl-stack/mxl-fabrics-agent/peers"
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

// While the source does not answer, the origin is what it was when last heard of: the
// lag of a mirror that gets no grains grows, and one that still gets them shows its own.
func TestLagWhileTheSourceDoesNotAnswer(t *testing.T) {
	p50 := mxl.Rational{Numerator: 50, Denominator: 1}
	const tai = uint64(1_700_000_000_120_000_000)
	k := pullKey{Peer: "a", Domain: "dom", Flow: testFlow}
	d := &destinationView{Key: k, HasHead: true, Head: p50.IndexAt(tai) - 440}
	for _, tc := range []struct {
		name   string
		up     bool
		active bool
		domain string
		ms     float64
	}{
		{"down, written when last heard of", false, true, "dom", 8800},
		{"down, without a writer when last heard of", false, false, "dom", 0},
		{"down, did not have it", false, true, "other", 0},
		{"up and does not offer it", true, true, "dom", 0},
	} {
		v := &passView{facts: passFacts{Peers: []peers.Peer{{HostID: "a", Up: tc.up, Inventory: &peers.Inventory{
			Domains: []peers.Domain{{ID: tc.domain, Flows: []peers.Flow{{
				ID: testFlow.String(), Format: "discrete", Active: tc.active, GrainRate: peers.Rational{Numerator: 50, Denominator: 1},
			}}}},
		}}}}}
		if _, ms := lag(v.lagFacts(d), tai); ms != tc.ms {
			t.Errorf("%s: %v ms, want %v", tc.name, ms, tc.ms)
		}
	}
	if (&passView{}).lastHeard(k) != nil {
		t.Error("something was heard of before the first pass")
	}
}

// An origin is silent by what its source says, not because the source says nothing.
func TestASourceThatDoesNotAnswerIsNoSilentOrigin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newPullBench(t)
		defer b.cancel()
		head := uint64(50)
		b.answer = peers.ReplicationAnswer{ReplicationID: "id-1", State: stateActive, OriginHead: &head}
		b.passes(1, aWish())
		b.targets[0].set(func(s *fabrics.TargetStats) { s.Connected, s.Grains, s.Head = true, 3, 49 })
		b.passes(2, aWish())
		down := aWish()
		down.PeerUp = false
		b.passes(int(8*time.Second/passEvery), down)
		if v := b.seen.Load(); v.OriginSilent || !v.HasHead {
			t.Errorf("after 8 s without an answer: %+v", v)
		}
		b.passes(int(8*time.Second/passEvery), aWish()) // it answers, with the same head
		if v := b.seen.Load(); !v.OriginSilent {
			t.Error("a head that does not move is silent")
		}
	})
}
