package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/mxl-stack/mxl-fabrics-agent/mxl"
)

// rateTotals is what rate prints.
type rateTotals struct {
	Role     string  `json:"role"`
	FlowID   string  `json:"flow_id"`
	Format   string  `json:"format"`
	Count    uint64  `json:"count"` // grains whose slot holds their index, complete and not invalid; samples the head moved
	Rate     float64 `json:"rate"`
	Indexes  uint64  `json:"indexes"` // the head moved
	Reopened uint64  `json:"reopened"`
	Seconds  float64 `json:"seconds"`
	Head     uint64  `json:"head_index"`
}

func runRate(ctx context.Context, args []string, t terminal) error {
	var (
		fs       = flag.NewFlagSet("rate", flag.ContinueOnError)
		duration = fs.Duration("duration", 10*time.Second, "count for this `long`")
		wait     = fs.Duration("wait", 10*time.Second, "wait this `long` for the flow")
		least    = fs.Float64("min", 0, "fail below this many grains or samples a `second`")
		asJSON   = fs.Bool("json", false, "print one JSON object")
	)
	positional, err := parseArguments(fs, args, t, "rate [options] DOMAIN FLOW-ID")
	if err != nil {
		return err
	}
	path, flow, err := domainAndFlow(positional)
	if err != nil {
		return err
	}
	totals := rateTotals{Role: "rate", FlowID: flow.String()}
	if err := totals.measure(ctx, path, flow, *duration, *wait); err != nil {
		return err
	}
	if *asJSON {
		_ = json.NewEncoder(t.out).Encode(totals)
	} else {
		fmt.Fprintf(t.out, "flow %s: %.2f a second (%d in %.1f s, head %d, opened again %d times)\n", flow, totals.Rate, totals.Count, totals.Seconds, totals.Head, totals.Reopened)
	}
	if totals.Rate < *least {
		return fmt.Errorf("%w: %.2f a second, want %.2f", errVerdict, totals.Rate, *least)
	}
	return nil
}

// headCounter counts what a flow's head passes.
type headCounter interface {
	Sync() uint32
	Head() uint64
	WaitSync(seen uint32, timeout time.Duration) (uint32, error)
	Check() error
	Close() error
}

// measure counts for the duration, over re-creations of the flow.
func (r *rateTotals) measure(ctx context.Context, path string, flow uuid.UUID, duration, wait time.Duration) error {
	var began time.Time
	for first := true; ; first = false {
		var ring headCounter
		limit := time.Time{}
		if !first {
			limit = began.Add(duration)
		}
		err := awaitFlow(ctx, wait, limit, func() (err error) { ring, r.Format, err = openFlow(path, flow); return err })
		if err == nil {
			if first {
				began = time.Now()
			}
			err = r.count(ctx, ring, began.Add(duration))
			ring.Close()
		} else if first {
			return err
		}
		r.Seconds = time.Since(began).Seconds()
		r.Rate = thousandths(float64(r.Count) / r.Seconds)
		if !errors.Is(err, mxl.ErrFlowInvalid) {
			return endOf(ctx, err)
		}
		r.Reopened++
	}
}

// count follows one opening of the flow until end.
func (r *rateTotals) count(ctx context.Context, ring headCounter, end time.Time) error {
	last := ring.Head()
	for checked := time.Now(); ctx.Err() == nil; {
		left := time.Until(end)
		if left <= 0 {
			return errEnd
		}
		seen := ring.Sync()
		head := ring.Head()
		r.Head = head
		switch {
		case head > last && last != 0:
			r.Indexes += head - last
			r.Count += present(ring, last, head)
		case head == last && time.Since(checked) > 250*time.Millisecond:
			if err := ring.Check(); err != nil {
				return err
			}
			checked = time.Now()
		}
		last = head
		if _, err := ring.WaitSync(seen, min(left, 10*time.Millisecond)); err != nil {
			return err
		}
	}
	return errEnd
}

// present counts the indexes in (last, head] that are in the ring as complete and valid grains; samples all are.
func present(ring headCounter, last, head uint64) uint64 {
	grains, ok := ring.(*mxl.DiscreteReader)
	if !ok {
		return head - last
	}
	n := uint64(0)
	for index := max(last+1, head+1-min(head+1, grains.Depth())); index <= head; index++ {
		h := grains.Header(grains.SlotOf(index))
		// A grain overwritten meanwhile was there.
		if h.Index > index || h.Index == index && !h.Invalid() && h.ValidSlices > 0 {
			n++
		}
	}
	return n
}

// openFlow opens a flow of either kind for reading.
func openFlow(path string, flow uuid.UUID) (headCounter, string, error) {
	domain, err := mxl.OpenDomain(path)
	if err != nil {
		return nil, "", err
	}
	info, err := domain.FlowInfo(flow)
	if err != nil {
		return nil, "", err
	}
	if info.Format.Continuous() {
		ring, err := domain.OpenContinuousReader(flow)
		if err != nil {
			return nil, "", err
		}
		return ring, info.Format.String(), nil
	}
	ring, err := domain.OpenDiscreteReader(flow)
	if err != nil {
		return nil, "", err
	}
	return ring, info.Format.String(), nil
}
