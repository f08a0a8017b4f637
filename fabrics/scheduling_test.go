package fabrics

import (
	"bytes"
	"log/slog"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestScheduling: what can be set is, and what cannot is named by the events of the
// contract, each with what was asked for.
func TestScheduling(t *testing.T) {
	for name, c := range map[string]struct {
		s    Scheduling
		want []string
		cpus int
	}{
		"nothing asked for":       {Scheduling{}, nil, 0},
		"a CPU":                   {Scheduling{CPUs: []int{0}}, nil, 1},
		"a CPU that is not there": {Scheduling{CPUs: []int{1023}}, []string{"msg=cpu_affinity_failed cpus=[1023] error="}, 0},
		"a priority out of range": {Scheduling{Priority: 100}, []string{"msg=rt_priority_failed priority=100 error="}, 0},
		"both wrong":              {Scheduling{Priority: 100, CPUs: []int{1023}}, []string{"msg=rt_priority_failed", "msg=cpu_affinity_failed"}, 0},
	} {
		var lines bytes.Buffer
		done := make(chan unix.CPUSet)
		go func() {
			runtime.LockOSThread() // never unlocked: the thread ends with what was set
			c.s.apply(slog.New(slog.NewTextHandler(&lines, nil)))
			var set unix.CPUSet
			if err := unix.SchedGetaffinity(0, &set); err != nil {
				t.Error(err)
			}
			done <- set
		}()
		set := <-done
		if c.cpus > 0 && set.Count() != c.cpus {
			t.Errorf("%s: the thread may use %d CPUs", name, set.Count())
		}
		if n := strings.Count(lines.String(), "\n"); n != len(c.want) {
			t.Errorf("%s: %d lines\n%s", name, n, &lines)
		}
		for _, want := range c.want {
			if !strings.Contains(lines.String(), want) {
				t.Errorf("%s: no %q in\n%s", name, want, &lines)
			}
		}
	}
}
