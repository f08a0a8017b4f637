package agent

import "context"

// letGo closes the target for a deed that is about to touch the mirror's files, and
// tells it so.
func (p *pull) letGo(reply chan struct{}) {
	p.dropLane()
	p.publish()
	close(reply)
}

// call does one call to the source. A deed on the mirror's files does not wait for a
// source that does not answer: it gets them at once, and the call about the target that
// has gone is broken off. A release goes on, there is no target any more.
func (p *pull) call(ctx context.Context, f func(context.Context)) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	done := make(chan struct{})
	go func() {
		defer close(done)
		f(ctx)
	}()
	for {
		select {
		case <-done:
			return
		case reply := <-p.halts:
			p.halted = true
			if p.lane != nil {
				cancel()
			}
			p.letGo(reply)
		}
	}
}

// turn waits for the place in which a target may be set up, and gives the wish of that
// moment; nil when there is nothing to set up any more.
func (p *pull) turn(ctx context.Context, place *place, w *pullWish) *pullWish {
	for {
		select {
		case <-place.ready:
			return w
		default:
		}
		select {
		case <-place.ready:
		case <-ctx.Done():
			return nil
		case reply := <-p.halts:
			p.halted = true
			p.letGo(reply)
			return nil
		case <-p.wake:
		}
		p.observe()
		p.publish()
		w = p.wish.Load()
		p.view.RetryReady = p.retry.ready(p.deps.now())
		if nextPullStep(w.pullFacts, p.view, p.deps.now()) != stepSetUp {
			return nil
		}
	}
}
