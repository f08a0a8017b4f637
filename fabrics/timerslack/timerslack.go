// Package timerslack lets the kernel be late by up to a millisecond with the timers
// of the Go runtime's own threads.
//
// A lane sleeps outside Go. Each time one comes back the runtime wakes its monitor
// thread, which then naps for 20 µs at a time, for as long as 10 ms, until it may
// take the lane's processor away: with lanes that wake for every grain that alone
// was a tenth of their processor time. With slack the naps last a millisecond.
// Nothing a lane waits for depends on those threads' timers, and package fabrics
// gives its lanes' threads the usual slack back.
//
// Import it for its effect. New threads have the slack of the thread that made them,
// so it is set while there is one thread: in a constructor, before the Go runtime
// starts. A process that was started with another slack than usual keeps it.
package timerslack

/*
#include <sys/prctl.h>

// Linux's own, for every thread that is not real-time (prctl(2)).
#define USUAL_NS 50000
#define RELAXED_NS 1000000

__attribute__((constructor)) static void relax(void) {
	if (prctl(PR_GET_TIMERSLACK, 0, 0, 0, 0) == USUAL_NS)
		prctl(PR_SET_TIMERSLACK, RELAXED_NS, 0, 0, 0);
}
*/
import "C"
