package nmos

import (
	"context"
	"math/rand/v2"
	"time"
)

// startReads starts the /active reads that are due.
func (o *Observer) startReads(ctx context.Context, now time.Time) {
	for {
		r := o.plan.next(now, func(r *read) string {
			if r.last.url != "" {
				return r.host
			}
			if c := o.controls(r.id); len(c) > 0 {
				return hostOf(c[0].href)
			}
			return ""
		})
		if r == nil {
			return
		}
		controls, last := o.controls(r.id), r.last
		o.work.Go(func() {
			res := readActive(ctx, o.cfg.Client, r.id, last, controls)
			o.send(ctx, event{active: &activeEvent{r, res}})
		})
	}
}

// applyActive takes a result over. A failed read keeps what was known, marked.
func (o *Observer) applyActive(a activeEvent, now time.Time) {
	r, res := a.read, a.result
	ok := res.err == nil
	changed := ok && (!r.known || r.facts != res.facts)
	spread := rand.N(o.cfg.PollInterval/2 + 1)
	turned := o.plan.done(r, outcome{ok: ok, answered: res.answered, changed: changed, spread: spread}, now)
	if turned != nil {
		o.hostTurned(turned, res, now)
	}
	if !ok {
		o.activeErrors.Add(1)
	}
	if o.plan.reads[r.id] != r {
		return
	}
	if ok {
		for _, reason := range res.reasons {
			o.note([]note{{kindReceiver, r.id, reason}})
		}
		if changed || r.stale {
			o.tell(r.id)
		}
		r.known, r.stale, r.facts = true, false, res.facts
		if r.last.url != res.url {
			r.host = hostOf(res.url)
		}
		r.last = lastAnswer{url: res.url, body: res.body, facts: res.facts}
		if r.warned {
			r.warned = false
			if o.available.admit(now) {
				o.cfg.Log.Info("nmos_active_available", "receiver_id", r.id, "url", res.url)
			}
		}
		return
	}
	o.outdate(r)
	// Of a host that does not answer the first receiver is named; the others follow in
	// one line when it has not answered any of them.
	if !r.warned && r.at.unanswered <= 1 {
		r.warned = true
		if o.unavailable.admit(now) {
			o.cfg.Log.Warn("nmos_active_unavailable", "receiver_id", r.id, "url", res.url, "status", statusOf(res.err), "error", res.err)
		}
	}
}

// hostTurned follows a host that has fallen silent, or answers again. What is known of
// its receivers is out of date before each of them has been asked in vain.
func (o *Observer) hostTurned(h *readHost, res activeResult, now time.Time) {
	if !h.silent() {
		if h.told && o.answering.admit(now) {
			o.cfg.Log.Info("nmos_node_answers", "host", h.name, "receivers", h.receivers)
		}
		h.told = false
		return
	}
	for _, r := range o.plan.reads {
		if r.at == h {
			o.outdate(r)
		}
	}
	if h.told = h.receivers > 1; h.told && o.silent.admit(now) {
		o.cfg.Log.Warn("nmos_node_silent", "host", h.name, "receivers", h.receivers, "error", res.err)
	}
}

// tell has a receiver told anew.
func (o *Observer) tell(id string) {
	o.dirty, o.rows[id] = true, true
}

// outdate marks that what is known of a receiver could not be read again.
func (o *Observer) outdate(r *read) {
	if !r.known || r.stale {
		return
	}
	r.stale = true
	o.tell(r.id)
	if e := o.view.entries[kindReceiver][r.id]; e != nil && e.forgot {
		o.view.look = true
	}
}

// tellCrowds writes how many more receivers and hosts there were of which no line
// told, and gives when to look again.
func (o *Observer) tellCrowds(now time.Time) time.Time {
	if n := o.unavailable.over(now); n > 0 {
		o.cfg.Log.Warn("nmos_active_unavailable", "more_receivers", n)
	}
	if n := o.available.over(now); n > 0 {
		o.cfg.Log.Info("nmos_active_available", "more_receivers", n)
	}
	if n := o.silent.over(now); n > 0 {
		o.cfg.Log.Warn("nmos_node_silent", "more_hosts", n)
	}
	if n := o.answering.over(now); n > 0 {
		o.cfg.Log.Info("nmos_node_answers", "more_hosts", n)
	}
	return earlier(earlier(o.unavailable.ends(), o.available.ends()), earlier(o.silent.ends(), o.answering.ends()))
}

func earlier(a, b time.Time) time.Time {
	if a.IsZero() || (!b.IsZero() && b.Before(a)) {
		return b
	}
	return a
}

const (
	// crowdLines is how many lines about as many receivers there are in crowdSpan;
	// the others of a facility that went are one line with their number.
	crowdLines = 20
	crowdSpan  = 10 * time.Second
)

// crowd bounds the lines about one kind of change.
type crowd struct {
	began time.Time
	lines int
	more  int // changes without a line
}

// admit says whether a change is worth its own line.
func (c *crowd) admit(now time.Time) bool {
	if c.more == 0 && now.Sub(c.began) >= crowdSpan {
		c.began, c.lines = now, 0
	}
	if c.lines++; c.lines <= crowdLines {
		return true
	}
	c.more++
	return false
}

// over gives the number of changes without a line once the span is over.
func (c *crowd) over(now time.Time) int {
	if c.more == 0 || now.Sub(c.began) < crowdSpan {
		return 0
	}
	n := c.more
	*c = crowd{}
	return n
}

// ends is when over may have something, zero when it has nothing.
func (c *crowd) ends() time.Time {
	if c.more == 0 {
		return time.Time{}
	}
	return c.began.Add(crowdSpan)
}
