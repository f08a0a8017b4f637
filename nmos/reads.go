package nmos

import (
	"container/heap"
	"time"
)

const (
	// retryMax is the longest pause after failed reads (unless the poll interval
	// is longer).
	retryMax = 5 * time.Second
	// retryShare is the pause that each failing receiver adds to that of all, so that
	// those together are asked a hundred times a second at most, however many there
	// are: it counts from 500 on.
	retryShare = 10 * time.Millisecond
	// secondLook is when an unchanged answer is read again after IS-04 said that
	// something changed: the two may overtake each other (NMOS reference §9.4).
	secondLook = time.Second
)

// read is the /active state of one local receiver and its place in the plan.
type read struct {
	id      string
	known   bool
	stale   bool
	facts   activeFacts
	last    lastAnswer
	host    string // of last.url
	warned  bool   // nmos_active_unavailable was logged
	due     time.Time
	started time.Time

	failures int
	running  bool
	asked    bool      // IS-04 said something changed; not answered yet
	again    bool      // asked while running
	index    int       // in the heap; -1: not in it
	at       *readHost // that is asked; nil before the first time
	attempt  bool      // running, and the host has not proved that it answers
}

// readPlan says which receiver is read next: when IS-04 said that something
// changed, else every interval. It is a plan, not a doer, and has one owner.
type readPlan struct {
	interval time.Duration
	parallel int

	reads   map[string]*read
	queue   readQueue
	running int
	failing int // receivers whose last read failed
	hosts   map[string]*readHost
	ready   []*read // may start as soon as there is a slot
	// attempts are the reads at hosts that have not proved that they answer.
	attempts attempts
}

func newReadPlan(interval time.Duration, parallel int) *readPlan {
	return &readPlan{
		interval: interval, parallel: parallel,
		reads: map[string]*read{}, hosts: map[string]*readHost{},
		attempts: attempts{most: parallel - parallel/4},
	}
}

// add takes up a receiver; it is read at once.
func (p *readPlan) add(id string, now time.Time) {
	if p.reads[id] == nil {
		r := &read{id: id, due: now, index: -1}
		p.reads[id] = r
		heap.Push(&p.queue, r)
	}
}

// remove forgets a receiver; a read that runs is let finish and then ignored.
func (p *readPlan) remove(id string) {
	r := p.reads[id]
	delete(p.reads, id)
	if r == nil {
		return
	}
	if r.failures > 0 {
		p.failing--
	}
	if r.index >= 0 {
		heap.Remove(&p.queue, r.index)
	}
	if h := r.at; h != nil {
		p.leave(h)
		if h.probe == r && !r.running {
			h.probe = nil
			p.advance(h)
		}
	}
}

// ask wants a read now.
func (p *readPlan) ask(id string, now time.Time) {
	r := p.reads[id]
	switch {
	case r == nil:
		return
	case r.running:
		r.again = true
	case r.index >= 0 && now.Before(r.due):
		r.asked, r.due = true, now
		heap.Fix(&p.queue, r.index)
	default:
		r.asked = true
	}
	if h := r.at; h != nil && h.silent() { // it may have come back
		h.next = now
		switch probe := h.probe; {
		case probe == nil:
		case probe.running: // and may have begun before that
			h.news = true
		case probe.index >= 0 && now.Before(probe.due):
			probe.due = now
			heap.Fix(&p.queue, probe.index)
		}
	}
}

// next takes the next read that may start, or nil. hostOf names the host that
// would be asked.
func (p *readPlan) next(now time.Time, hostOf func(*read) string) *read {
	for p.running < p.parallel {
		if r := p.allowed(now); r != nil {
			return p.start(r, now)
		}
		if len(p.queue) == 0 || now.Before(p.queue[0].due) {
			return nil
		}
		r := heap.Pop(&p.queue).(*read)
		p.turnTo(r, hostOf(r))
		h := r.at
		switch {
		case h.silent() && h.probe == nil && now.Before(h.next):
			h.probe, r.due = r, h.next
			heap.Push(&p.queue, r)
			continue
		case h.silent() && h.probe == nil:
			h.probe = r
		case h.silent() && h.probe != r, !h.silent() && h.busy >= readsPerHost:
			p.wait(h, r)
			continue
		}
		h.busy++
		if h.proven || p.attempts.one(now) {
			return p.start(r, now)
		}
		p.attempts.put(h, r)
	}
	return nil
}

