package fabrics

import (
	"fmt"
	"os"
	"strconv"
	"strings"
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

// threadUse is what the kernel counted for one thread of this process: its time on a
// processor, and how often it went to sleep.
func threadUse(t testing.TB, tid int) (busy time.Duration, sleeps int) {
	t.Helper()
	dir := fmt.Sprintf("/proc/self/task/%d/", tid)
	stat, err := os.ReadFile(dir + "schedstat")
	if err != nil {
		t.Fatal(err)
	}
	status, err := os.ReadFile(dir + "status")
	if err != nil {
		t.Fatal(err)
	}
	var ns int64
	if _, err := fmt.Sscan(string(stat), &ns); err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(status)) {
		if n, ok := strings.CutPrefix(line, "voluntary_ctxt_switches:"); ok {
			if sleeps, err = strconv.Atoi(strings.TrimSpace(n)); err != nil {
				t.Fatal(err)
			}
		}
	}
	return time.Duration(ns), sleeps
}

// TestIdleLanesSleep: what a connected pair costs while its origin is silent, judged by
// each lane's own thread: a busy machine changes neither how often it goes to sleep
// nor, much, its time on a processor. The goal is 0.2 % of a core; the limit leaves
// room for cold caches. MXL_IDLE_SECONDS measures longer.
func TestIdleLanesSleep(t *testing.T) {
	f := newFlow(t, videoDef("video/v210", 192, 108, rate50), 200*time.Millisecond, 200*time.Millisecond)
	w := f.grainWriter(t, f.origin)
	writeGrain(t, w, 1_000_000, 0, w.TotalSlices())
	target := openTarget(t, TargetConfig{Discrete: f.grainWriter(t, f.mirror), FlowID: f.id})
	s := openSource(t, f)
	connect(t, s, "b", target)
	threads := make(chan int)
	s.lane.do(func() { threads <- unix.Gettid() })
	source := <-threads
	target.lane.do(func() { threads <- unix.Gettid() })
	lanes := map[string]int{"source": source, "target": <-threads}
	time.Sleep(3 * time.Second) // until the lanes count the origin as silent
	seconds := 2
	if v, err := strconv.Atoi(os.Getenv("MXL_IDLE_SECONDS")); err == nil {
		seconds = v
	}
	busy, sleeps := map[string]time.Duration{}, map[string]int{}
	for name, tid := range lanes {
		busy[name], sleeps[name] = threadUse(t, tid)
	}
	began := time.Now()
	time.Sleep(time.Duration(seconds) * time.Second)
	took := time.Since(began).Seconds()
	for name, tid := range lanes {
		b, n := threadUse(t, tid)
		share, rate := 100*(b-busy[name]).Seconds()/took, float64(n-sleeps[name])/took
		t.Logf("%s lane: %.3f %% of a core, asleep %.1f times a second", name, share, rate)
		if share > 1 || rate > 40 {
			t.Errorf("an idle %s lane takes %.3f %% of a core and wakes %.1f times a second", name, share, rate)
		}
	}
}
