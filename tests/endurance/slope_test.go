package main

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"
)

// sawtooth is the anonymous memory of an agent over ten minutes, KiB, as measured
// once: a collector's saw of 3 MiB and two seconds, pages that the runtime gives back
// and takes again within some ten seconds, and noise; and on top a leak a minute.
func sawtooth(seed uint64, leak float64) (looks []look) {
	random := rand.New(rand.NewPCG(seed, 7))
	phase, wander := random.Float64(), 0.0
	for at := time.Duration(0); at <= 10*time.Minute; at += time.Second {
		_, saw := math.Modf(at.Seconds()/1.9 + phase)
		wander = 0.8*wander + 250*random.NormFloat64()
		looks = append(looks, look{at: at, anon: 29_000 + 3000*saw + wander + 300*random.NormFloat64() + leak*at.Minutes(),
			descriptors: 760, threads: 30, lines: 35})
	}
	return looks
}

// Of a hundred runs with a leak of 100 KiB a minute in 30 MiB few pass, of those with
// one of 130 hardly one, and of those without one hardly one fails.
func TestLeakShowsThroughTheCollectorsSaw(t *testing.T) {
	const runs = 100
	verdicts := func(leak float64) (failed int, steepest, error float64) {
		for seed := range uint64(runs) {
			g := growthOf("node-a", sawtooth(seed, leak), 0)
			o := outcome{Seconds: 600, Verified: 1, agents: []growth{g}}
			if o.verdict() != nil {
				failed++
			}
			s := g.Slopes[figureOf(t, "anon_but_stacks")]
			steepest, error = max(steepest, s.PerMinute), error+s.Error/runs
		}
		return failed, steepest, error
	}
	for leak, want := range map[float64][2]int{0: {0, 1}, 100: {90, runs}, 130: {99, runs}} {
		if failed, steepest, error := verdicts(leak); failed < want[0] || failed > want[1] {
			t.Errorf("with a leak of %.0f KiB a minute %d of %d runs fail, the steepest at %.0f, error %.0f", leak, failed, runs, steepest, error)
		}
	}
}

// The error is what the slopes of many runs differ by, also when neighbours resemble
// each other over minutes, which a plain fit takes for certainty.
func TestErrorIsHonest(t *testing.T) {
	for name, memory := range map[string]float64{"independent": 0, "for seconds": 0.9, "for a minute": 0.98} {
		var squares, stated float64
		const runs = 300
		for seed := range uint64(runs) {
			random, wander := rand.New(rand.NewPCG(seed, 3)), 0.0
			var points []point
			for i := range 600 {
				wander = memory*wander + random.NormFloat64()
				points = append(points, point{time.Duration(i) * time.Second, wander})
			}
			s := slopeOf(points)
			squares += s.PerMinute * s.PerMinute / runs
			stated += s.Error / runs
		}
		if spread := math.Sqrt(squares); stated < 0.8*spread || stated > 1.6*spread {
			t.Errorf("%s: slopes differ by %.4f, the stated error is %.4f", name, spread, stated)
		}
	}
}

func TestSlopeOf(t *testing.T) {
	straight := make([]point, 61)
	for i := range straight {
		straight[i] = point{time.Duration(i) * 10 * time.Second, 40_000 + 1000*float64(i)/6}
	}
	if s := slopeOf(straight); math.Abs(s.PerMinute-1000) > 0.01 || s.Error > 0.01 {
		t.Errorf("a straight line: %+v", s)
	}
	for name, points := range map[string][]point{"none": nil, "three": straight[:3], "at one time": {{}, {}, {}, {}}} {
		if s := slopeOf(points); s != (slope{}) {
			t.Errorf("%s: %+v", name, s)
		}
	}
	if m := meansOf([]point{{0, 1}, {2, 3}}); len(m) != 2 || m[1] != (point{2, 3}) {
		t.Errorf("fewer points than blocks: %v", m)
	}
	if s := (slope{100, 25}); s.grows(37.5) || !s.grows(37) || s.least(40) != 152.5 {
		t.Errorf("%+v: above 37.5 %v, above 37 %v, least %v", s, s.grows(37.5), s.grows(37), s.least(40))
	}
}

func figureOf(t *testing.T, key string) int {
	for i, f := range figures {
		if f.key == key {
			return i
		}
	}
	t.Fatal("no figure " + key)
	return 0
}