// allowed is a read that has its place at its host already, and may start now.
func (p *readPlan) allowed(now time.Time) *read {
	for {
		var r *read
		if len(p.ready) > 0 {
			r, p.ready = p.ready[0], p.ready[1:]
		} else if r = p.attempts.next(now); r == nil {
			return nil
		}
		if p.reads[r.id] == r {
			return r
		}
		r.at.busy-- // removed meanwhile
		if r.at.probe == r {
			r.at.probe = nil
		}
		p.advance(r.at)
	}
}

func (p *readPlan) start(r *read, now time.Time) *read {
	p.running++
	r.running, r.started, r.attempt = true, now, !r.at.proven
	if r.attempt {
		p.attempts.running++
	}
	return r
}

// wake is when next may have something (zero: not before a read ends).
func (p *readPlan) wake() time.Time {
	if p.running >= p.parallel {
		return time.Time{}
	}
	at := p.attempts.wake()
	if len(p.queue) > 0 {
		at = earlier(at, p.queue[0].due)
	}
	return at
}

// outcome is how a read ended.
type outcome struct {
	ok       bool
	answered bool // something came back, even if it is of no use
	changed  bool
	spread   time.Duration // of the receivers that are found together
}

// done ends a read and plans the receiver's next one. It gives the host when that has
// fallen silent, or answers again.
func (p *readPlan) done(r *read, o outcome, now time.Time) (turned *readHost) {
	p.running--
	if r.attempt {
		p.attempts.running--
	}
	r.running = false
	h := r.at
	h.busy--
	if h.probe == r {
		h.probe = nil
	}
	was := h.silent()
	if h.heard(o.answered, now) {
		p.ready = append(p.ready, h.take()...)
	}
	switch {
	case !h.silent():
		h.probe, h.news = nil, false
	case h.news && h.probe == nil:
		h.next, h.news = now, false
	default:
		// Not by the number of reads: each word from IS-04 means one.
		h.next = r.started.Add(max(p.interval, min(now.Sub(h.since)/2, retryMax)))
	}
	if p.reads[r.id] == r { // not removed meanwhile
		p.again(r, o, now)
	}
	p.advance(h)
	if was == h.silent() {
		return nil
	}
	return h
}

// again plans a receiver's next read after one has ended.
func (p *readPlan) again(r *read, o outcome, now time.Time) {
	first := !r.known && o.ok
	switch {
	case o.ok:
		if r.failures > 0 {
			p.failing--
		}
		r.failures = 0
		r.due = r.started.Add(p.interval)
		if r.asked && !o.changed {
			r.due = r.started.Add(min(p.interval, secondLook))
		} else if first {
			r.due = r.due.Add(o.spread) // receivers found together do not stay in step
		}
	default:
		if r.failures == 0 {
			p.failing++
		}
		r.failures++
		pause := min(p.interval<<min(r.failures, 6), max(p.interval, retryMax))
		r.due = r.started.Add(max(pause, time.Duration(p.failing)*retryShare))
	}
	r.asked = false
	if r.again {
		r.again, r.asked, r.due = false, true, now
	}
	heap.Push(&p.queue, r)
}

// readQueue is a heap by due time.
type readQueue []*read

func (q readQueue) Len() int           { return len(q) }
func (q readQueue) Less(i, j int) bool { return q[i].due.Before(q[j].due) }
func (q readQueue) Swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].index, q[j].index = i, j
}

// Push implements heap.Interface.
func (q *readQueue) Push(x any) {
	r := x.(*read)
	r.index = len(*q)
	*q = append(*q, r)
}

// Pop implements heap.Interface.
func (q *readQueue) Pop() any {
	old := *q
	r := old[len(old)-1]
	old[len(old)-1] = nil
	*q = old[:len(old)-1]
	r.index = -1
	return r
}
