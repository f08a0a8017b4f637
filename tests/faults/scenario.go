package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/mxl-stack/mxl-fabrics-agent/tests/mesh"
	"github.com/mxl-stack/mxl-fabrics-agent/tests/plant"
	"github.com/mxl-stack/mxl-fabrics-agent/tests/studio"
	"github.com/mxl-stack/mxl-fabrics-agent/tests/witness"
)

const (
	// patience is how long a path may take to carry grains again before the run
	// counts as not recovered.
	patience = 30 * time.Second
	// settle is from the recovery to the time from which nothing may be lost on
	// the touched paths either.
	settle = time.Second
	// after is how long that is looked at.
	after = time.Second
)

// scenario is one fault.
type scenario struct {
	name     string
	about    string
	limit    time.Duration // of the recovery; 0: shown, not judged
	switched bool          // hosts at a switch instead of a mesh of cables
	// run does the fault and ends its cause. It calls touch before it breaks
	// anything and over when it ends the cause.
	run func(ctx context.Context, r *run) error
	// check, when set, looks after the recovery at what else must be so.
	check func(ctx context.Context, r *run) error
}

// run is one repetition of a scenario. a is the host that is hit, b and c are the
// others, in random order.
type run struct {
	*studio.Studio
	a, b, c *plant.Host
	random  *rand.Rand
	result  *result

	marks    map[*studio.Path]witness.Seen
	touched  map[*studio.Path]bool
	ended    map[*plant.Host]bool // agents that the fault ends
	pids     map[*plant.Host]int
	began    time.Time // the cause is over
	awaited  []awaited
	recovery func(ctx context.Context) error // beside grains: what else ends the recovery
	cleanups []func(ctx context.Context) error
}

// awaited is a path that has to carry something new.
type awaited struct {
	path *studio.Path
	news <-chan time.Time
}

func newRun(s *studio.Studio, random *rand.Rand, into *result) *run {
	r := &run{Studio: s, random: random, result: into, marks: map[*studio.Path]witness.Seen{}, touched: map[*studio.Path]bool{},
		ended: map[*plant.Host]bool{}, pids: map[*plant.Host]int{}}
	order := random.Perm(len(s.Hosts))
	r.a, r.b, r.c = s.Hosts[order[0]], s.Hosts[order[1]], s.Hosts[order[2]]
	for _, h := range s.Hosts {
		r.pids[h] = h.PID()
	}
	for _, p := range s.Paths() {
		r.marks[p] = p.Mark()
	}
	return r
}

// touch names the paths that the fault may disturb.
func (r *run) touch(which func(*studio.Path) bool) {
	for _, p := range r.Paths() {
		if which(p) {
			r.touched[p] = true
		}
	}
}

// over begins the recovery: the next thing the scenario does ends the cause. The
// paths are those that have to carry something new then.
func (r *run) over(which func(*studio.Path) bool) {
	r.overWith(which, func(p *studio.Path) <-chan time.Time { return p.News() })
}

// overWith is over with what is to be waited for on each path.
func (r *run) overWith(which func(*studio.Path) bool, news func(*studio.Path) <-chan time.Time) {
	for _, p := range r.Paths() {
		if which(p) {
			r.awaited = append(r.awaited, awaited{p, news(p)})
		}
	}
	r.began = time.Now()
}

// upTo lets a random time pass: faults come at any moment.
func (r *run) upTo(ctx context.Context, longest time.Duration) error {
	return mesh.Pause(ctx, time.Duration(r.random.Int64N(int64(longest))))
}

// clean leaves something to do at the end of the run, however it ends; the last
// one comes first.
func (r *run) clean(f func(ctx context.Context) error) { r.cleanups = append(r.cleanups, f) }

// note adds what an operator should read in the table, once.
func (r *run) note(format string, args ...any) {
	r.result.Notes = append(r.result.Notes, fmt.Sprintf(format, args...))
}

// Filters of paths.
func from(h *plant.Host) func(*studio.Path) bool {
	return func(p *studio.Path) bool { return p.From == h }
}
func to(h *plant.Host) func(*studio.Path) bool {
	return func(p *studio.Path) bool { return p.To == h }
}
func at(h *plant.Host) func(*studio.Path) bool {
	return func(p *studio.Path) bool { return p.From == h || p.To == h }
}
func between(a, b *plant.Host) func(*studio.Path) bool {
	return func(p *studio.Path) bool { return p.From == a && p.To == b || p.From == b && p.To == a }
}
func of(f *studio.Flow) func(*studio.Path) bool {
	return func(p *studio.Path) bool { return p.Flow == f }
}
func only(path *studio.Path) func(*studio.Path) bool {
	return func(p *studio.Path) bool { return p == path }
}

// A run that failed is no evidence when the machine gave the test no time, and the
// agents none either: when a witness went without a look for stoodStill, or when
// somebody waited for a processor for more than crowded of the time. It is thrown away
// and repeated, mostRepeats times at most, and the table says so.
const (
	stoodStill  = 300 * time.Millisecond
	crowded     = 0.8
	mostRepeats = 3
)

// once runs a scenario once and adds what came of it to its result.
func (sc *scenario) once(ctx context.Context, s *studio.Studio, random *rand.Rand, into *result) {
	for try := 0; ; try++ {
		one := &result{Scenario: sc.name, Limit: sc.limit}
		waited, began := studio.Pressure(), time.Now()
		still := sc.try(ctx, s, random, one)
		share := float64(studio.Pressure()-waited) / float64(time.Since(began))
		one.judge()
		if len(one.Failures) == 0 || still < stoodStill && share < crowded || try == mostRepeats || ctx.Err() != nil {
			into.add(one)
			return
		}
		into.Repeated++
		into.StoodStill = max(into.StoodStill, still)
		into.Crowded = max(into.Crowded, share)
	}
}

