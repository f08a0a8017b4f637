package fabrics

import (
	"fmt"
	"testing"
	"time"

	"github.com/mxl-stack/mxl-fabrics-agent/mxl"
)

// TestLaneTimingOutlivesTargets: what a lane counted about time stays when a target is
// replaced or goes: the series of its flow must not fall while the lane is there.
func TestLaneTimingOutlivesTargets(t *testing.T) {
	p := newPair(t, videoDef("video/v210", smallVideo, smallKeyed, rate50), 160*time.Millisecond, 300*time.Millisecond)
	second := openTarget(t, TargetConfig{Discrete: p.mirror, FlowID: p.id})
	counted := func() uint64 { return p.source.Stats().Timing.Transfer.Count }
	grows := func(what string, to uint64) {
		t.Helper()
		eventually(t, 5*time.Second, func() string { return fmt.Sprintf("%s: %d transfers, want %d", what, counted(), to) },
			func() bool { return counted() == to })
	}
	writeGrain(t, p.w, 1000, 0, p.w.TotalSlices())
	connect(t, p.source, "b", p.target)
	p.arrives(t, 1000, mxl.AllSlices)
	grows("one target", 1)
	connect(t, p.source, "b", second)
	grows("another in its place", 2)
	p.source.RemoveTarget("b")
	fullPass(&p.source.lane.lane)
	grows("none", 2)
	if st := p.source.Stats(); st.Timing.AgeSent.Count != 2 || len(st.Targets) != 0 {
		t.Errorf("%+v", st)
	}
}
