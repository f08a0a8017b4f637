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
