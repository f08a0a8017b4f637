package agent

// shown is the pull as the API and the metrics show it. That its link is down
// shows at once: the pull itself may still be closing its target or waiting for
// the source, which takes as long as it takes to give up what was on the wire.
func (p *pull) shown() *destinationView {
	v, w := p.seen.Load(), p.wish.Load()
	if w.LinkUp || !w.Wanted || v.State == stateLinkDown {
		return v
	}
	down := *v
	down.State, down.Error = stateLinkDown, w.LinkReason
	return &down
}
