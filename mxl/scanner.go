package mxl

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"
)

// ScannerConfig configures a Scanner.
type ScannerConfig struct {
	Root     string        // directory whose direct subdirectories are domains
	HostID   string        // tells our mirrors from those of another owner
	Interval time.Duration // between full rescans; 0 is DefaultScanInterval
	Log      *slog.Logger  // nil discards
	Now      func() uint64 // TAI in ns; nil is Now
}

// DefaultScanInterval is the time between full rescans (contract: SCAN_INTERVAL_MS).
const DefaultScanInterval = 2 * time.Second

// Scanner keeps a Snapshot of an MXL root. File system events make a new or removed flow visible within milliseconds;
// a full rescan every interval finds what gives no event (a writer that died, a head that stopped) and everything else
// when events are not to be had. Its methods may be called from any goroutine.
type Scanner struct {
	cfg     ScannerConfig
	first   chan struct{}
	changed chan struct{}
}

// NewScanner checks the configuration. It touches no file.
func NewScanner(cfg ScannerConfig) (*Scanner, error) {
	if cfg.Root == "" {
		return nil, errors.New("mxl: scanner: root is empty")
	}
	if cfg.Interval == 0 {
		cfg.Interval = DefaultScanInterval
	}
	if cfg.Interval < time.Millisecond {
		return nil, fmt.Errorf("mxl: scanner: interval %v is below 1 ms", cfg.Interval)
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.Now == nil {
		cfg.Now = Now
	}
	return &Scanner{cfg: cfg, first: make(chan struct{}), changed: make(chan struct{}, 1)}, nil
}

// Run scans until ctx is done, then returns nil. It fails at once when the root cannot be opened as a directory; a root
// that goes away later is a problem in the snapshot until it is back. Call it once.
func (s *Scanner) Run(ctx context.Context) error { return ErrUnsupportedOperation }

// First is closed when the first scan has finished.
func (s *Scanner) First() <-chan struct{} { return s.first }

// Changed receives a value after the revision rose. It holds one value: several changes may be one.
func (s *Scanner) Changed() <-chan struct{} { return s.changed }

// Snapshot returns the result of the newest scan; Revision 0 before the first.
func (s *Scanner) Snapshot() Snapshot { return Snapshot{} }

// Rescan asks for a full scan soon, without waiting for it.
func (s *Scanner) Rescan() {}

// HeadIndexes reads the heads of all flows in the newest snapshot that have one, of the given classes (none: all), from
// their files. Flows that vanished are left out. Live is judged at now (TAI ns).
func (s *Scanner) HeadIndexes(now uint64, classes ...DomainClass) map[FlowKey]HeadIndex { return nil }

// HeadIndex is the head of a flow at the time of the call.
type HeadIndex struct {
	Index uint64
	Live  bool // the flow was active at the scan and the head is within 5 s of now
}

// ScanRoot scans once. The error is that of a root that cannot be opened.
func ScanRoot(root, hostID string) (Snapshot, error) { return Snapshot{}, ErrUnsupportedOperation }
