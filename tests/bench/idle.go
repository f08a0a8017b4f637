package main

import (
	"context"
	"fmt"
	"time"

	"github.com/mxl-stack/mxl-fabrics-agent/mxl"

	"github.com/mxl-stack/mxl-fabrics-agent/tests/mesh"
)

// idleOutcome is what connected lanes cost while their origins are not written.
type idleOutcome struct {
	lanes          int // pairs
	elapsed        time.Duration
	source, target laneReport
}

// perLane is the percentage of a core that one lane of the busier end takes, the
// rest of its process included.
func (o idleOutcome) perLane() float64 {
	return 100 * max(o.source.cpu(), o.target.cpu()).Seconds() / o.elapsed.Seconds() / float64(o.lanes)
}

func (o idleOutcome) percent(r laneReport) float64 {
	return 100 * r.cpu().Seconds() / o.elapsed.Seconds() / float64(o.lanes)
}

// sleeps is how often a lane went to sleep in a second.
func (o idleOutcome) sleeps(r laneReport) float64 {
	return float64(r.Switches) / o.elapsed.Seconds() / float64(o.lanes)
}

func (o idleOutcome) String() string {
	return fmt.Sprintf("%.3f %% of a core a source lane (%.0f sleeps/s), %.3f %% a target lane (%.0f sleeps/s)",
		o.percent(o.source), o.sleeps(o.source), o.percent(o.target), o.sleeps(o.target))
}

// idle connects lanes on small flows that were written once, lets them come to rest
// and measures. Their writers hold the flows, so the lanes keep their origins.
func (s laneSite) idle(ctx context.Context, m media, lanes int, span time.Duration) (o idleOutcome, err error) {
	pair, err := s.open(ctx, m, lanes, true)
	if err != nil {
		return o, err
	}
	defer pair.kill()
	if err := pair.awaitConnections(ctx); err != nil {
		return o, err
	}
	for _, w := range pair.writers {
		switch w := w.(type) {
		case *mxl.DiscreteWriter:
			g := grains{origin: w}
			_, err = g.commit(grainRate.IndexAt(mxl.Now()))
		case *mxl.ContinuousWriter:
			g := samples{origin: w}
			_, err = g.commit(sampleRate.IndexAt(mxl.Now()))
		}
		if err != nil {
			return o, err
		}
	}
	// Lanes count an origin as silent after 2 s.
	if err := mesh.Pause(ctx, 3*time.Second); err != nil {
		return o, err
	}
	source, target, err := pair.report()
	if err != nil {
		return o, err
	}
	began := time.Now()
	if err := mesh.Pause(ctx, span); err != nil {
		return o, err
	}
	sourceEnd, targetEnd, err := pair.report()
	if err != nil {
		return o, err
	}
	if sourceEnd.Connected != lanes || targetEnd.Connected != lanes {
		return o, fmt.Errorf("%d and %d of %d lanes are still connected: %s %s", sourceEnd.Connected,
			targetEnd.Connected, lanes, sourceEnd.LastError, targetEnd.LastError)
	}
	o = idleOutcome{lanes, time.Since(began), sourceEnd.since(source), targetEnd.since(target)}
	return o, pair.end()
}
