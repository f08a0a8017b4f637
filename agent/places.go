package agent

import (
	"slices"
	"sync"
)

// setupsAtOnce bounds how many mirror flows, or targets, are made at the same
// time: making one allocates a whole ring, and fifty at once starve the host.
const setupsAtOnce = 4

// places bounds how many deeds run at once and shares them between the peers for
// whom they are done. No peer ever holds all of them, so that one whose deeds do not
// end leaves room for the others; of those that wait, the peer that holds the fewest
// is next, then the one that has waited for its turn longest; the deeds of one peer
// begin in the order in which they were asked for.
type places struct {
	most, each int // at once, and for one peer

	mu    sync.Mutex
	taken int
	held  map[string]int      // by peer
	queue map[string][]*place // by peer, in the order asked for
	turns []string            // peers with a queue, in the order of their turns
}

// place is one deed that waits for its turn or runs.
type place struct {
	of   *places
	peer string
	// ready is closed when the deed may begin.
	ready chan struct{}
}

func newPlaces(most int) *places {
	return &places{most: most, each: max(1, most-1), held: map[string]int{}, queue: map[string][]*place{}}
}

// ask queues a deed for a peer (empty: for this host itself). Whoever asks calls
// leave in the end, whether or not the place became ready.
func (p *places) ask(peer string) *place {
	p.mu.Lock()
	defer p.mu.Unlock()
	pl := &place{of: p, peer: peer, ready: make(chan struct{})}
	if len(p.queue[peer]) == 0 {
		p.turns = append(p.turns, peer)
	}
	p.queue[peer] = append(p.queue[peer], pl)
	p.grant()
	return pl
}

// leave gives the place back, or ends the wait for it. Once only.
func (pl *place) leave() {
	p := pl.of
	p.mu.Lock()
	defer p.mu.Unlock()
	if at := slices.Index(p.queue[pl.peer], pl); at >= 0 {
		p.unqueue(pl.peer, at)
		return
	}
	p.taken--
	if p.held[pl.peer]--; p.held[pl.peer] == 0 {
		delete(p.held, pl.peer)
	}
	p.grant()
}

// grant gives out what is free. p.mu is held.
func (p *places) grant() {
	for p.taken < p.most {
		next := -1
		for i, peer := range p.turns {
			if p.held[peer] < p.each && (next < 0 || p.held[peer] < p.held[p.turns[next]]) {
				next = i
			}
		}
		if next < 0 {
			return
		}
		peer := p.turns[next]
		pl := p.queue[peer][0]
		p.taken++
		p.held[peer]++
		p.unqueue(peer, 0)
		if len(p.queue[peer]) > 0 {
			p.turns = append(slices.Delete(p.turns, next, next+1), peer)
		}
		close(pl.ready)
	}
}

// unqueue takes one deed out of a peer's queue. p.mu is held.
func (p *places) unqueue(peer string, at int) {
	p.queue[peer] = slices.Delete(p.queue[peer], at, at+1)
	if len(p.queue[peer]) == 0 {
		delete(p.queue, peer)
		p.turns = slices.DeleteFunc(p.turns, func(other string) bool { return other == peer })
	}
}
