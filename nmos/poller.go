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
	slow := slowRegistry{o: o}
	for {
		p := o.pollOnce(ctx, client, current, &slow)
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

// slowPass is how long a registry may take for its collections without a line about
// it. Until it has answered nothing of it counts, and one that pages without an end
// is given up only after passTimeout.
const slowPass = 5 * time.Second

// slowRegistry tells of a registry that keeps the poller waiting, once until it is
// quick again.
type slowRegistry struct {
	o    *Observer
	told bool
}

// watch runs a pass.
func (s *slowRegistry) watch(base string, read func() pass) pass {
	late := make(chan struct{})
	timer := time.AfterFunc(slowPass, func() {
		defer close(late)
		if !s.told {
			s.o.cfg.Log.Warn("nmos_registry_slow", "url", base, "seconds", int(slowPass/time.Second))
		}
	})
	p := read()
	if timer.Stop() {
		s.told = s.told && p.err != nil
		return p
	}
	<-late
	s.told = true
	return p
}

func (o *Observer) pollOnce(ctx context.Context, client *queryClient, current string, slow *slowRegistry) pass {
	urls := o.cfg.Directory.QueryURLs()
	p := pass{err: errNoRegistry}
	for i := range urls { // what answers is kept, even when a better one returned
		if urls[i] == current {
			urls = append([]string{current}, append(append([]string{}, urls[:i]...), urls[i+1:]...)...)
			break
		}
	}
	for _, base := range urls {
		p = slow.watch(base, func() pass { return client.pass(ctx, base, time.Now()) })
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
