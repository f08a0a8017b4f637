package httpapi

import (
	"net"
	"net/netip"
	"sync"
)

const (
	// maxConnections bounds the connections of the server: each is a descriptor and
	// two goroutines, and the lanes need descriptors too.
	maxConnections = 4096
	// maxFromOne bounds those of one address, so that one that opens them without end
	// leaves room for everybody else.
	maxFromOne = 512
)

// crowd is a listener that closes at once what is beyond its limits. Nothing waits
// for room: a queue of connections would be as good to whoever fills it.
type crowd struct {
	net.Listener
	total, each int

	mu   sync.Mutex // guards what follows
	have int
	from map[netip.Addr]int
}

func newCrowd(l net.Listener, total, each int) *crowd {
	return &crowd{Listener: l, total: total, each: each, from: make(map[netip.Addr]int)}
}

// Accept implements net.Listener.
func (c *crowd) Accept() (net.Conn, error) {
	for {
		conn, err := c.Listener.Accept()
		if err != nil {
			return nil, err
		}
		addr := addrOf(conn.RemoteAddr().String())
		if c.enter(addr) {
			return &member{Conn: conn, leave: func() { c.leave(addr) }}, nil
		}
		_ = conn.Close()
	}
}

func (c *crowd) enter(addr netip.Addr) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.have >= c.total || c.from[addr] >= c.each {
		return false
	}
	c.have++
	c.from[addr]++
	return true
}

func (c *crowd) leave(addr netip.Addr) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.have--
	if c.from[addr]--; c.from[addr] == 0 {
		delete(c.from, addr)
	}
}

// addrOf is the address of address and port, an IPv4 one in either notation the same;
// the zero Addr when it is none.
func addrOf(remote string) netip.Addr {
	if a, err := netip.ParseAddrPort(remote); err == nil {
		return a.Addr().Unmap()
	}
	return netip.Addr{}
}

// member is a connection that is counted until it is closed.
type member struct {
	net.Conn
	once  sync.Once
	leave func()
}

// Close implements net.Conn.
func (m *member) Close() error {
	err := m.Conn.Close()
	m.once.Do(m.leave)
	return err
}
