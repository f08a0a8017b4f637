package mxl

import (
	"math"
	"math/big"
	"math/rand/v2"
	"path/filepath"
	"testing"
)

// mediaRates are the rates of MXL format reference §3.
var mediaRates = []Rational{
	{24, 1}, {24000, 1001}, {25, 1}, {30000, 1001}, {30, 1}, {50, 1}, {60000, 1001}, {60, 1}, {120, 1}, {120000, 1001},
	{44100, 1}, {48000, 1}, {96000, 1}, {192000, 1},
}

func TestConformance16IndexVectors(t *testing.T) {
	var f struct {
		Rates []struct {
			Numerator, Denominator             int64
			TimestampToIndex, IndexToTimestamp [][2]uint64
		}
		UndefinedIndex uint64
		Special        map[string]map[string]uint64
	}
	readJSON(t, filepath.Join(fixtures, "index-vectors.json"), &f)
	n := 0
	for _, r := range f.Rates {
		rate := Rational{r.Numerator, r.Denominator}
		for _, v := range r.TimestampToIndex {
			if got := rate.IndexAt(v[0]); got != v[1] {
				t.Errorf("%v: index at %d is %d, want %d", rate, v[0], got, v[1])
			}
			n++
		}
		for _, v := range r.IndexToTimestamp {
			if got := rate.TimeOf(v[0]); got != v[1] {
				t.Errorf("%v: time of %d is %d, want %d", rate, v[0], got, v[1])
			}
			n++
		}
	}
	if n < 8000 || f.UndefinedIndex != UndefinedIndex {
		t.Errorf("%d vectors, undefined index %d", n, f.UndefinedIndex)
	}
	for _, v := range []struct {
		rate        Rational
		index, time uint64
	}{
		{Rational{50, 1}, 85_000_000_006, 1_700_000_000_120_000_000},
		{Rational{60000, 1001}, 101_898_101_906, 1_700_000_000_131_766_667},
		{Rational{30000, 1001}, 50_949_050_953, 1_700_000_000_131_766_667},
		{Rational{48000, 1}, 81_600_000_005_926, 1_700_000_000_123_458_333},
		{Rational{44100, 1}, 74_970_000_005_444, 1_700_000_000_123_446_712},
	} {
		if i := v.rate.IndexAt(1_700_000_000_123_456_789); i != v.index || v.rate.TimeOf(i) != v.time {
			t.Errorf("%v: %d at %d", v.rate, i, v.rate.TimeOf(i))
		}
	}
}

func TestConformance16IndexTimeIndexIsIdentity(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, r := range mediaRates {
		highest := r.IndexAt(math.MaxInt64)
		for range 1_000_000 {
			i := rng.Uint64N(highest)
			if got := r.IndexAt(r.TimeOf(i)); got != i {
				t.Fatalf("%v: %d comes back as %d", r, i, got)
			}
		}
	}
}

func TestConformance17UndefinedRates(t *testing.T) {
	for _, r := range []Rational{{0, 1}, {1, 0}, {0, 0}, {-50, 1}, {50, -1}, {math.MinInt64, math.MinInt64}} {
		for _, v := range []uint64{1, 1 << 40, math.MaxUint64} {
			if r.IndexAt(v) != UndefinedIndex || r.TimeOf(v) != UndefinedIndex {
				t.Errorf("%v: %d %d", r, r.IndexAt(v), r.TimeOf(v))
			}
		}
		if r.TimeOf(0) != 0 || r.NanosUntil(1, 0) != 0 || r.Float() != 0 && r.Valid() {
			t.Errorf("%v: time of 0 is %d", r, r.TimeOf(0))
		}
	}
}

// TestIndexArithmeticEqualsBig compares with arbitrary precision, also for absurd rates.
func TestIndexArithmeticEqualsBig(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	u := func(v uint64) *big.Int { return new(big.Int).SetUint64(v) }
	low := func(v *big.Int) uint64 { return new(big.Int).And(v, u(math.MaxUint64)).Uint64() }
	for range 200_000 {
		r := Rational{rng.Int64N(1<<rng.IntN(63)+1) + 1, rng.Int64N(1<<rng.IntN(63)+1) + 1}
		v := rng.Uint64() >> rng.IntN(64)
		num, den := u(uint64(r.Numerator)), u(uint64(r.Denominator))
		n := new(big.Int).Mul(u(v), num)
		n.Add(n, new(big.Int).Mul(den, u(nanosPerSecond/2)))
		n.Div(n, new(big.Int).Mul(den, u(nanosPerSecond)))
		if got := r.IndexAt(v); got != low(n) {
			t.Fatalf("%v: index at %d is %d, want %v", r, v, got, n)
		}
		p := new(big.Int).Mul(den, u(nanosPerSecond))
		if !p.IsUint64() || v == 0 {
			continue
		}
		n = new(big.Int).Mul(u(v), p)
		n.Add(n, u(uint64(r.Numerator)/2))
		n.Div(n, num)
		if got := r.TimeOf(v); got != low(n) {
			t.Fatalf("%v: time of %d is %d, want %v", r, v, got, n)
		}
	}
}

func TestReduced(t *testing.T) {
	for in, want := range map[Rational]Rational{
		{60000, 1000}: {60, 1}, {60000, 1001}: {60000, 1001}, {0, 5}: {0, 1}, {0, 0}: {0, 0}, {7, 7}: {1, 1},
	} {
		if got := in.Reduced(); got != want {
			t.Errorf("%v reduced is %v, want %v", in, got, want)
		}
	}
}

func TestClock(t *testing.T) {
	a := Now()
	if b := Now(); a == 0 || b < a {
		t.Errorf("clock reads %d then %d", a, b)
	}
	if s, err := TAIOffset(); err != nil || s < 0 {
		t.Errorf("TAI offset %d, %v", s, err)
	}
}
