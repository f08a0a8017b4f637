package fabrics

import (
	"fmt"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mxl-stack/mxl-fabrics-agent/mxl"
)

// paceSamples commits a millisecond of samples every millisecond of TAI, from the
// index of now, until the time is over. It returns first and last head, and the share
// of its own wake-ups that came in time: whether the machine has a processor for a
// thread like a lane's.
func paceSamples(t testing.TB, w *mxl.ContinuousWriter, run time.Duration) (first, last uint64, share float64) {
	t.Helper()
	const step = 48
	head := w.Rate().IndexAt(mxl.Now()) / step * step
	first, last = head, head
	wakes, inTime := 0, 0
	for end := mxl.Now() + uint64(run); mxl.Now() < end; {
		for due := w.Rate().IndexAt(mxl.Now()); head+step <= due; {
			head += step
			writeSamples(t, w, head, step)
			last = head
		}
		before := time.Now()
		ts := unix.NsecToTimespec(int64(300 * time.Microsecond))
		_ = unix.Nanosleep(&ts, nil)
		if wakes++; time.Since(before) < time.Millisecond {
			inTime++
		}
	}
	return first, last, float64(inTime) / float64(max(wakes, 1))
}

// TestAudioPace: with 1 ms commits and a 2 ms pass there are about 250 transfers a
// second towards anybody, and 500 towards our own with pipelining; every sample
// arrives (contract, "Audio timing"). More transfers are a fault in any round; fewer
// only when the machine gave threads their time in several rounds.
func TestAudioPace(t *testing.T) {
	for _, c := range []struct {
		name         string
		pipeline     bool
		foreign      bool
		fewest, most float64 // transfers a second
	}{
		{"native", false, false, 180, 260},
		{"native, pipelined", true, false, 350, 520},
		{"foreign", true, true, 180, 260},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newFlow(t, audioDef(16), 200*time.Millisecond, 200*time.Millisecond)
			w := f.sampleWriter(t, f.origin)
			target := openTarget(t, TargetConfig{Continuous: f.sampleWriter(t, f.mirror), FlowID: f.id})
			s := openSource(t, f, func(cfg *SourceConfig) { cfg.AudioPipeline = c.pipeline })
			head := w.Rate().IndexAt(mxl.Now()) / 48 * 48
			writeSamples(t, w, head, 48)
			info := target.Info()
			if c.foreign {
				info.Native = 0
			}
			if err := s.SetTarget("b", info); err != nil {
				t.Fatal(err)
			}
			eventually(t, 2*time.Second, func() string { return "connected" }, func() bool { return targetOf(s, "b").Connected })
			calm := 0
			for range 5 {
				rate, quiet := paceRound(t, w, target, s)
				if rate > c.most {
					t.Errorf("%.0f transfers a second, want at most %.0f", rate, c.most)
				}
				if rate >= c.fewest {
					calm = 0
					break
				}
				if quiet {
					calm++
				}
			}
			if calm > 2 {
				t.Errorf("fewer than %.0f transfers a second in %d rounds in which threads had their time", c.fewest, calm)
			}
			if src, st := targetOf(s, "b"), target.Stats(); src.Native == c.foreign || st.Errors != 0 || src.Errors != 0 {
				t.Errorf("source %+v, target errors %d", src, st.Errors)
			}
		})
	}
}

// paceRound runs a second of samples through a pair: transfers a second, and whether
// writer and lanes had their time.
func paceRound(t *testing.T, w *mxl.ContinuousWriter, target *Target, s *Source) (rate float64, quiet bool) {
	t.Helper()
	stalls := func() uint64 {
		return target.Stats().Timing.ThreadStall["pass"].Count + s.Stats().Timing.ThreadStall["pass"].Count
	}
	before, skipped, held, began := target.Stats(), targetOf(s, "b").Skipped, stalls(), time.Now()
	first, last, share := paceSamples(t, w, time.Second)
	took := time.Since(began)
	st := target.Stats()
	rate = float64(st.Grains-before.Grains) / took.Seconds()
	eventually(t, 2*time.Second, func() string { return fmt.Sprintf("head %d, want %d", target.Stats().Head, last) },
		func() bool { return target.Stats().Head == last && w.Head() == last })
	// What the writer made came over, or was passed over because the lane had no time.
	eventually(t, 2*time.Second, func() string { return fmt.Sprintf("%d samples of %d", target.Stats().Samples, last-first) },
		func() bool {
			return target.Stats().Samples-before.Samples+targetOf(s, "b").Skipped-skipped >= last-first
		})
	age := target.Stats().Timing.AgeDelivered
	t.Logf("%.0f transfers a second, mean age %.2f ms, %.0f %% of the writer's wake-ups in time, %d stalls, skipped %d",
		rate, 1000*age.Sum/float64(max(age.Count, 1)), 100*share, stalls()-held, targetOf(s, "b").Skipped-skipped)
	return rate, share > 0.95 && stalls() == held
}

