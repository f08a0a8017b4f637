package agent

import (
	"fmt"
	"log/slog"
	"runtime"
	"slices"

	"golang.org/x/sys/unix"
)

// logIgnoredCPUs names, once, the CPUs of CPU_AFFINITY that no lane will run on.
func logIgnoredCPUs(list []int, log *slog.Logger) {
	if ignored := ignoredCPUs(list); len(ignored) > 0 {
		log.Warn("cpu_affinity_ignored", "cpus", fmt.Sprint(ignored), "detail", "the lanes run on the others of CPU_AFFINITY; these are not there, or not for this process")
	}
}

// ignoredCPUs are those of a list that the kernel drops without an error because others
// of it can be used, and those that a CPU set does not hold (1024). It is none where
// no CPU can be used: each lane then says so itself (cpu_affinity_failed).
func ignoredCPUs(list []int) []int {
	if len(list) == 0 {
		return nil
	}
	got := make(chan unix.CPUSet, 1)
	go func() {
		defer close(got)
		runtime.LockOSThread() // never unlocked: the thread ends with what was set
		var set unix.CPUSet
		for _, cpu := range list {
			set.Set(cpu)
		}
		var is unix.CPUSet // the kernel fills in only as much as it has CPUs
		if unix.SchedSetaffinity(0, &set) == nil && unix.SchedGetaffinity(0, &is) == nil {
			got <- is
		}
	}()
	set, ok := <-got
	if !ok {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(list), set.IsSet)
}
