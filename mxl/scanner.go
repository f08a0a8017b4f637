package mxl

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/fsnotify/fsnotify"
)

// ScannerConfig configures a Scanner.
type ScannerConfig struct {
	Root     string        // directory whose direct subdirectories are domains
	HostID   string        // tells our mirrors from those of another owner
	Interval time.Duration // between full rescans; 0 is DefaultScanInterval
	Log      *slog.Logger  // nil discards
	Now      func() uint64 // TAI in ns; nil is Now

	// SkipMirrors leaves the flows of our own mirrors out: whoever makes those knows them, and there may be many more of
	// them than of local flows.
	SkipMirrors bool

	// Measure, when set, runs each scan: the place to take its time. It runs on the scanner's goroutine.
	Measure func(scan func())
}

// DefaultScanInterval is the time between full rescans (contract: SCAN_INTERVAL_MS).
const DefaultScanInterval = 2 * time.Second

const (
	// scanSettle is how long the scanner waits after an event for more of the same: creating a domain is a handful of
	// events within a millisecond. A new flow has to be seen within about 20 ms.
	scanSettle = 2 * time.Millisecond
	// scanShare bounds what a storm of events can cost: a pass started by events is followed by at least this many times
	// its own length without one.
	scanShare = 9
	// scanYoung is how long a flow that has a writer but no current head is looked at every scanYoungInterval: the first
	// grain gives no event.
	scanYoung         = 5 * time.Second
	scanYoungInterval = 100 * time.Millisecond
	// scanMissingGrace is how long a flow directory without data or definition is taken for one that is being deleted or
	// created by hand, and not for a fault to report.
	scanMissingGrace = time.Second
)

// Scanner keeps a Snapshot of an MXL root. File system events make a new or removed flow visible within milliseconds;
// a full rescan every interval finds what gives no event (a writer that died, a head that stopped) and everything else
// when events are not to be had. Its methods may be called from any goroutine.
type Scanner struct {
	cfg       ScannerConfig
	first     chan struct{}
	changed   chan struct{}
	wanted    chan struct{}
	published atomic.Pointer[Snapshot]
	heads     headFiles

	// Replaced in tests of the inotify limits.
	openWatcher func() (*fsnotify.Watcher, error)
	addWatch    func(*fsnotify.Watcher, string) error
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
	return &Scanner{
		cfg: cfg, first: make(chan struct{}), changed: make(chan struct{}, 1), wanted: make(chan struct{}, 1),
		openWatcher: fsnotify.NewWatcher, addWatch: (*fsnotify.Watcher).Add,
	}, nil
}

// First is closed when the first scan has finished.
func (s *Scanner) First() <-chan struct{} { return s.first }

// Changed receives a value after the revision rose. It holds one value: several changes may be one.
func (s *Scanner) Changed() <-chan struct{} { return s.changed }

// Snapshot returns the result of the newest scan; Revision 0 before the first.
func (s *Scanner) Snapshot() Snapshot {
	if snap := s.published.Load(); snap != nil {
		return *snap
	}
	return Snapshot{}
}

// Rescan asks for a full scan soon, without waiting for it.
func (s *Scanner) Rescan() {
	select {
	case s.wanted <- struct{}{}:
	default:
	}
}

