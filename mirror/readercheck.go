package mirror

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// ReaderCheckEvery is the least time between two periodic reader checks
// (contract, "Mirror cleanup").
const ReaderCheckEvery = 2 * time.Second

// initialPIDNamespace is what /proc/self/ns/pid reads in the initial PID
// namespace: PROC_PID_INIT_INO of the kernel's include/linux/proc_ns.h,
// 0xEFFFFFFC, the same on every host.
const initialPIDNamespace = "pid:[4026531836]"

// ReaderCheckConfig is what a reader check needs.
type ReaderCheckConfig struct {
	Proc string           // the proc file system, "/proc" when empty
	Self int              // pid of this process in it, os.Getpid() when 0
	Now  func() time.Time // time.Now when nil
}

// ReaderCheck looks for processes that map files of mirrors: it reads the maps
// of every process and matches device and inode, so that the mount namespace of
// a reader does not matter. MXL readers take no lock; the maps are their only
// sign. It is safe for concurrent use; scans run one after the other.
type ReaderCheck struct {
	proc   string
	self   int
	now    func() time.Time
	mu     sync.Mutex // held by the scan that runs
	buffer []byte
	text   bool // the kernel has no PROCMAP_QUERY
	// private says that somebody has mapped a mirror privately, as no MXL reader
	// does: from then on the periodic checks look at private mappings too.
	private bool
	latest  atomic.Pointer[ReaderReport]
}

