package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"github.com/mxl-stack/mxl-fabrics-agent/cmd/mxl-pattern/pattern"
	"github.com/mxl-stack/mxl-fabrics-agent/mxl"
	"github.com/mxl-stack/mxl-fabrics-agent/tests/mesh"
	"github.com/mxl-stack/mxl-fabrics-agent/tests/plant"
)

// witness reads every grain that arrives on a mirror and compares all of its
// bytes.
type witness struct {
	name     string
	payload  pattern.Grains
	verified atomic.Uint64
	bad      atomic.Uint64

	mu    sync.Mutex
	last  time.Time     // when the newest good grain was verified
	moved chan struct{} // closed then
}

// watchMirror starts a witness of a host's mirror; it ends with ctx.
func watchMirror(ctx context.Context, h *plant.Host, f mesh.Flow) (*witness, error) {
	id, err := uuid.Parse(f.ID)
	if err != nil {
		return nil, err
	}
	w := &witness{name: f.Name + " at " + h.HostID, payload: pattern.NewGrains(id, pattern.V210Mask), moved: make(chan struct{})}
	ring, err := h.OpenMirror(f)
	if err != nil {
		return nil, err
	}
	go w.watch(ctx, ring)
	return w, nil
}

// watch keeps the first opening: a mirror that survives the fault is the same
// file afterwards.
func (w *witness) watch(ctx context.Context, ring *mxl.DiscreteReader) {
	defer ring.Close()
	for next := ring.Head(); ctx.Err() == nil; {
		seen := ring.Sync()
		head := ring.Head()
		next = max(next, head-min(head, ring.Depth()-2))
		for ; next <= head; next++ {
			w.look(ring, next)
		}
		if _, err := ring.WaitSync(seen, 50*time.Millisecond); err != nil {
			return // nothing arrives any more, as whoever waits will find
		}
	}
}

// look verifies one grain.
func (w *witness) look(ring *mxl.DiscreteReader, index uint64) {
	g, err := ring.Grain(index, mxl.AllSlices)
	if errors.Is(err, mxl.ErrTooLate) || errors.Is(err, mxl.ErrTooEarly) || errors.Is(err, mxl.ErrSkipped) || err == nil && g.Invalid() {
		return // not there, as far as a reader is concerned
	}
	at := -1
	if err == nil {
		err = mxl.Guard(func() error {
			at = w.payload.Check(g.Payload, index, 0)
			return nil
		})
	}
	if err != nil || at >= 0 {
		if err != nil || ring.Intact(g) {
			w.bad.Add(1)
		}
		return
	}
	w.verified.Add(1)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.last = time.Now()
	close(w.moved)
	w.moved = make(chan struct{})
}

// after waits for a grain that was verified after a moment and tells how long
// after.
func (w *witness) after(ctx context.Context, moment time.Time, limit time.Duration) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for {
		w.mu.Lock()
		last, moved := w.last, w.moved
		w.mu.Unlock()
		if last.After(moment) {
			return last.Sub(moment), nil
		}
		select {
		case <-moved:
		case <-ctx.Done():
			return 0, fmt.Errorf("no verified grain of %s within %v", w.name, limit)
		}
	}
}
