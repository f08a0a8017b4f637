package agent

import (
	"fmt"
	"sync"
)

// portPool hands out the listen ports of destination targets
// (FABRIC_PORT_BASE, FABRIC_PORT_COUNT). It goes round, so that a port which a
// peer may still be writing to is not used again at once.
type portPool struct {
	base, count int

	mu   sync.Mutex
	next int
	used map[int]bool
}

func newPortPool(base, count int) *portPool {
	return &portPool{base: base, count: count, used: map[int]bool{}}
}

// take returns a port nobody here uses; the error says that there is none.
func (p *portPool) take() (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for range p.count {
		port := p.base + p.next
		p.next = (p.next + 1) % p.count
		if !p.used[port] {
			p.used[port] = true
			return port, nil
		}
	}
	return 0, fmt.Errorf("all %d fabric ports from %d are in use: raise FABRIC_PORT_COUNT", p.count, p.base)
}

func (p *portPool) give(port int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.used, port)
}
