package main

import (
	"context"
	"fmt"
	"time"

	"github.com/mxl-stack/mxl-fabrics-agent/cmd/mxl-pattern/pattern"
	"github.com/mxl-stack/mxl-fabrics-agent/mxl"
)

// writer is one run of write.
type writer struct {
	options  writeOptions
	domain   *mxl.Domain
	def      []byte
	parsed   *mxl.FlowDef
	terminal terminal
	totals   writeTotals
}

// fillLead is how long before its time a grain is filled at most; the commit is at the time.
const fillLead = uint64(5 * time.Millisecond)

// grains writes a discrete flow. Grain i is committed at its time, the last of several partial commits almost a period
// later, as a camera delivers lines. A writer that was held up catches up, but never by more than half the ring.
func (w *writer) grains(ctx context.Context) (err error) {
	o, rate := w.options, w.parsed.Rate
	if o.slices > 1 && o.hints.MaxCommitBatchSizeHint == 0 {
		total := w.parsed.TotalSlices()
		o.hints.MaxCommitBatchSizeHint = uint32((total + o.slices - 1) / o.slices)
	}
	if o.hints.MaxSyncBatchSizeHint == 0 {
		o.hints.MaxSyncBatchSizeHint = o.hints.MaxCommitBatchSizeHint
	}
	ring, err := w.openGrains(o.hints)
	if err != nil {
		return err
	}
	defer func() { err = w.leave(ring.Close, ring.Release, err) }()

	var (
		pace     = newPacer(o.fast)
		payload  = grainPattern(w.parsed)
		period   = uint64(1e9 / rate.Float())
		recreate = mxl.Now() + uint64(o.recreateAfter)
		offset   uint64 // two's complement, of --jump-by
		due      = rate.IndexAt(mxl.Now()) + 1
	)
	for n := uint64(0); ; n, due = n+1, due+1 {
		if o.count > 0 && w.totals.Grains >= o.count {
			return nil
		}
		if o.skipEvery > 0 && n%(o.skipEvery+o.skipLength) >= o.skipEvery {
			w.totals.Skipped++
			continue
		}
		if o.jumpAt > 0 && w.totals.Jumps == 0 && w.totals.Grains >= o.jumpAt {
			offset, w.totals.Jumps = uint64(o.jumpBy), 1
		}
		at := rate.TimeOf(due)
		if !pace.until(ctx, at-min(fillLead, period/2)) {
			return nil
		}
		if now := rate.IndexAt(mxl.Now()); !o.fast && now > due+1 {
			w.totals.Late++
			if behind := now - due; behind > max(1, ring.Depth()/2) {
				w.totals.LateSkipped += behind
				due = now
				at = rate.TimeOf(due)
			}
		}
		if o.recreateAfter > 0 && w.totals.Recreated == 0 && mxl.Now() >= recreate {
			if err := w.recreated(ring.Release); err != nil {
				return err
			}
			again, err := w.openGrains(o.hints)
			if err != nil {
				return err
			}
			ring = again
		}
		if err := w.grain(ctx, pace, ring, payload, due+offset, at, period); err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return err
		}
	}
}

// grain writes one index.
func (w *writer) grain(ctx context.Context, pace pacer, ring *mxl.DiscreteWriter, payload pattern.Grains, index, at, period uint64) error {
	dst, err := ring.OpenGrain(index)
	if err != nil {
		return fmt.Errorf("open grain %d: %w", index, err)
	}
	if every := w.options.invalidEvery; every > 0 && (w.totals.Grains+w.totals.Invalid+1)%every == 0 {
		if !pace.until(ctx, at) {
			ring.Cancel()
			return ctx.Err()
		}
		if err := ring.Commit(index, 0, mxl.GrainInvalid); err != nil {
			return fmt.Errorf("commit invalid grain %d: %w", index, err)
		}
		ring.Cancel() // an invalid grain with no slices is not complete: it would stay open
		w.totals.Invalid++
		w.note(index)
		return nil
	}
	total, parts := ring.TotalSlices(), min(w.options.slices, ring.TotalSlices())
	for part, from := 1, 0; part <= parts; part++ {
		to := total * part / parts
		if err := mxl.Guard(func() error { fillSlices(ring, payload, dst, index, from, to); return nil }); err != nil {
			return fmt.Errorf("fill grain %d: %w", index, err)
		}
		if !pace.until(ctx, at+period*uint64(part-1)/uint64(parts)) {
			ring.Cancel()
			return ctx.Err()
		}
		if err := ring.Commit(index, to, 0); err != nil {
			return fmt.Errorf("commit grain %d: %w", index, err)
		}
		w.totals.Commits++
		from = to
	}
	w.totals.Grains++
	w.totals.Bytes += uint64(len(dst))
	w.note(index)
	return nil
}

// sliceRing is the geometry that readers and writers of grains share.
type sliceRing interface {
	SliceSizes() [4]uint32
	PlaneOffset(plane int) int
}

// eachPlane calls fn with the bytes of slices [from, to) of every plane and their offset in the payload.
func eachPlane(r sliceRing, payload []byte, from, to int, fn func(part []byte, offset int) bool) bool {
	for plane, size := range r.SliceSizes() {
		if size == 0 {
			break
		}
		base := r.PlaneOffset(plane) - mxl.PayloadOffset
		a, b := base+from*int(size), base+to*int(size)
		if !fn(payload[a:b], a) {
			return false
		}
	}
	return true
}

func fillSlices(r sliceRing, p pattern.Grains, payload []byte, index uint64, from, to int) {
	eachPlane(r, payload, from, to, func(part []byte, offset int) bool {
		p.Fill(part, index, offset)
		return true
	})
}

// grainPattern is the payload of a discrete flow.
func grainPattern(def *mxl.FlowDef) pattern.Grains {
	if def.Format == mxl.FormatVideo {
		return pattern.NewGrains(def.ID, pattern.V210Mask)
	}
	return pattern.NewGrains(def.ID, ^uint64(0))
}

func (w *writer) note(index uint64) {
	if w.totals.FirstIndex == 0 {
		w.totals.FirstIndex = index
	}
	w.totals.LastIndex = index
}

func (w *writer) openGrains(hints mxl.FlowOptions) (*mxl.DiscreteWriter, error) {
	ring, created, err := w.domain.CreateDiscreteWriter(w.def, hints)
	if err != nil {
		return nil, err
	}
	w.opened(ring.Inode(), created, ring.Depth())
	return ring, nil
}

func (w *writer) opened(inode uint64, created bool, depth uint64) {
	w.totals.Inode = inode
	verb := "opened"
	if created {
		verb = "created"
	}
	fmt.Fprintf(w.terminal.err, "%s flow %s, inode %d, ring of %d\n", verb, w.parsed.ID, inode, depth)
}

// recreated deletes the flow so that it can be created again.
func (w *writer) recreated(release func() (bool, error)) error {
	deleted, err := release()
	if err != nil {
		return err
	}
	if !deleted {
		return fmt.Errorf("flow %s has another writer and cannot be created again", w.parsed.ID)
	}
	w.totals.Recreated++
	return nil
}

// leave closes the flow as --keep says.
func (w *writer) leave(closeFlow func() error, release func() (bool, error), err error) error {
	var left error
	if w.options.keep {
		left = closeFlow()
	} else {
		w.totals.Deleted, left = release()
	}
	if err == nil {
		err = left
	}
	return err
}
