package fabrics

import "sync/atomic"

// commands hands work to a lane: pushed from any goroutine, taken by the lane's
// thread at each pass. Neither side waits for the other.
type commands struct{ top atomic.Pointer[command] }

type command struct {
	run  func()
	next *command
}

func (c *commands) push(run func()) {
	n := &command{run: run}
	for {
		n.next = c.top.Load()
		if c.top.CompareAndSwap(n.next, n) {
			return
		}
	}
}

// waiting tells whether there is something to run.
func (c *commands) waiting() bool { return c.top.Load() != nil }

// run does what was pushed, in order.
func (c *commands) run() {
	if c.top.Load() == nil {
		return
	}
	var ordered *command
	for n := c.top.Swap(nil); n != nil; {
		next := n.next
		n.next = ordered
		ordered, n = n, next
	}
	for ; ordered != nil; ordered = ordered.next {
		ordered.run()
	}
}
