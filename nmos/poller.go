package nmos

import (
	"context"
	"time"
)

// poll reads the collections until ctx ends, at the Query API that answered last
// or the next one that does.
func (o *Observer) poll(ctx context.Context) {
	client := newQueryClient(o.cfg.Client)
	current, failures := "", 0
	for {
		p := o.pollOnce(ctx, client, current)
		if ctx.Err() != nil {
			return
		}
		wait := o.cfg.PollInterval
		switch {
		case p.err != nil:
			failures++
			wait = max(wait, jitter(min(wait<<min(failures, 6), retryMax)))
		case o.subscribed.Load():
			failures = 0
			wait = max(wait, subscribedPoll)
		default:
			failures = 0
		}
		if p.err == nil {
			current = p.base
		}
		o.send(ctx, event{pass: &p})
		t := time.NewTimer(wait)
		select {
		case <-ctx.Done():
		case <-o.pollNow:
		case <-t.C:
		}
		t.Stop()
	}
}

func (o *Observer) pollOnce(ctx context.Context, client *queryClient, current string) pass {
	urls := o.cfg.Directory.QueryURLs()
	p := pass{err: errNoRegistry}
	for i := range urls { // what answers is kept, even when a better one returned
		if urls[i] == current {
			urls = append([]string{current}, append(append([]string{}, urls[:i]...), urls[i+1:]...)...)
			break
		}
	}
	for _, base := range urls {
		p = client.pass(ctx, base, time.Now())
		if p.err == nil || ctx.Err() != nil {
			return p
		}
		o.cfg.Directory.Failed(base)
	}
	return p
}

func (o *Observer) askPass() {
	select {
	case o.pollNow <- struct{}{}:
	default:
	}
}
