package mirror

import (
	"cmp"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/mxl-stack/mxl-fabrics-agent/mxl"
	"github.com/mxl-stack/mxl-fabrics-agent/peers"
)

// world is a host with a real room on a real tmpfs, and everything around it
// made up: peers, registry, receivers, readers and the clock. Its pass does what
// the agent's reconcile loop does with a room and a ledger.
type world struct {
	t     testing.TB
	root  string
	proc  procTree
	check *ReaderCheck
	room  *Room
	books *Ledger
	set   Settings

	now, started    time.Time
	nmos, registry  bool
	peers           map[string]*worldPeer
	local           map[string]bool
	demand          map[Key]bool
	free            uint64
	report          *ReaderReport
	polled, checked time.Time

	out     Outcome
	facts   Facts
	events  []Event
	removed []worldRemoval
	refused int
	blocked int // tries that an obstacle stopped
}

// worldPeer is another host: what it has, and what the last poll saw of it.
type worldPeer struct {
	up, link, scanned bool
	boot              string
	flows             map[Key]*worldFlow
	domains           map[string]bool // listed also when empty
	seen              map[Key]worldFlow
	lists             map[string]map[uuid.UUID]bool
	known             peers.Peer
	at                time.Time
}

// worldFlow is an origin.
type worldFlow struct {
	Origin
	active, live bool
	head         uint64
}

// worldRemoval is a removal with what was known when it happened.
type worldRemoval struct {
	Removal
	at time.Time
}

const worldEpoch = 1_700_000_000

func newWorld(t testing.TB) *world {
	w := &world{
		t: t, root: shmRoot(t), proc: fakeProc(t, nil), books: NewLedger(), now: time.Unix(worldEpoch, 0),
		registry: true, peers: map[string]*worldPeer{}, local: map[string]bool{}, demand: map[Key]bool{}, free: 1 << 40,
		set: Settings{
			Eager: true, Grace: 10 * time.Second, IdleGrace: 300 * time.Second,
			ReleaseGrace: 2 * time.Second, StaleAfter: 2 * time.Second, ReserveMB: 512,
		},
	}
	w.start()
	return w
}

