package nmos

import (
	"container/heap"
	"time"
)

const (
	// readsPerHost bounds the /active reads at one host and port, so that a node
	// that hangs does not hold the slots of all others.
	readsPerHost = 4
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
	asked    bool // IS-04 said something changed; not answered yet
	again    bool // asked while running
	index    int  // in the heap; -1: not in it
}

// readPlan says which receiver is read next: when IS-04 said that something
// changed, else every interval. It is a plan, not a doer, and has one owner.
type readPlan struct {
	interval time.Duration
	parallel int

	reads   map[string]*read
	queue   readQueue
	running int
	failing int                // receivers whose last read failed
	busy    map[string]int     // by host:port
	waiting map[string][]*read // due, but their host is busy
}

func newReadPlan(interval time.Duration, parallel int) *readPlan {
	return &readPlan{
		interval: interval, parallel: parallel,
		reads: map[string]*read{}, busy: map[string]int{}, waiting: map[string][]*read{},
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
}

// ask wants a read now.
func (p *readPlan) ask(id string, now time.Time) {
	r := p.reads[id]
	switch {
	case r == nil:
	case r.running:
		r.again = true
	case r.index >= 0:
		r.asked = true
		if now.Before(r.due) {
			r.due = now
			heap.Fix(&p.queue, r.index)
		}
	default: // waits for its host
		r.asked = true
	}
}

// next takes the next read that may start, or nil. hostOf names the host that
// would be asked.
func (p *readPlan) next(now time.Time, hostOf func(*read) string) (*read, string) {
	for p.running < p.parallel && len(p.queue) > 0 && !now.Before(p.queue[0].due) {
		r := heap.Pop(&p.queue).(*read)
		host := hostOf(r)
		if p.busy[host] >= readsPerHost {
			p.waiting[host] = append(p.waiting[host], r)
			continue
		}
		p.running++
		p.busy[host]++
		r.running, r.started = true, now
		return r, host
	}
	return nil, ""
}

// wake is when next may have something (zero: not before a read ends).
func (p *readPlan) wake() time.Time {
	if len(p.queue) == 0 || p.running >= p.parallel {
		return time.Time{}
	}
	return p.queue[0].due
}

// done ends a read at a host and plans the receiver's next one.
func (p *readPlan) done(r *read, host string, ok, changed bool, spread time.Duration, now time.Time) {
	p.running--
	if p.busy[host]--; p.busy[host] <= 0 {
		delete(p.busy, host)
	}
	for list := p.waiting[host]; len(list) > 0; list = p.waiting[host] {
		w := list[0]
		if p.waiting[host] = list[1:]; len(list) == 1 {
			delete(p.waiting, host)
		}
		if p.reads[w.id] == w {
			heap.Push(&p.queue, w) // its due time has passed
			break
		}
	}
	r.running = false
	if p.reads[r.id] != r {
		return // removed meanwhile
	}
	first := !r.known && ok
	switch {
	case ok:
		if r.failures > 0 {
			p.failing--
		}
		r.failures = 0
		r.due = r.started.Add(p.interval)
		if r.asked && !changed {
			r.due = r.started.Add(min(p.interval, secondLook))
		} else if first {
			r.due = r.due.Add(spread) // receivers found together do not stay in step
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
