package peers

import (
	"cmp"
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"
)

// Control is what the table asks of a peer; *Client is it.
type Control interface {
	Info(ctx context.Context, controlURL string) (Info, error)
	Inventory(ctx context.Context, controlURL string) (*Inventory, error)
	// Follow hands every event of the peer's stream to receive until the
	// stream ends; it returns why.
	Follow(ctx context.Context, controlURL string, receive func(Event)) error
}

// Config is what a Table needs.
type Config struct {
	HostID string // our own; never a peer
	BootID string // our own: tells a peer's URL that leads back here
	// FabricInterface is the local address of peers whose static entry has
	// none.
	FabricInterface string
	Static          []Static
	Interval        time.Duration // between polls of one peer
	Client          Control
	Links           *LinkWatch // nil: every link counts as up
	// Polled, when set, hears how long each poll of a peer took; it is called
	// from the peer's goroutine and must not block.
	Polled func(hostID string, took time.Duration, err error)
	Log    *slog.Logger
}

// Table polls the other agents, each on its own goroutine, and keeps what
// they said. Facts leave it as values.
type Table struct {
	cfg     Config
	changed chan struct{}
	members chan struct{} // wakes Run after the list of peers changed

	mu         sync.Mutex // guards what follows
	interval   time.Duration
	static     []Static
	discovered []Discovered
	entries    map[string]*entry
	// past remembers peers that left the list, so that an agent that comes
	// back as another process is seen as restarted.
	past map[string]Peer
}

// maxPast bounds the memory of peers that left.
const maxPast = 1024

// entry is one peer that is polled. Its goroutines write to it only while it
// is the table's entry for its host.
type entry struct {
	hostID   string
	peer     Peer
	sooner   chan struct{} // capacity 1: poll before the interval is over
	stop     context.CancelFunc
	problems map[Problem]bool // already named in the log
	held     int              // size of the peer's inventory, in bytes
}

// NewTable makes a Table; Run makes it poll.
func NewTable(cfg Config) *Table {
	return &Table{
		cfg: cfg, interval: cfg.Interval, static: slices.Clone(cfg.Static),
		changed: make(chan struct{}, 1), members: make(chan struct{}, 1),
		entries: make(map[string]*entry), past: make(map[string]Peer),
	}
}

// Changed receives a value after something in the table changed other than
// the heads of flows and the times of polls. Its capacity is 1; whoever reads it
// takes a new Snapshot.
func (t *Table) Changed() <-chan struct{} { return t.changed }

// Snapshot is every peer, in order of the host ids.
func (t *Table) Snapshot() []Peer {
	t.mu.Lock()
	defer t.mu.Unlock()
	out := make([]Peer, 0, len(t.entries))
	for _, e := range t.entries {
		out = append(out, e.peer)
	}
	slices.SortFunc(out, func(a, b Peer) int { return cmp.Compare(a.HostID, b.HostID) })
	return out
}

// Peer finds one peer by its host id.
func (t *Table) Peer(hostID string) (Peer, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if e, ok := t.entries[hostID]; ok {
		return e.peer, true
	}
	return Peer{}, false
}

// SetStatic replaces the entries of PEERS.
func (t *Table) SetStatic(list []Static) {
	t.mu.Lock()
	t.static = slices.Clone(list)
	t.mu.Unlock()
	wake(t.members)
}

// SetDiscovered replaces the agents found through NMOS.
func (t *Table) SetDiscovered(list []Discovered) {
	t.mu.Lock()
	same := slices.Equal(t.discovered, list)
	t.discovered = slices.Clone(list)
	t.mu.Unlock()
	if !same {
		wake(t.members)
	}
}

// SetInterval changes the poll interval of every peer.
func (t *Table) SetInterval(d time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.interval == d {
		return
	}
	t.interval = d
	for _, e := range t.entries {
		wake(e.sooner)
	}
}

// Poke polls one peer soon instead of at the end of its interval.
func (t *Table) Poke(hostID string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if e, ok := t.entries[hostID]; ok {
		wake(e.sooner)
	}
}

// Run polls until ctx is done and every goroutine of it has ended.
func (t *Table) Run(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	var linksChanged <-chan struct{}
	if t.cfg.Links != nil {
		linksChanged = t.cfg.Links.Subscribe()
	}
	for {
		t.enrol(ctx, &running)
		t.judgeLinks()
		select {
		case <-ctx.Done():
			return
		case <-t.members:
		case <-linksChanged:
		}
	}
}

