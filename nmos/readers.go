package nmos

import (
	"context"
	"math/rand/v2"
	"time"
)

// startReads starts the /active reads that are due.
func (o *Observer) startReads(ctx context.Context, now time.Time) {
	for {
		r, host := o.plan.next(now, func(r *read) string {
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
			o.send(ctx, event{active: &activeEvent{r, host, res}})
		})
	}
}

// applyActive takes a result over. A failed read keeps what was known, marked.
func (o *Observer) applyActive(a activeEvent, now time.Time) {
	r, res := a.read, a.result
	ok := res.err == nil
	changed := ok && (!r.known || r.facts != res.facts)
	spread := rand.N(o.cfg.PollInterval/2 + 1)
	o.plan.done(r, a.host, ok, changed, spread, now)
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
		o.dirty = o.dirty || changed || r.stale
		r.known, r.stale, r.facts = true, false, res.facts
		if r.last.url != res.url {
			r.host = hostOf(res.url)
		}
		r.last = lastAnswer{url: res.url, body: res.body, facts: res.facts}
		if r.warned {
			r.warned = false
			o.cfg.Log.Info("nmos_active_available", "receiver_id", r.id, "url", res.url)
		}
		return
	}
	if r.known && !r.stale {
		r.stale, o.dirty = true, true
	}
	if !r.warned {
		r.warned = true
		o.cfg.Log.Warn("nmos_active_unavailable", "receiver_id", r.id, "url", res.url, "status", statusOf(res.err), "error", res.err)
	}
}
