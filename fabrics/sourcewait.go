package fabrics

import (
	"time"

	"github.com/mxl-stack/mxl-fabrics-agent/fabrics/ofi"
)

const (
	// longWait is the longest sleep on a silent origin, shortWait on a lively one.
	longWait  = 100 * time.Millisecond
	idleWait  = 200 * time.Millisecond // nobody is connected
	shortWait = 20 * time.Millisecond
	// silentAfter is when an origin counts as silent.
	silentAfter = 2 * time.Second
	// stuckAfter is when a connection with something in flight no longer decides
	// what the lane waits on.
	stuckAfter = 100 * time.Millisecond
	// glance is how often a queue is looked at while the lane waits elsewhere.
	glance = 2 * time.Millisecond
)

// sourceWait is what a source lane sleeps on: its queues for poll, while it looks at
// the origin's futex word every glance, or that word for sync.
type sourceWait struct {
	poll, sync time.Duration
	glance     time.Duration // 0: the origin does not matter
	headEvery  time.Duration // of sync: how often the head is looked at besides; 0: never
	hold       bool          // a completion may wait for the time of the next post
	busy       bool          // there is something in flight, so a late pass is a stall
}

// word is the part of the wait that is about the origin.
func (w sourceWait) word(o *origin) ofi.Word {
	if w.sync == 0 && w.glance == 0 {
		return ofi.Word{}
	}
	return o.word(w.glance, w.headEvery)
}

// sourceFacts is what the decision depends on.
type sourceFacts struct {
	moving     bool  // something is in flight and completes
	stuck      bool  // something is in flight and does not
	hungry     bool  // a connection could take more
	closing    bool  // a connection is being drained
	connecting bool  // a handshake runs
	silent     bool  // the origin has not moved for silentAfter
	samples    bool  // continuous flow
	alone      bool  // nothing but the one transfer in flight can be dealt with
	nextPost   int64 // continuous: when the next batch may be posted
	nextEvent  int64 // next deadline of anything; 0 for none
	pass       time.Duration
}

// planWait decides it. tcp moves data only while its queues are read, so a lane
// with something in flight waits on them.
func planWait(f sourceFacts, now int64) sourceWait {
	untilEvent := idleWait
	if f.nextEvent > 0 {
		untilEvent = min(untilEvent, max(0, time.Duration(f.nextEvent-now)))
	}
	untilPost := max(0, time.Duration(f.nextPost-now))
	switch {
	case f.closing:
		return sourceWait{poll: min(untilEvent, glance), busy: f.moving}
	case f.moving && f.hungry && f.samples:
		return sourceWait{poll: max(min(untilPost, untilEvent), glance/4), busy: true}
	case f.moving && f.hungry:
		return sourceWait{poll: untilEvent, glance: glance / 2, busy: true}
	case f.moving:
		return sourceWait{poll: untilEvent, busy: true, hold: f.samples && f.alone}
	case f.hungry && f.samples && untilPost > 0:
		// Nothing may be posted before that time, whatever the origin does.
		limit := untilPost
		if f.stuck || f.connecting {
			limit = min(limit, glance)
		}
		return sourceWait{poll: min(limit, untilEvent), busy: true}
	case f.hungry:
		w, limit := sourceWait{}, shortWait
		switch {
		case f.silent:
			limit = longWait
		case f.samples:
			w.headEvery = f.pass
		}
		if f.stuck || f.connecting {
			limit = min(limit, glance)
		}
		w.sync = max(min(limit, untilEvent), time.Microsecond)
		return w
	case f.stuck:
		return sourceWait{poll: min(untilEvent, shortWait)}
	}
	return sourceWait{poll: untilEvent}
}

// plan collects the facts.
func (l *sourceLane) plan(now int64) sourceWait {
	o := &l.origin
	f := sourceFacts{samples: !l.shape.discrete, pass: l.cfg.AudioPass, nextEvent: o.nextLook()}
	f.alone = len(l.destinations) == 1 && l.destinations[0].phase == phaseUp && l.destinations[0].window == 1
	open := o.state == originOpen
	f.silent = now-o.moved > int64(silentAfter)
	if l.closing {
		f.nextEvent = earlier(f.nextEvent, l.closeBy)
	}
	for _, d := range l.destinations {
		switch d.phase {
		case phaseIdle:
			f.nextEvent = earlier(f.nextEvent, d.retryAt)
			continue
		case phaseConnecting:
			f.connecting = true
			f.nextEvent = earlier(f.nextEvent, d.deadline)
			continue
		case phaseDraining:
			f.closing = true
		}
		if d.flying > 0 {
			f.nextEvent = earlier(f.nextEvent, d.progressed+int64(progressLimit))
			if now-d.progressed < int64(stuckAfter) {
				f.moving = true
			} else {
				f.stuck = true
			}
		}
		if open && d.phase == phaseUp && d.flying < d.window {
			if !f.hungry || d.nextPost < f.nextPost {
				f.nextPost = d.nextPost
			}
			f.hungry = true
		}
	}
	return planWait(f, now)
}

// earlier is the earlier of two times, 0 being never.
func earlier(a, b int64) int64 {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}
