package fabrics

import (
	"os"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func cpuTime(t testing.TB) time.Duration {
	t.Helper()
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// TestIdleLanesSleep: what a connected pair costs while its origin is silent. The
// goal is 0.2 % of a core for a lane; the limit leaves room for a busy machine.
// MXL_IDLE_SECONDS measures longer.
func TestIdleLanesSleep(t *testing.T) {
	f := newFlow(t, videoDef("video/v210", 192, 108, rate50), 200*time.Millisecond, 200*time.Millisecond)
	w := f.grainWriter(t, f.origin)
	writeGrain(t, w, 1_000_000, 0, w.TotalSlices())
	target := openTarget(t, TargetConfig{Discrete: f.grainWriter(t, f.mirror), FlowID: f.id})
	s := openSource(t, f)
	connect(t, s, "b", target)
	time.Sleep(3 * time.Second) // until the lanes count the origin as silent
	seconds := 2
	if v, err := strconv.Atoi(os.Getenv("MXL_IDLE_SECONDS")); err == nil {
		seconds = v
	}
	before := cpuTime(t)
	time.Sleep(time.Duration(seconds) * time.Second)
	used := cpuTime(t) - before
	share := float64(used) / float64(time.Duration(seconds)*time.Second) / 2 * 100
	t.Logf("%.3f %% of a core for each of two lanes", share)
	if share > 1 {
		t.Errorf("an idle lane takes %.3f %% of a core", share)
	}
}