// enrol brings the entries in line with the static and discovered lists.
func (t *Table) enrol(ctx context.Context, running *sync.WaitGroup) {
	t.mu.Lock()
	defer t.mu.Unlock()
	wanted := listed(t.cfg.HostID, t.static, t.discovered)
	for id, e := range t.entries {
		// A peer with another control URL starts over, its stream included.
		if w, ok := wanted[id]; ok && w.ControlURL == e.peer.ControlURL {
			continue
		}
		e.stop()
		delete(t.entries, id)
		if len(t.past) < maxPast {
			t.past[id] = e.peer
		}
		wake(t.changed)
	}
	for id, w := range wanted {
		e, ok := t.entries[id]
		if !ok {
			peerCtx, stop := context.WithCancel(ctx)
			e = &entry{hostID: id, sooner: make(chan struct{}, 1), stop: stop, problems: make(map[Problem]bool)}
			e.peer = remembered(t.past[id], id, time.Now())
			delete(t.past, id)
			e.held = e.peer.Inventory.size()
			t.entries[id] = e
			e.peer.ControlURL = w.ControlURL
			running.Go(func() { t.poll(peerCtx, e, w.ControlURL) })
			running.Go(func() { t.follow(peerCtx, e, w.ControlURL) })
			wake(t.changed)
		}
		if e.peer.Provider != w.Provider || e.peer.LocalFabricAddr != w.LocalFabricAddr || e.peer.RemoteFabricAddr != w.RemoteFabricAddr {
			wake(t.changed)
		}
		e.peer.Provider = w.Provider
		e.peer.LocalFabricAddr, e.peer.RemoteFabricAddr = w.LocalFabricAddr, w.RemoteFabricAddr
	}
}

// remembered starts an entry with what identifies the peer's last process, and
// with the link as it was last judged: a link that is still down is no news when
// the registry tells the peer's control URL.
func remembered(past Peer, hostID string, now time.Time) Peer {
	link := Link{Up: true}
	if past.HostID != "" {
		link = past.Link
	}
	return Peer{HostID: hostID, BootID: past.BootID, Incarnation: past.Incarnation,
		Inventory: past.Inventory, ReceivedAt: past.ReceivedAt, UnsettledSince: now, Link: link}
}

// listed merges the two sources of peers. Static values win; a control URL
// only where the entry has one. Our own host is no peer.
func listed(self string, static []Static, discovered []Discovered) map[string]Static {
	wanted := make(map[string]Static)
	for _, d := range fewest(discovered) {
		if d.HostID != "" && d.HostID != self {
			if _, twice := wanted[d.HostID]; !twice {
				wanted[d.HostID] = Static{HostID: d.HostID, ControlURL: d.ControlURL}
			}
		}
	}
	for _, s := range static {
		if s.HostID == "" || s.HostID == self {
			continue
		}
		if s.ControlURL == "" {
			s.ControlURL = wanted[s.HostID].ControlURL
		}
		wanted[s.HostID] = s
	}
	return wanted
}

func (t *Table) judgeLinks() {
	if t.cfg.Links == nil {
		return
	}
	interfaces := t.cfg.Links.Interfaces()
	t.mu.Lock()
	defer t.mu.Unlock()
	var used []string
	defer func() { t.cfg.Links.Use(used...) }()
	for id, e := range t.entries {
		link := LinkOf(cmp.Or(e.peer.LocalFabricAddr, t.cfg.FabricInterface), interfaces)
		if link.Interface != "" {
			used = append(used, link.Interface)
		}
		if link == e.peer.Link {
			continue
		}
		was := e.peer.Link
		e.peer.Link = link
		wake(t.changed)
		switch {
		case !link.Up && (was.Up || was.Error != link.Error):
			t.cfg.Log.Warn("peer_link_down", "peer", id, "interface", link.Interface, "reason", link.Error)
		case link.Up && !was.Up:
			t.cfg.Log.Info("peer_link_up", "peer", id, "interface", link.Interface)
		}
	}
}

// wake leaves one value in a channel of capacity 1.
func wake(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
