package fabrics

import (
	"os"
	"testing"
	"time"
)

// TestStarvedPass: time in which the thread was ready and got no processor counts as
// a stall, also where the wait allowed for it; time that it slept does not.
func TestStarvedPass(t *testing.T) {
	const ms = int64(time.Millisecond)
	var w stallWatch
	starved, now := int64(0), int64(0)
	w.starved.total = func() int64 { return starved }
	for i, c := range []struct {
		took, allowed, commit, delay int64
		idle                         bool
		gap                          time.Duration
		task                         string
	}{
		{took: 80, allowed: 200},
		{took: 80, allowed: 200, delay: 60, gap: 60 * time.Millisecond, task: "pass"},
		{took: 80, allowed: 200, delay: 60, idle: true},
		{took: 80, allowed: 200, delay: 15},
		{took: 10, allowed: 200, delay: 10}, // a short pass is not looked at
		{took: 80, allowed: 200, delay: 500, gap: 80 * time.Millisecond, task: "pass"},
		{took: 80, allowed: 10, gap: 70 * time.Millisecond, task: "pass"},
		{took: 40, allowed: 40, commit: 50, gap: 50 * time.Millisecond, task: "commit"},
		{took: 40, allowed: 40, commit: 50, delay: 40, gap: 50 * time.Millisecond, task: "pass"},
	} {
		now += int64(time.Second) // what was before is noted when a pass begins
		w.begin(now)
		starved += c.delay * ms
		now += c.took * ms
		w.waited(c.allowed*ms, now)
		now += c.commit * ms
		w.lap(taskCommit, now)
		w.end(!c.idle, now)
		s, ok := w.take()
		if ok != (c.gap > 0) || s.Gap != c.gap || ok && s.Task != c.task {
			t.Errorf("pass %d: %+v, %v", i, s, ok)
		}
	}
}

func TestScheduleStatistics(t *testing.T) {
	for text, want := range map[string]int64{
		"856841 694284 3\n": 694284, "1 9223372036854775807 1\n": 1<<63 - 1, "0 0 0\n": 0, "": 0, "12": 0,
	} {
		if got := secondNumber([]byte(text)); got != want {
			t.Errorf("%q: %d, want %d", text, got, want)
		}
	}
	var s starvation
	s.open()
	defer s.close()
	if _, err := os.Stat("/proc/thread-self/schedstat"); (err == nil) != (s.total != nil) {
		t.Fatalf("%+v with %v", s, err)
	} else if err != nil {
		return // a kernel that does not say
	}
	if n := testing.AllocsPerRun(10, func() { s.total() }); n != 0 {
		t.Errorf("%v allocations a reading", n)
	}
}
