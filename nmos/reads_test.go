package nmos

import (
	"fmt"
	"testing"
	"time"
)

func TestReadPlanOnceAnInterval(t *testing.T) {
	p := newReadPlan(time.Second, 8)
	now := time.Unix(100, 0)
	for n := range 20 {
		p.add(fmt.Sprint("r", n), now)
		p.add(fmt.Sprint("r", n), now)
	}
	last := map[string]time.Time{}
	counts := map[string]int{}
	for range 10_000 { // 10 s in milliseconds
		for {
			r := p.next(now, func(r *read) string { return r.id })
			if r == nil {
				break
			}
			if gap := now.Sub(last[r.id]); counts[r.id] > 0 && gap < time.Second {
				t.Fatalf("%s read again after %v", r.id, gap)
			}
			last[r.id] = now
			counts[r.id]++
			p.done(r, outcome{ok: true, answered: true, spread: 300 * time.Millisecond}, now)
			r.known = true
		}
		now = now.Add(time.Millisecond)
	}
	for id, n := range counts {
		if n != 10 {
			t.Errorf("%s: %d reads in 10 s", id, n)
		}
	}
}

func TestReadPlanBounds(t *testing.T) {
	p := newReadPlan(time.Second, 10)
	now := time.Unix(100, 0)
	for n := range 30 {
		p.add(fmt.Sprint("r", n), now)
	}
	hang := func(r *read) string {
		if r.id < "r2" { // r0, r1, r10 to r19
			return "hanging"
		}
		return "good" + r.id
	}
	var started []*read
	perHost := map[string]int{}
	for {
		r := p.next(now, hang)
		if r == nil {
			break
		}
		started = append(started, r)
		perHost[r.at.name]++
	}
	// Two of the ten slots are for hosts of which it is known that they answer.
	if len(started) != 8 || perHost["hanging"] > readsPerHost {
		t.Fatalf("%d started, %d at one host", len(started), perHost["hanging"])
	}
	// Whatever ends lets the others go on, until all were read.
	seen := map[string]bool{}
	for len(started) > 0 {
		r := started[0]
		started = started[1:]
		seen[r.id] = true
		p.done(r, outcome{ok: true, answered: true}, now)
		for {
			r := p.next(now, hang)
			if r == nil {
				break
			}
			started = append(started, r)
		}
	}
	if len(seen) != 30 || p.running != 0 {
		t.Errorf("%d read, plan %+v", len(seen), p)
	}
	checkReads(t, p)
}

func TestReadPlanAsk(t *testing.T) {
	host := func(*read) string { return "h" }
	now := time.Unix(100, 0)
	start := func(interval time.Duration) (*readPlan, *read) {
		p := newReadPlan(interval, 8)
		p.add("r", now)
		r := p.next(now, host)
		p.done(r, outcome{ok: true, answered: true, changed: true}, now)
		r.known = true
		return p, r
	}
	// Asked: at once, not at the next interval; and a second look after 1 s when
	// the answer did not change.
	p, r := start(10 * time.Second)
	p.ask("r", now.Add(time.Second))
	if got := p.next(now.Add(time.Second), host); got != r {
		t.Fatal("not read when asked")
	}
	p.done(r, outcome{ok: true, answered: true}, now.Add(time.Second))
	if want := now.Add(2 * time.Second); !p.wake().Equal(want) {
		t.Errorf("second look at %v, want %v", p.wake(), want)
	}
	// Asked while running: read once more, however often asked.
	p, r = start(10 * time.Second)
	p.ask("r", now)
	p.next(now, host)
	p.ask("r", now)
	p.ask("r", now)
	p.done(r, outcome{ok: true, answered: true, changed: true}, now)
	if got := p.next(now, host); got != r {
		t.Error("the change during the read was lost")
	}
	p.done(r, outcome{ok: true, answered: true, changed: true}, now)
	if got := p.next(now, host); got != nil {
		t.Error("read a third time")
	}
	// Removed while running: the result is dropped, the slot is free.
	p, r = start(time.Second)
	p.ask("r", now)
	p.next(now, host)
	p.remove("r")
	p.done(r, outcome{ok: true, answered: true, changed: true}, now)
	if p.running != 0 || len(p.queue) != 0 || len(p.hosts) != 0 || r.at.busy != 0 {
		t.Errorf("plan %+v", p)
	}
	p.ask("unknown", now)
}

func TestReadPlanFailuresBackOff(t *testing.T) {
	p := newReadPlan(time.Second, 8)
	now := time.Unix(100, 0)
	p.add("r", now)
	var gaps []time.Duration
	for range 6 {
		r := p.next(now, func(*read) string { return "h" })
		if r == nil {
			t.Fatal("nothing due")
		}
		p.done(r, outcome{}, now)
		gaps = append(gaps, p.wake().Sub(now))
		now = p.wake()
	}
	want := []time.Duration{2 * time.Second, 4 * time.Second, 5 * time.Second, 5 * time.Second, 5 * time.Second, 5 * time.Second}
	for i := range want {
		if gaps[i] != want[i] {
			t.Fatalf("gaps %v, want %v", gaps, want)
		}
	}
}
