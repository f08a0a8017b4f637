package nmos

import "context"

// subscriptions is the owner's view of the three subscribers of one Query API.
type subscriptions struct {
	base       string
	generation int // messages of an earlier set are not applied
	stop       context.CancelFunc
	open       [kinds]bool
	lostLogged bool // that they are not all open is in the log already
}

type subscriptionMessage struct {
	generation int
	message
}

type subscriptionState struct {
	generation int
	kind       kind
	open       bool
	err        error // why it closed, or what was wrong with a message
}

// subscribe replaces the subscribers by a set for another Query API.
func (o *Observer) subscribe(ctx context.Context, base string) {
	if o.subs.stop != nil {
		o.subs.stop()
	}
	ctx, stop := context.WithCancel(ctx)
	o.subs = subscriptions{base: base, generation: o.subs.generation + 1, stop: stop}
	o.subscribed.Store(false)
	generation := o.subs.generation
	for k := range kinds {
		state := func(open bool, err error) {
			o.send(ctx, event{state: &subscriptionState{generation, k, open, err}})
		}
		s := &subscriber{
			http: o.cfg.Client, base: base, kind: k,
			opened: func() { state(true, nil) },
			closed: func(err error) { state(false, err) },
			bad:    func(err error) { state(true, err) },
			got: func(m message) {
				o.send(ctx, event{message: &subscriptionMessage{generation, m}})
			},
		}
		o.work.Go(func() { s.run(ctx) })
	}
}

// applySubscription notes an opened or closed socket. A pass follows when all
// are open, to find what they do not mention, and when one closed, to find out
// whether the registry is gone.
func (o *Observer) applySubscription(s subscriptionState) {
	if s.generation != o.subs.generation {
		return
	}
	if s.open && s.err != nil {
		o.note([]note{{s.kind, "", s.err.Error()}})
		return
	}
	was := o.subs.allOpen()
	wasOpen := o.subs.open[s.kind]
	o.subs.open[s.kind] = s.open
	all := o.subs.allOpen()
	o.subscribed.Store(all)
	switch {
	case all && !was:
		o.subs.lostLogged = false
		o.cfg.Log.Info("nmos_subscribed", "url", o.subs.base)
	case !s.open && !o.subs.lostLogged:
		o.subs.lostLogged = true
		o.cfg.Log.Warn("nmos_subscription_lost", "url", o.subs.base, "topic", s.kind.path(), "error", s.err)
	}
	if all != was {
		o.dirty = true
	}
	if (all && !was) || (wasOpen && !s.open) {
		o.askPass()
	}
}

func (s *subscriptions) allOpen() bool {
	for _, open := range s.open {
		if !open {
			return false
		}
	}
	return true
}