// start is the start of the agent: a new process.
func (w *world) start() {
	w.t.Helper()
	w.check = NewReaderCheck(ReaderCheckConfig{Proc: w.proc.path, Self: fakeSelf, Now: func() time.Time { return w.now }})
	room, err := Open(Config{
		Root: w.root, HostID: testHost, Readers: w.check, ReserveMB: w.set.ReserveMB,
		FreeSpace: func() (uint64, error) { return w.free, nil }, Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { _ = room.letGo() })
	w.room, w.books, w.started = room, NewLedger(), w.now
	w.report, w.polled, w.checked = nil, time.Time{}, time.Time{}
	for _, p := range w.peers {
		p.known = peers.Peer{UnsettledSince: w.now}
	}
	if _, err := room.Adopt(); err != nil {
		w.t.Fatal(err)
	}
}

// crash ends the process without a word.
func (w *world) crash() {
	w.t.Helper()
	if err := w.room.letGo(); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) peer(host string) *worldPeer {
	p := w.peers[host]
	if p == nil {
		p = &worldPeer{up: true, link: true, scanned: true, boot: host + "-1", known: peers.Peer{UnsettledSince: w.now}, flows: map[Key]*worldFlow{}, domains: map[string]bool{}}
		w.peers[host] = p
	}
	return p
}

// offer puts a live origin on a peer.
func (p *worldPeer) offer(o Origin) *worldFlow {
	f := &worldFlow{Origin: o, active: true, live: true}
	p.flows[o.Key] = f
	p.domains[o.DomainID] = true
	return f
}

// answer is what a poll of the peer ends with.
func (p *worldPeer) answer() error {
	if !p.up {
		return errors.New("connect")
	}
	return nil
}

// inventory is what a poll brings, as far as the settled rule looks at it.
func (p *worldPeer) inventory() *peers.Inventory {
	inv := &peers.Inventory{}
	if p.scanned {
		inv.Revision = 1
	}
	return inv
}

func (w *world) tai() uint64 { return uint64(w.now.UnixNano()) + 37_000_000_000 }

// poll takes the inventories of all peers.
func (w *world) poll() {
	for _, p := range w.peers {
		p.known = p.known.Polled(peers.Info{BootID: p.boot}, p.inventory(), p.answer(), w.now)
		p.at = w.now
		p.seen, p.lists = map[Key]worldFlow{}, nil
		if !p.up {
			continue
		}
		p.lists = map[string]map[uuid.UUID]bool{}
		for id := range p.domains {
			p.lists[id] = map[uuid.UUID]bool{}
		}
		for k, f := range p.flows {
			if f.active && f.live {
				f.head = mxl.Rational{Numerator: 50, Denominator: 1}.IndexAt(w.tai())
			}
			p.seen[k] = *f
			p.lists[k.DomainID][k.FlowID] = true
		}
	}
	w.polled = w.now
}

// offers gives what the peers offer, live before active before the rest, then
// by host id.
func (w *world) offers() (map[Key]Offer, map[Key]Origin) {
	offers, origins := map[Key]Offer{}, map[Key]Origin{}
	for _, host := range slices.Sorted(maps.Keys(w.peers)) {
		p := w.peers[host]
		for k, f := range p.seen {
			offer := Offer{Key: k, Host: host, Active: f.active, Live: f.live, Head: &f.head, PolledAt: p.at}
			if old, found := offers[k]; found && rank(old) >= rank(offer) {
				continue
			}
			offer.NeedBytes, _ = f.NeedBytes()
			offers[k], origins[k] = offer, f.Origin
			origins[k] = Origin{Key: k, SourceHost: host, FlowDef: f.FlowDef}
		}
	}
	return offers, origins
}

func rank(o Offer) int {
	switch {
	case o.Live:
		return 2
	case o.Active:
		return 1
	}
	return 0
}

// pass is one reconcile pass.
func (w *world) pass() {
	w.t.Helper()
	if w.polled.IsZero() || w.now.Sub(w.polled) >= 2*time.Second {
		w.poll()
	}
	if w.checked.IsZero() || w.now.Sub(w.checked) >= ReaderCheckEvery {
		w.report, w.checked = w.check.scan(w.t.Context(), w.room.Watched(), true), w.now
	}
	onDisk, err := w.room.Survey()
	if err != nil {
		w.t.Fatal(err)
	}
	offers, origins := w.offers()
	known := map[string]PeerFacts{}
	for host, p := range w.peers {
		_, down := p.known.Decides(w.now)
		known[host] = PeerFacts{Up: p.known.Up, LinkUp: p.link, Settled: p.known.Settled, CountsAsDown: down, Lists: p.lists}
	}
	w.facts = Facts{
		Now: w.now, TAI: w.tai(), Started: w.started, Settings: w.set, NMOS: w.nmos, RegistryAnswers: w.registry,
		LocalDomains: w.local, Peers: known, Offers: slices.Collect(maps.Values(offers)), Demand: w.demand, OnDisk: onDisk,
		Readers: w.report, FreeBytes: w.free,
	}
	w.out = w.books.Pass(w.facts)
	w.events = append(w.events, w.out.Events...)
	w.deeds(origins)
}

// deeds does what a pass decided.
func (w *world) deeds(origins map[Key]Origin) {
	w.t.Helper()
	for _, d := range w.out.Domains {
		if d.Go() {
			w.removeDomain(d.DomainID, d.Reason)
		}
		if d.Source != "" {
			if _, err := w.room.NameSource(d.DomainID, d.Source); err != nil {
				w.t.Errorf("name %s the source of %s: %v", d.Source, d.DomainID, err)
			}
		}
	}
	for _, s := range w.out.Flows {
		switch s.Do {
		case Remove:
			w.books.Removed(s.Key, s.Reason)
			done, err := w.room.RemoveFlow(w.t.Context(), s.Key, s.Reason)
			w.removal(done, err, s.Key, s.Key)
		case Ensure:
			w.ensure(origins[s.Key], s.Pull)
		}
	}
}

func (w *world) removeDomain(id string, reason Reason) error {
	var keys []Key
	for _, d := range w.facts.OnDisk {
		for _, f := range d.Flows {
			if d.DomainID == id {
				keys = append(keys, f.Key)
				w.books.Removed(f.Key, reason.ForFlow())
			}
		}
	}
	done, err := w.room.RemoveDomain(w.t.Context(), id, reason)
	w.removal(done, err, Key{DomainID: id}, keys...)
	return err
}

func (w *world) removal(done Removal, err error, of Key, keys ...Key) {
	w.t.Helper()
	switch {
	case err == nil:
		w.removed = append(w.removed, worldRemoval{done, w.now})
		return
	case errors.Is(err, ErrBusy):
		w.refused++
		w.books.Blocked(of, err)
	case errors.Is(err, ErrObstacle):
		w.blocked++
		w.books.Blocked(of, err)
	case errors.Is(err, ErrNotMirror):
	default:
		w.t.Errorf("removal of %v: %v", keys, err)
	}
	for _, k := range keys {
		w.books.NotRemoved(k)
	}
}

// ensure makes the mirror, and moves a grain when it is pulled.
func (w *world) ensure(o Origin, pull bool) {
	w.t.Helper()
	f, _, err := w.room.EnsureFlow(o)
	var differs *DiffersError
	if errors.As(err, &differs) {
		w.books.Removed(o.Key, differs.Reason())
		var done Rebuilt
		done, err = w.room.ReplaceFlow(w.t.Context(), o)
		f = done.Flow
	}
	switch {
	case errors.Is(err, ErrObstacle):
		w.books.NotRemoved(o.Key)
		return
	case errors.Is(err, ErrNoSpace), errors.Is(err, ErrForeign):
		w.books.Made(o.Key, err)
		return
	case err != nil:
		w.t.Errorf("ensure %s: %v", o.Key, err)
		return
	}
	for _, p := range w.peers {
		origin := p.flows[o.Key]
		if pull && p.up && p.link && origin != nil && origin.active && origin.live && f.Discrete != nil {
			index := mxl.Rational{Numerator: 50, Denominator: 1}.IndexAt(w.tai())
			if index > f.Head() {
				writeGrain(w.t, f, index)
			}
			return
		}
	}
}

// run lets time pass, a pass every 200 ms.
func (w *world) run(d time.Duration) {
	w.t.Helper()
	for end := w.now.Add(d); w.now.Before(end); {
		w.now = w.now.Add(200 * time.Millisecond)
		w.pass()
	}
}

// step gives what the last pass decided about a flow.
func (w *world) step(k Key) FlowStep {
	i, found := slices.BinarySearchFunc(w.out.Flows, k, func(s FlowStep, k Key) int { return compareKeys(s.Key, k) })
	if !found {
		return FlowStep{Key: k, State: "unknown"}
	}
	return w.out.Flows[i]
}

// domain gives what the last pass decided about a mirror domain.
func (w *world) domain(id string) (DomainStep, bool) {
	i, found := slices.BinarySearchFunc(w.out.Domains, id, func(s DomainStep, id string) int { return cmp.Compare(s.DomainID, id) })
	if !found {
		return DomainStep{}, false
	}
	return w.out.Domains[i], true
}

func (w *world) inode(k Key) uint64 {
	if !exists(flowPath(w.room, k, "data")) {
		return 0
	}
	return inodeOf(w.t, flowPath(w.room, k, "data"))
}

// read puts a reader on a flow.
func (w *world) read(k Key, pid int) {
	w.proc.add(pid, "player", mapsOf(w.t, flowPath(w.room, k, "data")))
}

// count counts events of a kind about a flow or domain.
func (w *world) count(kind EventKind, k Key) int {
	n := 0
	for _, e := range w.events {
		if e.Kind == kind && e.Key == k {
			n++
		}
	}
	return n
}

// rebuilt gives the reasons of the rebuilds of a flow.
func (w *world) rebuilt(k Key) []Reason {
	var reasons []Reason
	for _, e := range w.events {
		if e.Kind == EventRebuilt && e.Key == k {
			reasons = append(reasons, e.Reason)
		}
	}
	return reasons
}