// Run scans until ctx is done, then returns nil. It fails at once when the root cannot be opened as a directory; a root
// that goes away later is a problem in the snapshot until it is back. Call it once.
func (s *Scanner) Run(ctx context.Context) error {
	st, err := newScanState(s.cfg.Root, s.cfg.HostID, s.cfg.Now)
	if err != nil {
		return fmt.Errorf("mxl: scanner: %w", err)
	}
	defer st.close()
	defer s.heads.close()
	st.missingGrace, st.skipMirrors = scanMissingGrace, s.cfg.SkipMirrors
	watch := newScanWatch(s.cfg.Root, s.openWatcher, s.addWatch)
	defer watch.close()

	s.measured(func() { s.publish(st, s.scanAll(st, watch)) })
	close(s.first)

	var (
		dirty  = map[string]bool{}
		settle <-chan time.Time
		quiet  time.Time // no pass started by events before this
		rescan = time.NewTimer(s.untilNext(st))
	)
	defer rescan.Stop()
	for {
		full := false
		select {
		case <-ctx.Done():
			return nil
		case ev := <-watch.events():
			if name := watch.concerns(ev); name != "" {
				dirty[name] = true
				if settle == nil {
					settle = time.After(max(scanSettle, time.Until(quiet)))
				}
			}
			continue
		case <-watch.errors():
			full = true // events were lost, or the queue ran over
		case <-s.wanted:
			full = true
		case <-rescan.C:
			full = true
		case <-settle:
		}
		s.measured(func() {
			if full {
				s.publish(st, s.scanAll(st, watch))
				return
			}
			began := time.Now()
			notice := s.scanSome(st, watch, dirty)
			quiet = time.Now().Add(scanShare * time.Since(began))
			s.publish(st, notice)
		})
		clear(dirty)
		settle = nil
		rescan.Reset(s.untilNext(st))
	}
}

func (s *Scanner) measured(scan func()) {
	if s.cfg.Measure == nil {
		scan()
		return
	}
	s.cfg.Measure(scan)
}

// scanAll examines everything and watches what there is.
func (s *Scanner) scanAll(st *scanState, watch *scanWatch) (notice string) {
	st.all()
	return s.scanFresh(st, watch)
}

// scanSome examines the subdirectories that events named.
func (s *Scanner) scanSome(st *scanState, watch *scanWatch, dirty map[string]bool) (notice string) {
	st.some(dirty)
	return s.scanFresh(st, watch)
}

// scanFresh looks once more into directories whose watch is newer than the look at them.
func (s *Scanner) scanFresh(st *scanState, watch *scanWatch) (notice string) {
	var root scanFileID
	if st.root != nil {
		root = st.root.id
	}
	notice, fresh := watch.keep(root, st.directories())
	if len(fresh) > 0 {
		st.some(fresh)
	}
	return notice
}

func (s *Scanner) untilNext(st *scanState) time.Duration {
	if st.young {
		return min(s.cfg.Interval, scanYoungInterval)
	}
	return s.cfg.Interval
}

// publish hands out what was found and logs faults that appeared, changed or ended.
func (s *Scanner) publish(st *scanState, notice string) {
	next := st.snapshot()
	next.Notice = notice
	last := s.published.Load()
	if last == nil {
		last = &Snapshot{}
	}
	next.Revision = last.Revision
	same := last.Revision > 0 && next.sameContent(last)
	if !same {
		next.Revision++
	}
	s.heads.keep(st.root, &next)
	s.published.Store(&next)
	if same {
		return
	}
	select {
	case s.changed <- struct{}{}:
	default:
	}
	s.cfg.Log.Debug("inventory_changed", "revision", next.Revision)
	s.report(last, &next)
}

func (s *Scanner) report(last, next *Snapshot) {
	if next.Notice != "" && next.Notice != last.Notice {
		s.cfg.Log.Warn("scan_events_unavailable", "path", s.cfg.Root, "reason", next.Notice, "interval_ms", s.cfg.Interval.Milliseconds())
	}
	was, is := last.faults(), next.faults()
	appeared, over := faultChanges(was, is)
	for _, path := range appeared {
		if f := is[path]; f.flow {
			s.cfg.Log.Warn("flow_not_replicable", "domain_id", f.domainID, "flow_id", f.flowID, "path", path, "reason", f.reason)
		} else {
			s.cfg.Log.Warn("domain_not_usable", "path", path, "reason", f.reason)
		}
	}
	for _, path := range over {
		s.cfg.Log.Info("scan_fault_over", "path", path, "reason", was[path].reason)
	}
}
