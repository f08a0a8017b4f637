package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/google/uuid"

	"github.com/mxl-stack/mxl-fabrics-agent/cmd/mxl-pattern/pattern"
	"github.com/mxl-stack/mxl-fabrics-agent/mxl"
	"github.com/mxl-stack/mxl-fabrics-agent/tests/mesh"
)

// follower is a media function that never lets go: it opens the mirror of a
// video flow once and checks every byte of every grain that comes.
type follower struct {
	ring    *mxl.DiscreteReader
	payload pattern.Grains
	data    string // path of the flow's data file

	mu     sync.Mutex
	head   uint64 // newest index that was verified, or seen and found bad
	seen   followed
	waiter chan time.Time
	after  uint64 // waiter wants a grain after this index
}

// followed is what a follower has seen.
type followed struct {
	Verified, Bad, Invalid, Absent, WentBack uint64
	FirstBad                                 string
	Inodes                                   map[uint64]bool
}

func follow(m *mesh.Mesh, f mesh.Flow) (*follower, error) {
	ring, err := m.OpenMirror(m.B, f)
	if err != nil {
		return nil, err
	}
	id, err := uuid.Parse(f.ID)
	if err != nil {
		return nil, err
	}
	w := &follower{
		ring: ring, payload: pattern.NewGrains(id, pattern.V210Mask),
		data: filepath.Join(m.B.MirrorDomain(f.DomainID), f.ID+".mxl-flow", "data"), head: ring.Head(),
	}
	w.seen.Inodes = map[uint64]bool{ring.Info().Inode: true}
	return w, nil
}

// run follows the ring until ctx ends.
func (w *follower) run(ctx context.Context) {
	last := w.ring.Head()
	for ctx.Err() == nil {
		sync := w.ring.Sync()
		head := w.ring.Head()
		if head < last {
			w.mu.Lock()
			w.seen.WentBack++
			w.mu.Unlock()
		}
		// Grains that are older than the ring are gone.
		for i := max(last, head-min(head, w.ring.Depth()-2)) + 1; i <= head; i++ {
			w.take(i)
		}
		last = head
		if _, err := w.ring.WaitSync(sync, 20*time.Millisecond); err != nil {
			w.fault("wait: %v", err)
			return
		}
	}
}

// take verifies one index.
func (w *follower) take(index uint64) {
	g, err := w.ring.Grain(index, mxl.AllSlices)
	switch {
	case errors.Is(err, mxl.ErrSkipped), errors.Is(err, mxl.ErrTooLate):
		w.mu.Lock()
		w.seen.Absent++
		w.mu.Unlock()
		return
	case err != nil:
		w.fault("index %d: %v", index, err)
		return
	case g.Invalid():
		w.mu.Lock()
		w.seen.Invalid++
		w.mu.Unlock()
		w.arrived(index)
		return
	}
	at := -1
	if err := mxl.Guard(func() error { at = w.payload.Check(g.Payload, index, 0); return nil }); err != nil {
		w.fault("index %d: %v", index, err)
		return
	}
	if at >= 0 {
		if w.ring.Intact(g) {
			w.fault("index %d: byte %d is wrong", index, at)
		}
		return
	}
	w.mu.Lock()
	w.seen.Verified++
	w.mu.Unlock()
	w.arrived(index)
}

func (w *follower) fault(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.seen.Bad++
	if w.seen.FirstBad == "" {
		w.seen.FirstBad = fmt.Sprintf(format, args...)
	}
}

func (w *follower) arrived(index uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.head = max(w.head, index)
	if w.waiter != nil && w.head > w.after {
		w.waiter <- time.Now()
		w.waiter = nil
	}
}

// next gives a channel that says when the first grain after everything seen so
// far has been verified.
func (w *follower) next() <-chan time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.waiter, w.after = make(chan time.Time, 1), max(w.head, w.ring.Head())
	return w.waiter
}

// look notes which file lies at the flow's path now.
func (w *follower) look() error {
	info, err := os.Stat(w.data)
	if err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.seen.Inodes[info.Sys().(*syscall.Stat_t).Ino] = true
	return nil
}

func (w *follower) result() followed {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.seen
}
