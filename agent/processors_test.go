package agent

import (
	"log/slog"
	"runtime"
	"testing"
	"time"
)

func TestProcessorsFor(t *testing.T) {
	for _, c := range []struct{ own, lanes, want int }{
		{2, 0, 2}, {2, 1, 10}, {2, 8, 10}, {2, 9, 18}, {64, 64, 128}, {2, 1000, 130},
	} {
		if got := processorsFor(c.own, c.lanes); got != c.want {
			t.Errorf("%d of the host and %d lanes: %d, want %d", c.own, c.lanes, got, c.want)
		}
	}
}

// TestProcessorsFollowLanes: room at once, less only when most lanes are gone, and
// nothing where the operator has chosen.
func TestProcessorsFollowLanes(t *testing.T) {
	before := runtime.GOMAXPROCS(0)
	t.Cleanup(func() { runtime.GOMAXPROCS(before) })
	p := processors{own: before, now: before}
	for _, c := range []struct{ lanes, want int }{{0, 0}, {1, 8}, {17, 24}, {16, 24}, {8, 8}, {7, 8}, {0, 0}} {
		p.fit(c.lanes, slog.New(slog.DiscardHandler))
		if got := runtime.GOMAXPROCS(0) - before; got != c.want || p.now != before+c.want {
			t.Errorf("%d lanes: %d processors more (noted %d), want %d", c.lanes, got, p.now-before, c.want)
		}
	}
	p.fixed = true
	p.fit(40, slog.New(slog.DiscardHandler))
	if got := runtime.GOMAXPROCS(0); got != before {
		t.Errorf("GOMAXPROCS is set by the operator and became %d", got)
	}
}

func TestPassPause(t *testing.T) {
	for _, c := range []struct {
		lanes bool
		quiet time.Duration
		want  time.Duration
	}{
		{false, 0, passEvery}, {false, calmAfter - 1, passEvery}, {false, calmAfter, calmEvery}, {true, time.Hour, passEvery},
	} {
		if got := passPause(c.lanes, c.quiet); got != c.want {
			t.Errorf("lanes %v, quiet for %v: %v, want %v", c.lanes, c.quiet, got, c.want)
		}
	}
}
