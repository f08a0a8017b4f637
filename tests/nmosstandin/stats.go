package nmosstandin

import (
	"maps"
	"net/http"
	"sync"
	"time"
)

// Stats is what was asked of the stand-in since it started (or since
// [StandIn.ResetStats]).
type Stats struct {
	// Requests counts by "<server> <method> <path>", without the stand-in's
	// own nodes.
	Requests map[string]int `json:"requests"`
	// Nodes tells how each foreign node kept its registration, by node id.
	Nodes map[string]NodeStats `json:"nodes"`
	// Sockets counts WebSocket connects; SocketsOpen is how many are open now.
	Sockets     int `json:"sockets"`
	SocketsOpen int `json:"sockets_open"`
}

// NodeStats is the registration behaviour of one node. Times are Unix
// milliseconds, intervals milliseconds; an interval is counted from the last
// accepted POST or heartbeat of the node to its next heartbeat.
type NodeStats struct {
	Registrations     int   `json:"registrations"`
	Heartbeats        int   `json:"heartbeats"`
	HeartbeatsRefused int   `json:"heartbeats_refused"`
	IntervalMinMS     int64 `json:"interval_min_ms"`
	IntervalMaxMS     int64 `json:"interval_max_ms"`
	LastRegisteredMS  int64 `json:"last_registered_ms"`
	LastHeartbeatMS   int64 `json:"last_heartbeat_ms"`
	// HeartbeatFaults counts heartbeats with a body, a Content-Type or without
	// Content-Length: 0 (NMOS reference §4.1).
	HeartbeatFaults int `json:"heartbeat_faults"`
}

type ledger struct {
	mu       sync.Mutex
	requests map[string]int
	nodes    map[string]*nodeLedger
	sockets  int
	open     int
}

type nodeLedger struct {
	NodeStats
	last time.Time
}

func newLedger() *ledger {
	return &ledger{requests: map[string]int{}, nodes: map[string]*nodeLedger{}}
}

func (l *ledger) request(server string, r *http.Request) {
	if r.UserAgent() == ownAgent {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.requests[server+" "+r.Method+" "+r.URL.Path]++
}

// node runs record on the entry of a node that is not the stand-in's own.
func (l *ledger) node(r *http.Request, id string, record func(*nodeLedger)) {
	if r.UserAgent() == ownAgent {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	entry := l.nodes[id]
	if entry == nil {
		entry = &nodeLedger{}
		l.nodes[id] = entry
	}
	record(entry)
}

func (l *ledger) registered(r *http.Request, id string, now time.Time) {
	l.node(r, id, func(n *nodeLedger) {
		n.Registrations++
		n.LastRegisteredMS = now.UnixMilli()
		n.last = now
	})
}

func (l *ledger) heartbeat(r *http.Request, id string, accepted bool, now time.Time) {
	l.node(r, id, func(n *nodeLedger) {
		if r.ContentLength != 0 || r.Header.Get("Content-Type") != "" {
			n.HeartbeatFaults++
		}
		if !accepted {
			n.HeartbeatsRefused++
			n.last = time.Time{}
			return
		}
		if !n.last.IsZero() {
			interval := now.Sub(n.last).Milliseconds()
			if n.IntervalMinMS == 0 || interval < n.IntervalMinMS {
				n.IntervalMinMS = interval
			}
			n.IntervalMaxMS = max(n.IntervalMaxMS, interval)
		}
		n.Heartbeats++
		n.LastHeartbeatMS = now.UnixMilli()
		n.last = now
	})
}

func (l *ledger) socket(step int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open += step
	if step > 0 {
		l.sockets++
	}
}

func (l *ledger) snapshot() Stats {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := Stats{Requests: maps.Clone(l.requests), Nodes: map[string]NodeStats{}, Sockets: l.sockets, SocketsOpen: l.open}
	for id, n := range l.nodes {
		s.Nodes[id] = n.NodeStats
	}
	return s
}

func (l *ledger) reset() {
	l.mu.Lock()
	defer l.mu.Unlock()
	clear(l.requests)
	clear(l.nodes)
	l.sockets = 0
}
