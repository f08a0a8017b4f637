package main

import (
	"context"
	"errors"
	"time"

	"github.com/mxl-stack/mxl-fabrics-agent/cmd/mxl-pattern/pattern"
	"github.com/mxl-stack/mxl-fabrics-agent/mxl"
)

// longestWait bounds a wait on the futex word: a signal, the end of the run and a replaced file are noticed after it.
const longestWait = 50 * time.Millisecond

// grains follows one opening of a discrete flow. It ends with ErrFlowInvalid when the flow was replaced.
func (r *reader) grains(ctx context.Context) error {
	ring, err := r.domain.OpenDiscreteReader(r.options.flow)
	if err != nil {
		return reopenable(err)
	}
	defer ring.Close()
	payload := grainPattern(r.def)
	next := uint64(0)
	r.lastHead, r.headSeen = 0, 0
	for {
		if err := r.goOn(ctx); err != nil {
			return err
		}
		seen := ring.Sync()
		head := ring.Head()
		next = r.look(head, next, ring.Depth())
		if next == 0 || head < next+r.options.behind && !(r.options.partial && head == next) {
			if err := r.stillThere(ring.Check); err != nil {
				return err
			}
			if _, err := ring.WaitSync(seen, longestWait); err != nil {
				return err
			}
			continue
		}
		r.started(next)
		passed, err := r.oneGrain(ctx, ring, payload, next, seen)
		if err != nil {
			return err
		}
		next += passed
	}
}

// oneGrain reads index, which is not above the head, and returns how far to go on.
func (r *reader) oneGrain(ctx context.Context, ring *mxl.DiscreteReader, payload pattern.Grains, index uint64, seen uint32) (uint64, error) {
	checked, left := 0, false
	for {
		slices := mxl.AllSlices
		if r.options.partial {
			slices = min(checked+1, ring.TotalSlices())
		}
		g, err := ring.Grain(index, slices)
		switch {
		case err == nil:
		case errors.Is(err, mxl.ErrSkipped):
			r.gap(1)
			return 1, nil
		case errors.Is(err, mxl.ErrTooLate):
			// The oldest readable one may go any moment; its successor is safe for a period.
			oldest := ring.Head() - ring.Depth() + 2
			r.late(oldest - index)
			return oldest - index, nil
		case errors.Is(err, mxl.ErrTooEarly):
			// Some slices are still to come, unless the writer has gone on.
			if ring.Head() > index {
				if left { // and nothing came between the two looks
					r.totals.Incomplete++
					r.totals.Lost++
					return 1, nil
				}
				left = true
				continue
			}
			if err := r.goOn(ctx); err != nil {
				return 0, err
			}
			if err := r.stillThere(ring.Check); err != nil {
				return 0, err
			}
			if _, err := ring.WaitSync(seen, longestWait); err != nil {
				return 0, err
			}
			seen = ring.Sync()
			continue
		default:
			return 0, reopenable(err)
		}
		now := mxl.Now()
		if g.Invalid() {
			r.totals.Invalid++
			r.took(index)
			return 1, nil
		}
		at, err := r.compare(ring, payload, g, checked, int(g.ValidSlices))
		if err != nil {
			return 0, err
		}
		if at >= 0 {
			if !ring.Intact(g) {
				r.totals.Overwritten++
				r.late(1)
				return 1, nil
			}
			stamp, ours, _ := payload.Stamp(g.Payload)
			r.bad("grain %d, byte %d of %d; its stamp says index %d, this flow %v", index, at, len(g.Payload), stamp, ours)
			r.totals.BadGrains++
			r.took(index)
			return 1, nil
		}
		if checked = int(g.ValidSlices); g.Complete() {
			r.latency.add(now, r.def.Rate.TimeOf(index))
			ring.Touch()
			r.totals.Grains++
			r.took(index)
			return 1, nil
		}
		r.totals.Partial++
	}
}

// compare checks slices [from, to) of every plane; at is the payload offset of the first wrong byte or -1.
func (r *reader) compare(ring *mxl.DiscreteReader, payload pattern.Grains, g mxl.Grain, from, to int) (at int, err error) {
	at = -1
	err = mxl.Guard(func() error {
		eachPlane(ring, g.Payload, from, to, func(part []byte, offset int) bool {
			r.totals.Bytes += uint64(len(part))
			if bad := payload.Check(part, g.Index, offset); bad >= 0 {
				at = offset + bad
			}
			return at < 0
		})
		return nil
	})
	return at, err
}

func (r *reader) took(index uint64) {
	r.totals.LastIndex = index
	r.totals.Verified, r.totals.Bad = r.totals.Grains+r.totals.Samples, r.totals.BadGrains+r.totals.BadSamples
	r.ended = time.Now()
}

// reopenable makes a flow that vanished between two looks one to open again.
func reopenable(err error) error {
	if errors.Is(err, mxl.ErrFlowNotFound) {
		return errors.Join(mxl.ErrFlowInvalid, err)
	}
	return err
}
