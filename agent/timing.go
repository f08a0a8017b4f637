package agent

import (
	"log/slog"
	"runtime"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mxl-stack/mxl-fabrics-agent/agent/logging"
	"github.com/mxl-stack/mxl-fabrics-agent/metrics"
)

// slowWork is from how long on periodic work is worth a line, slowWorkEvery the
// least time between two (contract, "Audio timing").
const (
	slowWork      = 500 * time.Millisecond
	slowWorkEvery = 10 * time.Second
)

// workTimes measures the periodic work beside the lanes.
type workTimes struct {
	page *metrics.Page
	log  *slog.Logger
	slow *logging.Limiter
}

func newWorkTimes(page *metrics.Page, log *slog.Logger) *workTimes {
	return &workTimes{page: page, log: log, slow: logging.NewLimiter(slowWorkEvery)}
}

func (t *workTimes) measure(work string, f func()) {
	start := time.Now()
	f()
	t.add(work, time.Since(start))
}

// measureThread measures the processor time too, as "<work>_cpu": on a busy host
// the two differ by the time in which others were let run. It is that of the
// calling thread, so what the garbage collector does beside it is not in it.
func (t *workTimes) measureThread(work string, f func()) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	start, used := time.Now(), threadTime()
	f()
	t.page.Work(work+"_cpu", threadTime()-used)
	t.add(work, time.Since(start))
}

// threadTime is the processor time of the calling thread.
func threadTime() time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &ts); err != nil {
		return 0
	}
	return time.Duration(ts.Nano())
}

func (t *workTimes) add(work string, took time.Duration) {
	t.log.Debug("work_timing", "work", work, "ms", logging.Elapsed(took))
	t.count(work, took)
}

// peerPoll counts one poll of a peer.
func (t *workTimes) peerPoll(peer string, took time.Duration, err error) {
	t.log.Debug("peer_poll_timing", "peer", peer, "ms", logging.Elapsed(took), "error", err)
	t.count("peer_poll", took)
}

func (t *workTimes) count(work string, took time.Duration) {
	t.page.Work(work, took)
	if took < slowWork {
		return
	}
	if ok, missed := t.slow.Allow("slow", time.Now()); ok {
		t.log.Info("reconcile_work_slow", "work", work, "ms", logging.Elapsed(took), "suppressed", missed)
	}
}
