package httpapi

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"sync"
)

// The names of the events (agent API reference §10).
const (
	EventInventory   = "inventory"   // data: the revision as a bare number
	EventReplication = "replication" // data: the answer to a POST
	EventPeer        = "peer"        // data: a peer as in GET /peers
	EventMirror      = "mirror"      // data: event = stale, recovered or rebuilt, ids, health
)

const (
	// queueLength is how many events a client may be behind. What replaces
	// an event of the same subject takes no new place.
	queueLength = 256
	// maxClients bounds the streams served at once.
	maxClients = 256
	// maxClientsOfOne bounds those of one address, so that one that opens them without
	// end leaves as many to everybody else.
	maxClientsOfOne = maxClients / 2
)

// Why there is no stream for a client.
var (
	errClosed  = errors.New("the agent ends")
	errCrowded = fmt.Errorf("all %d event streams are taken", maxClients)
	errShare   = fmt.Errorf("this address has %d event streams, the most that one may have; end some of them", maxClientsOfOne)
)

// frame is one event ready to be sent.
type frame struct {
	subject string // name and subject: a later one replaces an earlier one; "" never
	text    []byte
}

// Hub hands events to the clients of GET /api/v1/events. Publishing never
// waits for a client: one that reads too slowly loses its connection, and
// reads the state anew when it comes back.
type Hub struct {
	log *slog.Logger

	mu      sync.Mutex
	clients map[*client]bool
	from    map[netip.Addr]int
	// last are the newest events that describe a state, for new clients.
	last   map[string]frame
	closed bool
}

// NewHub makes a Hub. It has no goroutine of its own.
func NewHub(log *slog.Logger) *Hub {
	return &Hub{log: log, clients: make(map[*client]bool), from: make(map[netip.Addr]int), last: make(map[string]frame)}
}

// Publish sends an event to every client. subject names what the event is
// about: while an event of the same name and subject still waits for a
// client, the new one takes its place. An empty subject is never replaced.
func (h *Hub) Publish(name, subject string, data any) {
	body, err := json.Marshal(data)
	if err != nil {
		h.log.Error("event_not_encoded", "name", name, "error", err)
		return
	}
	f := frame{text: fmt.Appendf(nil, "event: %s\ndata: %s\n\n", name, body)}
	if subject != "" {
		f.subject = name + "/" + subject
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return
	}
	if name == EventInventory && f.subject != "" {
		h.last[name] = f
	}
	for c := range h.clients {
		if !c.push(f) {
			h.drop(c)
		}
	}
}

// Clients is the number of open streams.
func (h *Hub) Clients() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.clients)
}

// Close ends every stream and refuses new ones.
func (h *Hub) Close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.closed = true
	for c := range h.clients {
		h.drop(c)
	}
}

func (h *Hub) join(addr netip.Addr) (*client, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case h.closed:
		return nil, errClosed
	case h.from[addr] >= maxClientsOfOne:
		return nil, errShare
	case len(h.clients) >= maxClients:
		return nil, errCrowded
	}
	c := &client{addr: addr, ready: make(chan struct{}, 1), gone: make(chan struct{})}
	for _, f := range h.last {
		c.push(f)
	}
	h.clients[c] = true
	h.from[addr]++
	return c, nil
}

func (h *Hub) leave(c *client) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.drop(c)
}

// drop is called with the lock held, any number of times.
func (h *Hub) drop(c *client) {
	if h.clients[c] {
		delete(h.clients, c)
		if h.from[c.addr]--; h.from[c.addr] == 0 {
			delete(h.from, c.addr)
		}
		close(c.gone)
	}
}

// client is one stream's queue.
type client struct {
	addr  netip.Addr
	ready chan struct{} // capacity 1
	gone  chan struct{} // closed when the hub let go of it

	mu    sync.Mutex
	queue []frame
}

// push reports false when the client is too far behind.
func (c *client) push(f frame) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if f.subject != "" {
		for i := range c.queue {
			if c.queue[i].subject == f.subject {
				c.queue[i] = f
				return true
			}
		}
	}
	if len(c.queue) >= queueLength {
		return false
	}
	c.queue = append(c.queue, f)
	select {
	case c.ready <- struct{}{}:
	default:
	}
	return true
}

// pop takes everything that waits, as one text.
func (c *client) pop() (text []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, f := range c.queue {
		text = append(text, f.text...)
	}
	c.queue = c.queue[:0]
	return text
}
