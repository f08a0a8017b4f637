package nmos

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// Ten thousand receivers whose Connection API is gone are asked a hundred times a
// second together, a few as before.
func TestFailingReceiversShareARate(t *testing.T) {
	for _, c := range []struct {
		receivers int
		pause     time.Duration // after the last of several failures
	}{{1, 5 * time.Second}, {400, 5 * time.Second}, {10_000, 100 * time.Second}} {
		p, now := newReadPlan(time.Second, 64), time.Unix(1000, 0)
		for i := range c.receivers {
			p.add(fmt.Sprint(i), now)
		}
		attempts := 0
		fail := func(until time.Time) (last *read) {
			for {
				r := p.next(now, func(r *read) string { return r.id })
				switch {
				case r != nil:
					attempts++
					p.done(r, outcome{}, now)
					last = r
				case p.wake().After(until):
					return last
				default:
					now = p.wake()
				}
			}
		}
		fail(now.Add(5 * time.Minute)) // everything has failed often by now
		attempts = 0
		last := fail(now.Add(5 * time.Minute))
		if p.failing != c.receivers || last.due.Sub(last.started) != c.pause {
			t.Errorf("%d receivers: %d failing, a pause of %v, want %v", c.receivers, p.failing, last.due.Sub(last.started), c.pause)
		}
		if limit := 300 * 110; attempts > limit {
			t.Errorf("%d receivers: %d attempts in 5 minutes, want %d at most", c.receivers, attempts, limit)
		}
		// One that answers again is read as before, and counts no more.
		now = p.wake()
		r := p.next(now, func(r *read) string { return r.id })
		if r == nil {
			t.Fatal("nothing to read")
		}
		p.done(r, outcome{ok: true, answered: true, changed: true}, now)
		if p.failing != c.receivers-1 {
			t.Errorf("%d receivers: %d failing after one has answered", c.receivers, p.failing)
		}
		for id := range p.reads {
			p.remove(id)
		}
		if p.failing != 0 {
			t.Errorf("%d failing of none", p.failing)
		}
	}
}

func TestCrowdTellsTheFirstAndCountsTheRest(t *testing.T) {
	var c crowd
	now := time.Unix(1000, 0)
	lines := 0
	for range 10_000 {
		if c.admit(now) {
			lines++
		}
	}
	if lines != crowdLines || c.over(now.Add(crowdSpan-1)) != 0 || !c.ends().Equal(now.Add(crowdSpan)) {
		t.Errorf("%d lines, ends %v", lines, c.ends())
	}
	if n := c.over(now.Add(crowdSpan)); n != 10_000-crowdLines {
		t.Errorf("%d more", n)
	}
	if n := c.over(now.Add(2 * crowdSpan)); n != 0 || !c.ends().IsZero() || !c.admit(now.Add(2*crowdSpan)) {
		t.Errorf("%d more afterwards", n)
	}
}

func TestSlowRegistryIsToldOnceUntilItIsQuick(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		s := slowRegistry{o: &Observer{cfg: ObserverConfig{Log: slog.New(slog.NewTextHandler(&log, nil))}}}
		for _, step := range []struct {
			took  time.Duration
			err   error
			lines int // so far
		}{
			{time.Second, nil, 0},
			{passTimeout, errors.New("too slow"), 1},
			{passTimeout, errors.New("too slow"), 1},
			{time.Second, errors.New("refused"), 1},
			{6 * time.Second, nil, 1},
			{time.Second, nil, 1},
			{6 * time.Second, nil, 2},
		} {
			s.watch("http://192.0.2.1:8010", func() pass { time.Sleep(step.took); return pass{err: step.err} })
			synctest.Wait()
			if n := strings.Count(log.String(), "msg=nmos_registry_slow url=http://192.0.2.1:8010"); n != step.lines {
				t.Errorf("%+v: %d lines:\n%s", step, n, log.String())
			}
		}
	})
}
