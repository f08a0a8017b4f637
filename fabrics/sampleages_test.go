package fabrics

import (
	"fmt"
	"testing"
	"time"

	"github.com/mxl-stack/mxl-fabrics-agent/fabrics/ofi"
	"github.com/mxl-stack/mxl-fabrics-agent/mxl"
)

// TestAgesOfAStreamedBatch: the batch is older when it is posted, by the copy of it.
func TestAgesOfAStreamedBatch(t *testing.T) {
	rate := mxl.Rational{Numerator: 48000, Denominator: 1}
	l := &sourceLane{origin: origin{rate: rate}, shape: flowShape{samples: sampleGeometry{channels: 2, word: 4}}}
	d := &destination{numbers: &destinationNumbers{}}
	oldest := uint64(1_700_000_000 * 48000)
	l.streamed(d, ofi.SampleBatch{Head: oldest + 192, Count: 192, TAI: rate.TimeOf(oldest) + uint64(5*ms), Began: 10 * ms, Posted: 13 * ms})
	read, sent := l.numbers.ageOrigin.snapshot(13*ms), l.numbers.ageSent.snapshot(13*ms)
	if read.Max != 5*time.Millisecond || sent.Max != 8*time.Millisecond || read.Count != 1 || sent.Count != 1 {
		t.Errorf("read at %v, sent at %v", read.Max, sent.Max)
	}
}

// TestAgesWhenReadAndSent: every batch counts in both stages, and is older in the
// second, whether runs outside Go send it or passes do.
func TestAgesWhenReadAndSent(t *testing.T) {
	for _, pipeline := range []bool{false, true} {
		t.Run(fmt.Sprintf("pipeline %v", pipeline), func(t *testing.T) {
			f := newFlow(t, audioDef(16), 200*time.Millisecond, 200*time.Millisecond)
			w := f.sampleWriter(t, f.origin)
			target := openTarget(t, TargetConfig{Continuous: f.sampleWriter(t, f.mirror), FlowID: f.id})
			s := openSource(t, f, func(c *SourceConfig) { c.AudioPipeline = pipeline })
			writeSamples(t, w, w.Rate().IndexAt(mxl.Now())/48*48, 48)
			connect(t, s, "b", target)
			paceSamples(t, w, 200*time.Millisecond)
			ages := func() (read, sent Histogram) {
				timing := s.Stats().Timing
				return timing.AgeOrigin, timing.AgeSent
			}
			eventually(t, patience, func() string {
				read, sent := ages()
				return fmt.Sprintf("%d read in %v s, %d sent in %v s of %d", read.Count, read.Sum, sent.Count, sent.Sum, targetOf(s, "b").Transfers)
			}, func() bool {
				read, sent := ages()
				n := targetOf(s, "b").Transfers
				return n > 5 && sent.Count == n && read.Count >= n && sent.Sum > read.Sum
			})
		})
	}
}
