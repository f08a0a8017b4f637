package nmos

import (
	"container/heap"
	"slices"
	"time"
)

const (
	// readsPerHost bounds the /active reads at one host and port, so that a node
	// that hangs does not hold the slots of all others.
	readsPerHost = 4
	// silentAfter is how many reads in a row nothing answered before a host counts as
	// silent: then one of its receivers is asked at a time, with a pause, and the
	// others wait until something answers.
	silentAfter = 4
	// attemptsAtOnce of those reads start without a pause for whose hosts nothing shows
	// that they answer, and one every retryShare after that.
	attemptsAtOnce = 256
)

// readHost is one host and port with the Connection APIs of some receivers.
type readHost struct {
	name       string
	receivers  int // that are read there
	busy       int // reads that run or are about to
	waiting    []*read
	proven     bool // the read that ended last was answered
	unanswered int  // reads that were not, in a row
	told       bool // that it is silent is in the log

	// of a silent host: the read that is to tell whether it is one still, and the
	// time before which there is none
	probe *read
	next  time.Time
	since time.Time // it is silent
	news  bool      // IS-04 said something of it while the probe ran

	attempts []*read // wait for their turn among those of all hosts
	queued   bool
}

func (h *readHost) silent() bool { return h.unanswered >= silentAfter }

// heard takes over whether a read was answered, and says whether the host has proved
// by it that it does.
func (h *readHost) heard(answered bool, now time.Time) bool {
	if h.name == "" { // a device without a control: nobody is asked
		return false
	}
	if !answered {
		h.proven = false
		if h.unanswered++; h.unanswered == silentAfter {
			h.since = now
		}
		return false
	}
	was := h.proven
	h.proven, h.unanswered = true, 0
	return !was
}

// take gives the reads that waited for their turn.
func (h *readHost) take() (list []*read) {
	list, h.attempts = h.attempts, nil
	return list
}

// turnTo notes which host a receiver is read at.
func (p *readPlan) turnTo(r *read, name string) {
	if r.at != nil && r.at.name == name {
		return
	}
	if old := r.at; old != nil {
		p.leave(old)
		if old.probe == r {
			old.probe = nil
			p.advance(old)
		}
	}
	h := p.hosts[name]
	if h == nil {
		h = &readHost{name: name, proven: name == ""}
		p.hosts[name] = h
	}
	h.receivers++
	r.at = h
}

// leave counts a receiver off; a host without any is forgotten.
func (p *readPlan) leave(h *readHost) {
	if h.receivers--; h.receivers == 0 && p.hosts[h.name] == h {
		delete(p.hosts, h.name)
	}
}

// wait puts a read that is due aside until its host has room for it.
func (p *readPlan) wait(h *readHost, r *read) {
	if len(h.waiting) > 64+2*h.receivers { // of receivers that have come and gone
		h.waiting = slices.DeleteFunc(h.waiting, func(w *read) bool { return p.reads[w.id] != w })
	}
	h.waiting = append(h.waiting, r)
}

// advance has those that wait for a host looked at again for which there is room.
func (p *readPlan) advance(h *readHost) {
	room := readsPerHost - h.busy
	if h.silent() {
		room = 0
		if h.probe == nil {
			room = 1
		}
	}
	for room > 0 && len(h.waiting) > 0 {
		r := h.waiting[0]
		h.waiting = h.waiting[1:]
		if p.reads[r.id] != r {
			continue
		}
		if h.silent() {
			h.probe, r.due = r, h.next
		}
		heap.Push(&p.queue, r) // its due time has passed, or is that of the probe
		room--
	}
}

// attempts bounds the reads at hosts that have not proved that they answer. They never
// take the slots of all others, and thousands of dead addresses are not asked at once.
type attempts struct {
	most    int // at the same time
	running int
	free    time.Time   // when as many as attemptsAtOnce may start again
	hosts   []*readHost // with reads that wait, each in its turn
}

// one says whether one more may start now, and counts it.
func (a *attempts) one(now time.Time) bool {
	if a.running >= a.most || now.Before(a.pace()) {
		return false
	}
	if a.free.Before(now) {
		a.free = now
	}
	a.free = a.free.Add(retryShare)
	return true
}

// pace is when the next one may start.
func (a *attempts) pace() time.Time { return a.free.Add(-(attemptsAtOnce - 1) * retryShare) }

// put has a read wait for its turn.
func (a *attempts) put(h *readHost, r *read) {
	h.attempts = append(h.attempts, r)
	if !h.queued {
		h.queued = true
		a.hosts = append(a.hosts, h)
	}
}

// next is the read whose turn it is, if one may start.
func (a *attempts) next(now time.Time) *read {
	for len(a.hosts) > 0 {
		h := a.hosts[0]
		if len(h.attempts) > 0 && !a.one(now) {
			return nil
		}
		a.hosts = a.hosts[1:]
		if len(h.attempts) == 0 {
			h.queued = false
			continue
		}
		r := h.attempts[0]
		if h.attempts = h.attempts[1:]; len(h.attempts) > 0 {
			a.hosts = append(a.hosts, h)
		} else {
			h.queued = false
		}
		return r
	}
	return nil
}

// wake is when next may have something, zero when not before a read ends.
func (a *attempts) wake() time.Time {
	if len(a.hosts) == 0 || a.running >= a.most {
		return time.Time{}
	}
	return a.pace()
}
