package fabrics

import (
	"fmt"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mxl-stack/mxl-fabrics-agent/mxl"
)

// paceSamples commits a millisecond of samples every millisecond of TAI, from the
// index of now, until the time is over. It returns first and last head.
func paceSamples(t testing.TB, w *mxl.ContinuousWriter, run time.Duration) (first, last uint64) {
	t.Helper()
	const step = 48
	head := w.Rate().IndexAt(mxl.Now()) / step * step
	first, last = head, head
	for end := mxl.Now() + uint64(run); mxl.Now() < end; {
		for due := w.Rate().IndexAt(mxl.Now()); head+step <= due; {
			head += step
			writeSamples(t, w, head, step)
			last = head
		}
		ts := unix.NsecToTimespec(int64(300 * time.Microsecond))
		_ = unix.Nanosleep(&ts, nil)
	}
	return first, last
}

// TestAudioPace: with 1 ms commits and a 2 ms pass there are about 250 transfers a
// second towards anybody, and 500 towards our own with pipelining; every sample
// arrives (contract, "Audio timing").
func TestAudioPace(t *testing.T) {
	for _, c := range []struct {
		name         string
		pipeline     bool
		foreign      bool
		fewest, most float64 // transfers a second; the lower bounds leave room for a busy machine
	}{
		{"native", false, false, 60, 260},
		{"native, pipelined", true, false, 100, 520},
		{"foreign", true, true, 60, 260},
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
			run := 2 * time.Second
			_, last := paceSamples(t, w, run)
			eventually(t, 2*time.Second, func() string { return fmt.Sprintf("head %d, want %d", target.Stats().Head, last) },
				func() bool { return target.Stats().Head == last })
			st, src := target.Stats(), targetOf(s, "b")
			rate := float64(st.Grains) / run.Seconds()
			age := st.Timing.AgeDelivered
			t.Logf("%.0f transfers a second, mean age %.2f ms, largest %v, %d late, skipped %d", rate, 1000*age.Sum/float64(age.Count), age.Max, st.Timing.LateDeliveries, src.Skipped)
			if rate < c.fewest || rate > c.most {
				t.Errorf("%.0f transfers a second, want %.0f to %.0f", rate, c.fewest, c.most)
			}
			if src.Native == c.foreign || st.Errors != 0 || src.Errors != 0 {
				t.Errorf("source %+v, target errors %d", src, st.Errors)
			}
		})
	}
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