// NewReaderCheck makes a reader check; it looks at nothing yet.
func NewReaderCheck(cfg ReaderCheckConfig) *ReaderCheck {
	c := &ReaderCheck{proc: cfg.Proc, self: cfg.Self, now: cfg.Now, buffer: make([]byte, 1<<16)}
	if c.proc == "" {
		c.proc = "/proc"
	}
	if c.self == 0 {
		c.self = os.Getpid()
	}
	if c.now == nil {
		c.now = time.Now
	}
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
// called after each check. The periodic checks look at shared mappings, as MXL
// readers have; private ones are a matter of the check right before a removal
// ([ReaderCheck.Scan]).
func (c *ReaderCheck) Run(ctx context.Context, watched func() Watched, report func(*ReaderReport)) {
	tick := time.NewTicker(ReaderCheckEvery)
	defer tick.Stop()
	for {
		r := c.scan(ctx, watched(), true)
		if ctx.Err() != nil {
			return
		}
		c.latest.Store(r)
		if report != nil {
			report(r)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// scan is the state of one check.
type scan struct {
	check   *ReaderCheck
	watched Watched
	devices []uint64 // of the watched files
	parser  mapsParser
	quick   bool  // shared mappings only
	first   bool  // one file is enough to know of a process
	private bool  // the mapping that is looked at is a private one
	keys    int   // different keys of the watched files
	hits    []Key // of the process that is looked at
	report  *ReaderReport
}

// Scan makes the check right before a removal and returns its report; it does
// not become the latest one. Of each process it tells one of the mirrors that it
// maps. What it could not see is told by Known and Why, what it did see is in the
// report all the same. A cancelled scan knows nothing.
//
// It looks at shared mappings first. When there are none it has to be sure that
// there is no private one: either nobody has the files open at all, or the
// private mappings of all processes are looked at too. Those are the libraries of
// every process, and more than half of what there is to look at.
func (c *ReaderCheck) Scan(ctx context.Context, w Watched) *ReaderReport {
	c.mu.Lock()
	defer c.mu.Unlock()
	whole := c.private
	report := c.look(ctx, w, !whole, true)
	switch {
	case whole, c.text, len(report.mapped) > 0, w.Alone != nil && w.Alone():
		return report
	}
	return c.look(ctx, w, false, true)
}

// scan makes one check of shared mappings, or of all, with every mirror that each
// process maps.
func (c *ReaderCheck) scan(ctx context.Context, w Watched, quick bool) *ReaderReport {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.look(ctx, w, quick, false)
}

func (c *ReaderCheck) look(ctx context.Context, w Watched, quick, first bool) *ReaderReport {
	start := c.now()
	s := &scan{check: c, watched: w, quick: quick && !c.private, first: first, report: &ReaderReport{
		At: start, Known: true, mapped: map[Key][]Reader{}, looked: map[Key]bool{},
	}}
	for _, k := range w.Flows {
		s.report.looked[k] = true
	}
	keys := map[Key]bool{}
	for id, k := range w.Files {
		keys[k] = true
		if !slices.Contains(s.devices, id.Dev) {
			s.devices = append(s.devices, id.Dev)
		}
	}
	s.keys = len(keys)
	if w.Err != nil {
		s.incomplete("the mirrors' files could not all be listed: " + w.Err.Error())
	}
	if err := s.processes(ctx); err != nil {
		s.incomplete(err.Error())
	}
	for k, readers := range s.report.mapped {
		s.report.mapped[k] = sorted(readers)
	}
	s.report.Took = c.now().Sub(start)
	return s.report
}

// incomplete notes the first reason why the sight is not complete.
func (s *scan) incomplete(why string) {
	if s.report.Known {
		s.report.Known, s.report.Why = false, why
	}
}

// processes looks at every process. The error says what kept it from seeing
// them all.
func (s *scan) processes(ctx context.Context) error {
	proc, err := os.Open(s.check.proc)
	if err != nil {
		return err
	}
	defer proc.Close()
	if err := s.check.namespace(); err != nil {
		s.incomplete(err.Error())
	}
	if len(s.watched.Files) == 0 {
		return nil // nothing that anybody could map
	}
	list, err := proc.Readdirnames(-1)
	if err != nil {
		return fmt.Errorf("list %s: %w", s.check.proc, err)
	}
	var unreadable []error
	sawFirst := false
	for _, name := range list {
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("the reader check was cancelled: %w", err)
		}
		sawFirst = sawFirst || pid == 1
		if err := s.process(int(proc.Fd()), name, pid); err != nil {
			unreadable = append(unreadable, err)
		}
	}
	if !sawFirst {
		// Every PID namespace has a process 1; one that is not listed is hidden.
		s.incomplete("process 1 is not visible: /proc is mounted with hidepid")
	}
	if n := len(unreadable); n > 0 {
		return fmt.Errorf("%d processes cannot be looked at, first: %w", n, unreadable[0])
	}
	return nil
}

// namespace refuses a PID namespace of our own: processes outside it are not
// in /proc.
func (c *ReaderCheck) namespace() error {
	link, err := os.Readlink(c.proc + "/self/ns/pid")
	if err != nil {
		return fmt.Errorf("own PID namespace: %w", err)
	}
	if link != initialPIDNamespace {
		return fmt.Errorf("the agent runs in a PID namespace of its own (%s; hostPID is needed)", link)
	}
	return nil
}

// process looks at one process. One that ends meanwhile is no reader.
func (s *scan) process(proc int, name string, pid int) error {
	s.hits = s.hits[:0]
	own := false
	look := s.match
	if pid == s.check.self {
		look = func(id FileID) bool {
			own = own || slices.Contains(s.watched.Own, id)
			return !own
		}
	}
	err := s.maps(proc, name+"/maps", look)
	if err == errNoMaps {
		err = s.threads(proc, name, pid)
	}
	switch {
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.ESRCH):
		return nil
	case err != nil:
		return fmt.Errorf("process %d (%s): %w", pid, comm(s.check.proc, name), err)
	}
	if pid == s.check.self {
		if len(s.watched.Own) > 0 && !own {
			return fmt.Errorf("the agent's own mirror files are not in its maps under the device and inode that stat gives")
		}
		return nil
	}
	if len(s.hits) > 0 {
		reader := Reader{PID: pid, Comm: comm(s.check.proc, name)}
		for _, k := range s.hits {
			s.report.mapped[k] = append(s.report.mapped[k], reader)
		}
	}
	return nil
}

// match notes a mapping of a watched file. It wants no more once the process
// maps files of every flow, or of any where that is enough. Most mappings are of
// other devices.
func (s *scan) match(id FileID) (more bool) {
	for _, dev := range s.devices {
		if dev != id.Dev {
			continue
		}
		if k, ok := s.watched.Files[id]; ok && !slices.Contains(s.hits, k) {
			s.hits = append(s.hits, k)
			s.check.private = s.check.private || s.private
			return !s.first && len(s.hits) < s.keys
		}
		break
	}
	return true
}

// threads looks at the maps of a process' other threads: a process whose main
// thread has ended shows no maps of its own while the others run on.
func (s *scan) threads(proc int, name string, pid int) error {
	var st unix.Stat_t
	if err := unix.Fstatat(proc, name+"/task", &st, 0); err != nil {
		return err
	}
	// Link count of a directory: itself, its parent's entry, one for each thread.
	if pid == s.check.self || st.Nlink <= 3 {
		return nil
	}
	list, err := os.ReadDir(s.check.proc + "/" + name + "/task")
	if err != nil {
		return err
	}
	for _, thread := range list {
		err := s.maps(proc, name+"/task/"+thread.Name()+"/maps", s.match)
		if err != nil && err != errNoMaps && !errors.Is(err, unix.ENOENT) && !errors.Is(err, unix.ESRCH) {
			return err
		}
	}
	return nil
}

// comm is the name of a process, empty when it has gone.
func comm(proc, pid string) string {
	text, err := os.ReadFile(proc + "/" + pid + "/comm")
	if err != nil {
		return ""
	}
	if n := len(text); n > 0 && text[n-1] == '\n' {
		text = text[:n-1]
	}
	return string(text)
}