// TestForeignTargetGetsWholeGrains: a target that does not say it is ours gets one
// transfer at a time, and no partial grain.
func TestForeignTargetGetsWholeGrains(t *testing.T) {
	p := newPair(t, videoDef("video/v210", smallVideo, smallKeyed, rate50), 200*time.Millisecond, 200*time.Millisecond)
	writeGrain(t, p.w, 500, 0, p.w.TotalSlices())
	info := p.target.Info()
	info.Native = 0
	if err := p.source.SetTarget("b", info); err != nil {
		t.Fatal(err)
	}
	p.arrives(t, 500, mxl.AllSlices)
	for index := uint64(501); index < 540; index++ {
		writeGrain(t, p.w, index, 0, 30, 60, p.w.TotalSlices())
		p.arrives(t, index, mxl.AllSlices)
	}
	eventually(t, time.Second, p.describe, func() bool { return targetOf(p.source, "b").Transfers == 40 })
	eventually(t, time.Second, p.describe, func() bool { return p.target.Stats().Commits >= 40 })
	if st := p.target.Stats(); st.Commits != 40 || st.Errors != 0 {
		t.Errorf("%d commits of 40 grains, %d errors", st.Commits, st.Errors)
	}
}

// TestAudioOrigin: a re-created audio origin, one that goes back, and one whose
// reader falls behind.
func TestAudioOrigin(t *testing.T) {
	f := newFlow(t, audioDef(8), 100*time.Millisecond, 100*time.Millisecond)
	w := f.sampleWriter(t, f.origin)
	target := openTarget(t, TargetConfig{Continuous: f.sampleWriter(t, f.mirror), FlowID: f.id})
	s := openSource(t, f)
	r, err := f.mirror.OpenContinuousReader(f.id)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	what := func() string {
		return fmt.Sprintf("source %+v target head %d %q", targetOf(s, "b"), target.Stats().Head, target.Stats().LastError)
	}
	head := uint64(1 << 30)
	writeSamples(t, w, head, 480)
	connect(t, s, "b", target)
	more := func(n int) {
		t.Helper()
		for range n {
			head += 240
			writeSamples(t, w, head, 240)
			readSamples(t, r, head, 240, what)
		}
	}
	more(20)

	// The lane is held up for longer than the ring lasts: what is left is sent.
	release := make(chan struct{})
	s.lane.do(func() { <-release })
	for range 60 {
		head += 240
		writeSamples(t, w, head, 240)
	}
	close(release)
	readSamples(t, r, head, 240, what)
	if st := targetOf(s, "b"); st.Skipped == 0 {
		t.Errorf("nothing was skipped: %s", what())
	}
	more(20)

	// The origin goes back by more than the ring.
	head -= 1 << 20
	writeSamples(t, w, head, 240)
	eventually(t, 3*time.Second, what, func() bool { return target.Stats().Connections == 2 && targetOf(s, "b").Connected })
	eventually(t, 3*time.Second, what, func() bool {
		head += 240
		writeSamples(t, w, head, 240)
		time.Sleep(2 * time.Millisecond)
		return target.Stats().Head == head
	})
	more(20)

	// The origin is made anew.
	if _, err := w.Release(); err != nil {
		t.Fatal(err)
	}
	w = f.sampleWriter(t, f.origin)
	head += 1 << 20
	writeSamples(t, w, head, 240)
	eventually(t, 3*time.Second, what, func() bool {
		head += 240
		writeSamples(t, w, head, 240)
		time.Sleep(5 * time.Millisecond)
		return s.Stats().Reopened == 1 && target.Stats().Head == head
	})
	more(20)
	if st := target.Stats(); st.BadImmediates != 0 || st.Errors != 0 || st.Connections != 2 {
		t.Errorf("%d bad immediates, %d errors, %d connections", st.BadImmediates, st.Errors, st.Connections)
	}
}
