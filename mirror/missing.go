package mirror

import "time"

// MissingFacts is what the cleanup of one mirror flow depends on (contract,
// "Single mirror flows").
type MissingFacts struct {
	SourceUp bool // the domain's source peer is up; one that is unsettled for over 60 s counts as down
	Offered  bool // an up peer offers the flow
	Settled  bool // the source peer and every up peer that lists the domain are settled

	IdleGrace time.Duration // MIRROR_IDLE_GRACE_S; 0: never
}

// MissingClock runs while the origin of a mirror flow is missing. The zero
// value has not started. It is a value: Step gives the next one.
type MissingClock struct {
	Running bool
	Elapsed time.Duration // time it ran, without its pauses
	last    time.Time
	paused  bool
}

// MissingVerdict is the decision for one mirror flow.
type MissingVerdict struct {
	Missing bool          // the origin is missing
	Pending bool          // it may be; the inventories are not settled
	Started bool          // the grace time starts with this step
	Gone    time.Duration // how long it has been missing
	Due     bool          // the flow is to be removed
	Guard   Guard         // what still holds it back
}

// Go says whether the flow is to be removed now.
func (v MissingVerdict) Go() bool { return v.Due && v.Guard == NoGuard }

// Step moves the clock to now. It starts again when the flow is offered or its
// source is down, and pauses while the deciding inventories are not settled.
func (c MissingClock) Step(f MissingFacts, around Surroundings, readers ReaderFacts, now time.Time) (MissingClock, MissingVerdict) {
	if f.Offered || !f.SourceUp {
		return MissingClock{}, MissingVerdict{}
	}
	if !f.Settled {
		c.last, c.paused = now, true
		return c, MissingVerdict{Pending: true, Gone: c.Elapsed}
	}
	v := MissingVerdict{Missing: true}
	switch {
	case !c.Running:
		c = MissingClock{Running: true}
		v.Started = true
	case !c.paused:
		c.Elapsed += max(0, now.Sub(c.last))
	}
	c.last, c.paused = now, false
	v.Gone = c.Elapsed
	if f.IdleGrace == 0 || c.Elapsed < f.IdleGrace {
		return c, v
	}
	v.Due = true
	v.Guard = around.holds(true)
	if v.Guard == NoGuard {
		v.Guard = readers.holds(mustBeFree)
	}
	if v.Guard == NoGuard && around.DryRun {
		v.Guard = DryRun
	}
	return c, v
}
