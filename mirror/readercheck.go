package mirror

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// ReaderCheckEvery is the least time between two periodic reader checks
// (contract, "Mirror cleanup").
const ReaderCheckEvery = 2 * time.Second

// ReaderCheckConfig is what a reader check needs.
type ReaderCheckConfig struct {
	Proc string           // the proc file system, "/proc" when empty
	Self int              // pid of this process in it, os.Getpid() when 0
	Now  func() time.Time // time.Now when nil
}

// ReaderCheck looks for processes that map files of mirrors. It is safe for
// concurrent use; scans run one after the other.
type ReaderCheck struct {
	proc   string
	self   int
	now    func() time.Time
	mu     sync.Mutex // held by the scan that runs
	latest atomic.Pointer[ReaderReport]
}

// NewReaderCheck makes a reader check; it looks at nothing yet.
func NewReaderCheck(cfg ReaderCheckConfig) *ReaderCheck {
	c := &ReaderCheck{proc: cfg.Proc, self: cfg.Self, now: cfg.Now}
	return c
}

// Latest gives the report of the last periodic check; never nil.
func (c *ReaderCheck) Latest() *ReaderReport {
	if r := c.latest.Load(); r != nil {
		return r
	}
	return &ReaderReport{Why: "no reader check yet"}
}

// Run checks every [ReaderCheckEvery] until ctx ends, beside the reconcile
// loop. watched gives what to look for at that moment; report, when not nil, is
// called after each check.
func (c *ReaderCheck) Run(ctx context.Context, watched func() Watched, report func(*ReaderReport)) {
}

// Scan makes one check now and returns its report; it does not become the
// latest one. A cancelled scan knows nothing.
func (c *ReaderCheck) Scan(ctx context.Context, w Watched) *ReaderReport {
	return &ReaderReport{}
}
