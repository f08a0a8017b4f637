package fabrics

import (
	"fmt"
	"log/slog"

	"golang.org/x/sys/unix"
)

// Scheduling is applied to a lane's own thread. The zero value leaves the thread
// as the kernel made it.
type Scheduling struct {
	// Priority is a SCHED_FIFO priority, 1 to 99; 0 leaves the policy alone.
	Priority int
	// CPUs is the set of CPUs the thread may run on; empty leaves it alone.
	CPUs []int
}

// apply sets the calling thread's priority and CPUs. What cannot be set is a warning:
// the lane works without (agent API reference §16.6, §18).
func (s Scheduling) apply(log *slog.Logger) {
	if s.Priority > 0 {
		attr := unix.SchedAttr{
			Size:     unix.SizeofSchedAttr,
			Policy:   unix.SCHED_FIFO,
			Priority: uint32(s.Priority),
		}
		if err := unix.SchedSetAttr(0, &attr, 0); err != nil {
			log.Warn("rt_priority_failed", "priority", s.Priority, "error", fmt.Sprintf("SCHED_FIFO needs CAP_SYS_NICE: %v", err))
		}
	}
	if len(s.CPUs) > 0 {
		var set unix.CPUSet
		for _, cpu := range s.CPUs {
			set.Set(cpu)
		}
		if err := unix.SchedSetaffinity(0, &set); err != nil {
			log.Warn("cpu_affinity_failed", "cpus", fmt.Sprint(s.CPUs), "error", err.Error())
		}
	}
}
