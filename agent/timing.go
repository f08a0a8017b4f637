package agent

import (
	"log/slog"
	"time"

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
