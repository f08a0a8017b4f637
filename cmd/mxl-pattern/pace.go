package main

import (
	"context"
	"runtime"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mxl-stack/mxl-fabrics-agent/mxl"
)

// pacer sleeps until points in TAI. It belongs to the goroutine that made it, whose thread it keeps: the kernel's timer
// slack (50 µs by default) is a property of the thread.
type pacer struct{ fast bool }

// longestSleep bounds how late a signal is noticed.
const longestSleep = uint64(100 * time.Millisecond)

// newPacer returns a pacer; a fast one never sleeps.
func newPacer(fast bool) pacer {
	runtime.LockOSThread()
	// A refused prctl costs precision and nothing else.
	_ = unix.Prctl(unix.PR_SET_TIMERSLACK, 1, 0, 0, 0)
	return pacer{fast: fast}
}

// until sleeps until tai (ns) or until ctx is done, and says whether ctx is still alive.
func (p pacer) until(ctx context.Context, tai uint64) bool {
	for !p.fast {
		now := mxl.Now()
		if now >= tai || ctx.Err() != nil {
			break
		}
		next := unix.NsecToTimespec(int64(min(tai, now+longestSleep)))
		// EINTR (the Go runtime signals its threads) is a reason to look at the clock again, as any other error.
		if err := unix.ClockNanosleep(unix.CLOCK_TAI, unix.TIMER_ABSTIME, &next, nil); err != nil && err != unix.EINTR {
			time.Sleep(time.Millisecond)
		}
	}
	return ctx.Err() == nil
}
