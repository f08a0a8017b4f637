package fabrics

import (
	"fmt"
	"testing"
	"time"

	"github.com/mxl-stack/mxl-fabrics-agent/mxl"
)

// TestPassAllocatesNothing: a grain, a grain in slices and a batch of samples from
// the origin's commit to the mirror's, both lanes included.
func TestPassAllocatesNothing(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	t.Run("grains", func(t *testing.T) {
		p := newPair(t, videoDef("video/v210a", smallVideo, smallKeyed, rate50), 200*time.Millisecond, 200*time.Millisecond)
		index := uint64(100)
		writeGrain(t, p.w, index, 0, p.w.TotalSlices())
		connect(t, p.source, "b", p.target)
		p.arrives(t, index, mxl.AllSlices)
		for _, steps := range [][]int{{108}, {27, 54, 108}} {
			if n := testing.AllocsPerRun(200, func() {
				index++
				if _, err := p.w.OpenGrain(index); err != nil {
					t.Fatal(err)
				}
				for _, slices := range steps {
					if err := p.w.Commit(index, slices, 0); err != nil {
						t.Fatal(err)
					}
				}
				if _, err := p.r.WaitGrain(index, mxl.AllSlices, patience); err != nil {
					t.Fatal(err)
				}
			}); n >= 1 {
				t.Errorf("%v allocations a grain committed as %v slices", n, steps)
			}
		}
	})
	for _, channels := range []int{2, 16} {
		t.Run(fmt.Sprintf("%d channels", channels), func(t *testing.T) {
			f := newFlow(t, audioDef(channels), 100*time.Millisecond, 100*time.Millisecond)
			w := f.sampleWriter(t, f.origin)
			target := openTarget(t, TargetConfig{Continuous: f.sampleWriter(t, f.mirror), FlowID: f.id})
			s := openSource(t, f)
			r, err := f.mirror.OpenContinuousReader(f.id)
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			head := uint64(1 << 20)
			if err := w.Commit(head, 48); err != nil {
				t.Fatal(err)
			}
			connect(t, s, "b", target)
			if n := testing.AllocsPerRun(200, func() {
				head += 48
				if err := w.Commit(head, 48); err != nil {
					t.Fatal(err)
				}
				if _, err := r.WaitSamples(head, 48, patience); err != nil {
					t.Fatal(err, head, r.Head())
				}
			}); n >= 1 {
				t.Errorf("%v allocations a batch", n)
			}
		})
	}
}
