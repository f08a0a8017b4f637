package fabrics

import (
	"encoding/binary"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/mxl-stack/mxl-fabrics-agent/mxl"
)

// sample is the value of sample number n of a channel.
func sample(n uint64, channel int) float32 {
	h := uint32(n)*2654435761 + uint32(channel)*2246822519
	return float32(int32(h^h>>15)>>8) / 8388608
}

func writeSamples(t testing.TB, w *mxl.ContinuousWriter, head, count uint64) {
	t.Helper()
	window, err := w.OpenSamples(head, count)
	if err != nil {
		t.Fatal(err)
	}
	for c := range w.ChannelCount() {
		n := head - count
		first, second := w.Segments(window, c)
		for _, part := range [][]byte{first, second} {
			for ; len(part) > 0; part = part[4:] {
				binary.LittleEndian.PutUint32(part, math.Float32bits(sample(n, c)))
				n++
			}
		}
	}
	if err := w.Commit(head, count); err != nil {
		t.Fatal(err)
	}
}

// readSamples waits for the count samples before head and checks every one.
func readSamples(t testing.TB, r *mxl.ContinuousReader, head, count uint64, what func() string) {
	t.Helper()
	if _, err := r.WaitSamples(head, count, patience); err != nil {
		t.Fatalf("samples before %d: %v, head %d; %s", head, err, r.Head(), what())
	}
	b := make([]byte, int(count)*4*r.ChannelCount())
	if err := r.Read(b, head, count); err != nil {
		t.Fatalf("samples before %d: %v", head, err)
	}
	for c := range r.ChannelCount() {
		for n := head - count; n < head; n++ {
			if got := math.Float32frombits(binary.LittleEndian.Uint32(b)); got != sample(n, c) {
				t.Fatalf("sample %d of channel %d: %v, want %v", n, c, got, sample(n, c))
			}
			b = b[4:]
		}
	}
}

// TestSamplesOverTCP moves audio over loopback with rings that wrap at different
// places (MXL Fabrics reference §13, 10, 13, 14 "our pair").
func TestSamplesOverTCP(t *testing.T) {
	for _, channels := range []int{1, 2, 3, 8, 16, 64} {
		for _, pipeline := range []bool{false, true} {
			t.Run(fmt.Sprintf("%d channels, pipeline %v", channels, pipeline), func(t *testing.T) {
				f := newFlow(t, audioDef(channels), 100*time.Millisecond, 170*time.Millisecond)
				w := f.sampleWriter(t, f.origin)
				mw := f.sampleWriter(t, f.mirror)
				if w.BufferLength() == mw.BufferLength() {
					t.Fatal("the rings do not differ")
				}
				target := openTarget(t, TargetConfig{Continuous: mw, FlowID: f.id})
				s := openSource(t, f, func(c *SourceConfig) { c.AudioPipeline = pipeline })
				r, err := f.mirror.OpenContinuousReader(f.id)
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { r.Close() })
				head := uint64(48000 * 1000)
				writeSamples(t, w, head, 480)
				connect(t, s, "b", target)
				// The first batch after connecting starts at the origin's head.
				fullPass(&s.lane.lane)
				what := func() string { return fmt.Sprintf("source %+v target %+v", targetOf(s, "b"), target.Stats()) }
				start := head
				for head < start+3*w.BufferLength() {
					count := 1 + (head*7919)%w.MaxCount()/2
					head += count
					writeSamples(t, w, head, count)
					readSamples(t, r, head, count, what)
				}
				eventually(t, time.Second, what, func() bool { return target.Stats().Samples == head-start })
				if st := target.Stats(); st.Errors != 0 || st.BadImmediates != 0 || st.Head != head {
					t.Errorf("%d samples written, target %+v", head-start, st)
				}
			})
		}
	}
}
