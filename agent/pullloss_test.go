package agent

import (
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mxl-stack/mxl-fabrics-agent/fabrics"
)

func TestMirrorWatch(t *testing.T) {
	start := time.Unix(1000, 0)
	var w mirrorWatch
	for i, step := range []struct {
		after time.Duration
		st    fabrics.TargetStats
		look  mirrorLook
	}{
		{0, fabrics.TargetStats{}, lookAtNone},
		{0, fabrics.TargetStats{Connected: true}, lookAtNone},
		{200 * time.Millisecond, fabrics.TargetStats{Connected: true, Grains: 1}, lookAtOne},
		{400 * time.Millisecond, fabrics.TargetStats{Connected: true, Grains: 6}, lookAtNone}, // too soon
		{1200 * time.Millisecond, fabrics.TargetStats{Connected: true, Grains: 26}, lookAtOne},
		{3000 * time.Millisecond, fabrics.TargetStats{Connected: true, Grains: 26}, lookAtNone}, // nothing moves
		{3200 * time.Millisecond, fabrics.TargetStats{Connected: true, Grains: 26, Errors: 1}, lookAtAll},
		{3400 * time.Millisecond, fabrics.TargetStats{Connected: true, Grains: 26, Errors: 1}, lookAtNone},
		{3600 * time.Millisecond, fabrics.TargetStats{Grains: 26, Errors: 1}, lookAtAll}, // the connection went
		{3800 * time.Millisecond, fabrics.TargetStats{Grains: 26, Errors: 1}, lookAtNone},
	} {
		var look mirrorLook
		if w, look = w.step(step.st, start.Add(step.after)); look != step.look {
			t.Errorf("step %d: look %d, want %d", i, look, step.look)
		}
	}
}

// TestPullLeavesALostMirror: however the loss shows, the target goes, the loop is told
// the generation once, nothing is set up on that writer, and a new one is used at once.
func TestPullLeavesALostMirror(t *testing.T) {
	cut := fmt.Errorf("%w: data.3 has 0 bytes", fabrics.ErrMirrorLost)
	for name, lose := range map[string]func(*pullBench){
		"the lane met a fault": func(b *pullBench) {
			b.targets[0].set(func(s *fabrics.TargetStats) {
				s.MirrorLost, s.State, s.LastError, s.Errors = true, fabrics.StateError, cut.Error(), 1
			})
		},
		"a transfer failed and the files are short": func(b *pullBench) {
			b.targets[0].files = cut
			b.targets[0].set(func(s *fabrics.TargetStats) { s.Errors, s.Connected = 1, false })
		},
		"the files are short while grains arrive": func(b *pullBench) {
			b.targets[0].files = cut
			b.targets[0].set(func(s *fabrics.TargetStats) { s.Grains += 50 })
		},
		"a target does not open": func(b *pullBench) {
			b.openErr = cut
			b.halt()
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newPullBench(t)
				defer b.cancel()
				b.answer.State = stateActive
				w := aWish()
				w.MirrorGeneration = 7
				b.passes(1, w)
				b.targets[0].set(func(s *fabrics.TargetStats) { s.Connected, s.Grains, s.Head = true, 3, 49 })
				b.passes(10, w)
				if v := b.seen.Load(); v.State != stateActive || len(b.lost) != 0 {
					t.Fatalf("before: %s, lost %v", v.State, b.lost)
				}
				lose(b)
				b.passes(50, w)
				if v := b.seen.Load(); v.State != stateError || v.Error != cut.Error() {
					t.Errorf("after the loss: %s %q", v.State, v.Error)
				}
				if made, _, _ := b.counts(); made != 1 || !b.targets[0].isClosed() || !slices.Equal(b.lost, []uint64{7}) {
					t.Errorf("%d targets, the first closed: %v, lost %v", made, b.targets[0].isClosed(), b.lost)
				}
				b.openErr = nil
				w.MirrorGeneration = 8
				b.passes(1, w)
				if made, _, _ := b.counts(); made != 2 || b.targets[1].isClosed() {
					t.Errorf("%d targets after the mirror was made anew", made)
				}
				b.targets[1].set(func(s *fabrics.TargetStats) { s.Connected, s.Grains, s.Head = true, 1, 150 })
				b.passes(2, w)
				if v := b.seen.Load(); v.State != stateActive || v.Error != "" || len(b.lost) != 1 {
					t.Errorf("at the end: %s %q, lost %v", v.State, v.Error, b.lost)
				}
			})
		})
	}
}

// While the path of the MXL root leads elsewhere, files that are not found by it are
// not lost: the connection goes on, and one that is not there is set up on the same
// writer once the root is back.
func TestPullKeepsAMirrorWhoseRootIsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gone := fmt.Errorf("%w: data.3 is gone", fabrics.ErrMirrorLost)
		b := newPullBench(t)
		defer b.cancel()
		var away atomic.Bool
		b.deps.away = away.Load
		b.answer.State = stateActive
		w := aWish()
		b.passes(1, w)
		b.targets[0].set(func(s *fabrics.TargetStats) { s.Connected, s.Grains, s.Head = true, 3, 49 })
		b.passes(10, w)
		away.Store(true)
		b.targets[0].files = gone
		for i := range 50 {
			b.targets[0].set(func(s *fabrics.TargetStats) { s.Grains = uint64(4 + i) })
			b.passes(1, w)
		}
		b.targets[0].set(func(s *fabrics.TargetStats) { s.Errors++ })
		b.passes(5, w)
		if v := b.seen.Load(); len(b.lost) != 0 || b.targets[0].isClosed() {
			t.Errorf("away: %s %q, lost %v", v.State, v.Error, b.lost)
		}
		b.openErr = gone
		b.halt()
		b.passes(20, w)
		if v := b.seen.Load(); len(b.lost) != 0 || v.State != stateError || v.Error != gone.Error() {
			t.Errorf("away, without a connection: %s %q, lost %v", v.State, v.Error, b.lost)
		}
		b.openErr = nil
		away.Store(false)
		b.passes(100, w)
		if made, _, _ := b.counts(); made < 2 || len(b.lost) != 0 {
			t.Errorf("back: %d targets, lost %v", made, b.lost)
		}
	})
}