// try runs a scenario once and tells for how long a witness got no time.
func (sc *scenario) try(ctx context.Context, s *studio.Studio, random *rand.Rand, into *result) (still time.Duration) {
	into.Runs++
	if err := errors.Join(s.Repair(ctx), s.Steady(ctx, patience)); err != nil {
		into.fail("before the fault: %v", err)
		return 0
	}
	r := newRun(s, random, into)
	defer r.end(ctx)
	err := sc.run(ctx, r)
	if err == nil {
		err = r.recover(ctx)
	}
	if err == nil && sc.check != nil {
		err = sc.check(ctx, r)
	}
	if err != nil {
		into.fail("%v", err)
	}
	r.judge(ctx)
	for _, p := range s.Paths() {
		still = max(still, p.Seen().LongestSleep)
	}
	return still
}

// recover waits until everything awaited came and notes how long it took.
func (r *run) recover(ctx context.Context) error {
	if r.began.IsZero() {
		return nil
	}
	limit := time.NewTimer(patience)
	defer limit.Stop()
	last := r.began
	for _, w := range r.awaited {
		select {
		case at := <-w.news:
			if at.After(last) {
				last = at
			}
		case <-limit.C:
			row, err := w.path.To.Replication(ctx, w.path.Flow.ID)
			return fmt.Errorf("%s carries nothing %v after the fault: %s, last error %q (%v), witness %+v", w.path.Name, patience, row.State, row.LastError, err, w.path.Seen())
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if r.recovery != nil {
		if err := r.recovery(ctx); err != nil {
			return err
		}
		last = time.Now()
	}
	r.result.Recovery = append(r.result.Recovery, last.Sub(r.began))
	return nil
}

// judge looks at what every witness saw.
func (r *run) judge(ctx context.Context) {
	if mesh.Pause(ctx, settle) != nil {
		return
	}
	settled := map[*studio.Path]witness.Seen{}
	for _, p := range r.Paths() {
		settled[p] = p.Seen()
	}
	if mesh.Pause(ctx, after) != nil {
		return
	}
	untouched := 0
	for _, p := range r.Paths() {
		mark, before := r.marks[p]
		if !before { // a guest that the scenario brought
			mark = witness.Seen{}
		}
		seen, late := p.Since(mark), p.Since(settled[p])
		r.result.Verified += seen.Verified
		r.result.Bad += seen.Bad
		r.result.LeftOut += seen.LeftOut
		if seen.Bad > 0 {
			r.result.fail("%s", seen.FirstBad)
		}
		if r.touched[p] {
			r.result.Missed += seen.Lost - late.Lost
			r.result.LostAfter += late.Lost
			if late.Lost > 0 {
				r.result.fail("%s lost %d more than %v after the recovery", p.Name, late.Lost, settle)
			}
			continue
		}
		untouched++
		r.result.LostUntouched += seen.Lost
		r.result.LongestPause = max(r.result.LongestPause, seen.LongestPause)
		switch {
		case seen.Lost > 0:
			r.result.fail("%s, which the fault does not touch, lost %d", p.Name, seen.Lost)
		case seen.Verified == 0:
			r.result.fail("%s, which the fault does not touch, carried nothing", p.Name)
		case seen.Replaced > 0 || seen.WentBack > 0:
			r.result.fail("%s, which the fault does not touch, became another file %d times, its head fell %d times", p.Name, seen.Replaced, seen.WentBack)
		}
	}
	r.result.Untouched = max(r.result.Untouched, untouched)
	for _, h := range r.Hosts {
		if !r.ended[h] && (h.PID() != r.pids[h] || !h.Running()) {
			r.result.fail("the agent of %s ended, see %s", h.HostID, h.Log)
		}
	}
}

// end undoes what is left of the scenario.
func (r *run) end(ctx context.Context) {
	for i := len(r.cleanups) - 1; i >= 0; i-- {
		if err := r.cleanups[i](ctx); err != nil {
			r.result.fail("at the end: %v", err)
		}
	}
}

// guest brings a flow of its own into the studio for the time of the run: its
// paths are touched.
func (r *run) guest(ctx context.Context, from *plant.Host, e studio.Essence, to ...*plant.Host) (*studio.Flow, []*studio.Path, error) {
	f, err := r.Add(from, guestDomain(r.random), e)
	if err != nil {
		return nil, nil, err
	}
	r.clean(func(context.Context) error {
		f.Writer.Stop(5 * time.Second)
		return removeDomain(f, r.Hosts)
	})
	var paths []*studio.Path
	for _, h := range to {
		p, err := r.Send(ctx, f, h)
		if err != nil {
			return nil, nil, err
		}
		r.clean(func(ctx context.Context) error { return r.Unsend(ctx, p) })
		r.touched[p] = true
		paths = append(paths, p)
	}
	return f, paths, nil
}

// arrives waits until paths carry something new.
func arrives(ctx context.Context, paths ...*studio.Path) error {
	for _, p := range paths {
		select {
		case <-p.News():
		case <-time.After(patience):
			row, err := p.To.Replication(ctx, p.Flow.ID)
			return fmt.Errorf("nothing arrives on %s within %v: %s, last error %q (%v)", p.Name, patience, row.State, row.LastError, err)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// ends waits for the end of a process.
func ends(p *mesh.Process, limit time.Duration) error {
	select {
	case <-p.Done():
		return nil
	case <-time.After(limit):
		return fmt.Errorf("%s has not ended within %v", p.Name, limit)
	}
}
