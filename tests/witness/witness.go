package witness

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/mxl-stack/mxl-fabrics-agent/mxl"
)

// longestWait bounds a wait on a mirror's futex word, so that a replaced file, a
// missed wake and the end of the run are noticed.
const longestWait = 20 * time.Millisecond

// checkEvery is how often a witness asks whether the file it maps is still the
// one on disk.
const checkEvery = 50 * time.Millisecond

// Path is one flow on its way to one host.
type Path struct {
	Name     string // of the path, for messages
	FlowID   uuid.UUID
	Origin   string // directory of the origin's domain
	Mirror   string // directory of the mirror domain
	Discrete bool   // grains; else samples
}

// Seen is what a witness saw, in grains or samples. All of it only grows, but
// the Longest ones and LastArrival.
type Seen struct {
	Verified uint64 // indexes with every byte right
	Bytes    uint64 // compared
	Lost     uint64 // passed over although the origin had them, or nobody can tell any more
	LeftOut  uint64 // passed over, and the origin lacks them too
	Bad      uint64 // wrong bytes
	WentBack uint64 // times the head fell
	Replaced uint64 // times the mirror became another file
	FirstBad string

	// LongestPause is the longest time between two arrivals since the last Mark.
	LongestPause time.Duration
	// LongestSleep is the longest time between two looks of the witness itself
	// since the last Mark: it looks every 20 ms at least, so more than that is the
	// machine's doing.
	LongestSleep time.Duration
	LastArrival  time.Time
	LastIndex    uint64
}

// Witness follows one path.
type Witness struct {
	Path
	id uuid.UUID

	mu     sync.Mutex
	origin string // present directory of the origin's domain
	seen   Seen
	marked time.Time // pauses count from here
	looked time.Time // the last look
	waits  []*wait
}

// wait is somebody who waits for news: an arrival that is some, given everything
// seen before it.
type wait struct {
	is   func(index uint64, seen Seen) bool
	news chan time.Time
}

// New makes a witness; Run makes it look.
func New(p Path) *Witness {
	return &Witness{Path: p, id: p.FlowID, origin: p.Origin, marked: time.Now()}
}

// MoveOrigin says that the origin is written in another directory from now on.
func (w *Witness) MoveOrigin(directory string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.origin = directory
}

// Seen is what was seen so far.
func (w *Witness) Seen() Seen {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.seen
}

// Mark is Seen and begins a new measurement of pauses.
func (w *Witness) Mark() Seen {
	w.mu.Lock()
	defer w.mu.Unlock()
	out := w.seen
	w.marked = time.Now()
	w.seen.LongestPause, w.seen.LongestSleep = 0, 0
	return out
}

// Since is what was seen since an earlier look. A pause that still lasts counts.
func (w *Witness) Since(earlier Seen) Seen {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := w.seen
	now.Verified -= earlier.Verified
	now.Bytes -= earlier.Bytes
	now.Lost -= earlier.Lost
	now.LeftOut -= earlier.LeftOut
	now.Bad -= earlier.Bad
	now.WentBack -= earlier.WentBack
	now.Replaced -= earlier.Replaced
	now.LongestPause = max(now.LongestPause, time.Since(later(now.LastArrival, w.marked)))
	if now.Bad == 0 {
		now.FirstBad = ""
	}
	return now
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// News gives a channel that tells when the first index was verified that the
// mirror did not hold at the time of this call.
func (w *Witness) News() <-chan time.Time {
	then := w.Seen()
	after := max(w.head(), then.LastIndex)
	return w.await(func(index uint64, now Seen) bool {
		return index > after || now.WentBack > then.WentBack || now.Replaced > then.Replaced
	})
}

// Replacement is News of another file than the present one: whoever maps a removed
// mirror reads on in it until its writer notices.
func (w *Witness) Replacement() <-chan time.Time {
	then := w.Seen()
	return w.await(func(_ uint64, now Seen) bool { return now.Replaced > then.Replaced })
}

// Rewound is News of an index that is lower than the newest one by more than so
// many: the writer's clock was set back.
func (w *Witness) Rewound(by uint64) <-chan time.Time {
	then := w.Seen()
	return w.await(func(index uint64, _ Seen) bool { return index+by < then.LastIndex })
}

func (w *Witness) await(is func(uint64, Seen) bool) <-chan time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := &wait{is, make(chan time.Time, 1)}
	w.waits = append(w.waits, n)
	return n.news
}

// head is the mirror's head as its file says now; 0 without one.
func (w *Witness) head() uint64 {
	domain, err := mxl.OpenDomain(w.Mirror)
	if err != nil {
		return 0
	}
	info, err := domain.FlowInfo(w.id)
	if err != nil || info.HeadIndex == mxl.UndefinedIndex {
		return 0
	}
	return info.HeadIndex
}

// Data is the path of the mirror's data file.
func (w *Witness) Data() string {
	return filepath.Join(w.Mirror, mxl.FlowDirName(w.id), "data")
}

// Run follows the mirror until ctx ends. It waits for a mirror that is not there.
func (w *Witness) Run(ctx context.Context) {
	first := true
	for ctx.Err() == nil {
		domain, err := mxl.OpenDomain(w.Mirror)
		if err == nil {
			if w.Discrete {
				err = w.grains(ctx, domain, first)
			} else {
				err = w.samples(ctx, domain, first)
			}
		}
		switch {
		case ctx.Err() != nil:
			return
		case errors.Is(err, mxl.ErrFlowInvalid):
			first = false
			w.mu.Lock()
			w.seen.Replaced++
			w.mu.Unlock()
			continue
		case !errors.Is(err, mxl.ErrFlowNotFound) && !errors.Is(err, fs.ErrNotExist):
			w.unreadable(err)
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(10 * time.Millisecond): // for a mirror to come
		}
	}
}

// unreadable notes why a mirror that is there cannot be read. A file that is
// being made or removed is read again; only a fault that stays matters, and that
// shows as grains that do not come.
func (w *Witness) unreadable(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.seen.FirstBad == "" && err != nil {
		w.seen.FirstBad = fmt.Sprintf("unreadable: %v", err)
	}
}

// looks notes that the witness looks at the ring now.
func (w *Witness) looks() {
	now := time.Now()
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.looked.IsZero() {
		w.seen.LongestSleep = max(w.seen.LongestSleep, now.Sub(later(w.looked, w.marked)))
	}
	w.looked = now
}

// arrived notes an index that was verified.
func (w *Witness) arrived(index, count uint64, bytes int) {
	now := time.Now()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.seen.Verified += count
	w.seen.Bytes += uint64(bytes)
	w.seen.LongestPause = max(w.seen.LongestPause, now.Sub(later(w.seen.LastArrival, w.marked)))
	w.seen.LastArrival, w.seen.LastIndex = now, index
	kept := w.waits[:0]
	for _, n := range w.waits {
		if n.is(index, w.seen) {
			n.news <- now
			continue
		}
		kept = append(kept, n)
	}
	w.waits = kept
}

func (w *Witness) bad(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.seen.Bad++; w.seen.Bad == 1 {
		w.seen.FirstBad = fmt.Sprintf(format, args...)
	}
}

func (w *Witness) wentBack() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.seen.WentBack++
}

// passed counts indexes that the mirror does not have.
func (w *Witness) passed(lost, leftOut uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.seen.Lost += lost
	w.seen.LeftOut += leftOut
}

// openOrigin opens the domain of the origin.
func (w *Witness) openOrigin() (*mxl.Domain, error) {
	w.mu.Lock()
	directory := w.origin
	w.mu.Unlock()
	return mxl.OpenDomain(directory)
}
