package fabrics

import (
	"bytes"
	"testing"
	"time"
)

// A connection that begins where the mirror does not end, as after a restart of
// either agent, leaves silence between the two and not the ring's last lap.
func TestSilenceWhereNothingCame(t *testing.T) {
	const batch = 480
	for name, gap := range map[string]uint64{
		"one batch": batch, "odd": 1234, "more than MaxCount": 6000, "several laps": 48000 * 60, "none": 0,
	} {
		t.Run(name, func(t *testing.T) {
			f := newFlow(t, audioDef(2), 400*time.Millisecond, 170*time.Millisecond)
			w, mw := f.sampleWriter(t, f.origin), f.sampleWriter(t, f.mirror)
			// The mirror has been round its ring already.
			before := uint64(48000 * 1000)
			for head := before - 2*mw.BufferLength()/batch*batch; head <= before; head += batch {
				writeSamples(t, mw, head, batch)
			}
			target := openTarget(t, TargetConfig{Continuous: mw, FlowID: f.id})
			s := openSource(t, f)
			r, err := f.mirror.OpenContinuousReader(f.id)
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			writeSamples(t, w, before+gap, batch)
			connect(t, s, "b", target)
			head := before + gap + batch
			writeSamples(t, w, head, batch)
			readSamples(t, r, head, batch, func() string { return target.Stats().LastError })
			missing := min(gap, r.MaxCount()-batch)
			if gap == 0 || missing == 0 {
				return
			}
			b := make([]byte, missing*4*2)
			// The batch in the source's ring when it connected may have come too.
			end := head - batch
			if target.Stats().Samples > batch {
				end -= batch
				b = b[:max(0, int(missing)-batch)*4*2]
			}
			if len(b) == 0 {
				return
			}
			if err := r.Read(b, end, uint64(len(b)/8)); err != nil {
				t.Fatal(err)
			}
			if rest := bytes.TrimLeft(b, "\x00"); len(rest) != 0 {
				t.Errorf("%d of %d bytes of the gap are not silent", len(rest), len(b))
			}
		})
	}
}

// TestSilentSteps: no step clears what can be read at its moment, heads never go back,
// and in the end the head is where the batch starts and everything before it silent.
func TestSilentSteps(t *testing.T) {
	const half = 500
	for _, missing := range []uint64{1, 48, half - 1, half, half + 1, 2*half - 1, 2 * half, 2*half + 1, 5 * half, 1 << 40} {
		head, start, cleared := uint64(10_000), 10_000+missing, uint64(0)
		for steps := 0; head < start; steps++ {
			next, count := silentStep(head, start, cleared, half)
			if next <= head || next > start || count > half || count > 0 && next-count != head || steps > 3 {
				t.Fatalf("%d missing, step %d from %d to %d clears %d", missing, steps, head, next, count)
			}
			// Readers have [head-half, head); the slots of [next-count, next) are those of
			// a ring of 2*half, so they are others exactly when next-count >= head.
			head, cleared = next, cleared+count
		}
		if want := min(missing, 2*half); cleared != want && missing <= 2*half || cleared > 2*half {
			t.Errorf("%d missing: %d cleared", missing, cleared)
		}
	}
}

// TestHeadBeforeAJump: when a batch is copied the head is where the batch begins, so
// that a reader of older samples that looks again knows that they may be gone.
func TestHeadBeforeAJump(t *testing.T) {
	f := newFlow(t, audioDef(2), 170*time.Millisecond, 170*time.Millisecond)
	w := f.sampleWriter(t, f.mirror)
	l := &targetLane{cfg: TargetConfig{Continuous: w, FlowID: f.id}}
	l.samples = sampleGeometry{w.ChannelCount(), w.WordSize(), w.BufferLength()}
	head := uint64(48000 * 1000)
	for range w.BufferLength() / 480 {
		head += 480
		writeSamples(t, w, head, 480)
	}
	for _, gap := range []uint64{1, 480, w.MaxCount() + 1, w.BufferLength() + 1, 1 << 40, 0} {
		head += gap
		if err := l.silence(head); err != nil {
			t.Fatal(err)
		}
		if w.Head() != head {
			t.Errorf("%d missing: head %d, the batch begins at %d", gap, w.Head(), head)
		}
	}
}
