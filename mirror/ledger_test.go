package mirror

import (
	"testing"
	"time"
)

// warm is a world with one live mirror, past the start guard.
func warm(t *testing.T) (*world, Origin, Origin) {
	w := newWorld(t)
	w.set.IdleGrace = 40 * time.Second
	o, other := origin("data", 1), origin("data", 2)
	w.peer(testSource).offer(o)
	w.peer(testSource).offer(other)
	w.demand[o.Key] = true
	w.run(StartGuard + 4*time.Second)
	t.Cleanup(w.crash)
	return w, o, other
}

func TestEagerMirrorIsThereBeforeTheReceiver(t *testing.T) {
	w := newWorld(t)
	o := origin("data", 1)
	w.peer(testSource).offer(o)
	w.run(400 * time.Millisecond)
	s := w.step(o.Key)
	if w.inode(o.Key) == 0 || s.State != FlowIdle || s.Pull || s.Health.Reason != NobodyWants {
		t.Errorf("%+v", s)
	}
	w.demand[o.Key] = true
	w.run(200 * time.Millisecond)
	if s := w.step(o.Key); s.State != FlowReplicating || !s.Pull || s.Health.State != HealthPending {
		t.Errorf("%+v", s)
	}
	w.run(400 * time.Millisecond)
	if s := w.step(o.Key); s.Health.State != HealthLive {
		t.Errorf("%+v", s)
	}
	w.crash()
}

func TestNothingGoesInTheFirstThirtySeconds(t *testing.T) {
	for _, c := range []struct {
		name string
		away func(*world, Origin)
	}{
		{"orphan", func(w *world, o Origin) { w.peers = map[string]*worldPeer{} }},
		{"same_node", func(w *world, o Origin) { w.local[o.DomainID] = true }},
		{"idle", func(w *world, o Origin) {
			w.set.IdleGrace = time.Second
			f := w.peer(testSource).flows[o.Key]
			f.active, f.live = false, false
			w.set.Grace = time.Hour
		}},
		{"origin_missing", func(w *world, o Origin) { w.set.IdleGrace = time.Second; delete(w.peer(testSource).flows, o.Key) }},
		{"origin_gone", func(w *world, o Origin) { f := w.peer(testSource).flows[o.Key]; f.active, f.live = false, false }},
		{"no_demand", func(w *world, o Origin) { w.set.Eager = false }},
		{"excluded", func(w *world, o Origin) { w.set.Filter.ExcludeDomains = []string{o.DomainID} }},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t)
			o := origin("data", 1)
			w.peer(testSource).offer(o)
			w.run(4 * time.Second)
			w.crash()
			w.start() // a restart: its mirror is there from the start
			c.away(w, o)
			w.run(StartGuard - 400*time.Millisecond)
			if w.inode(o.Key) == 0 {
				t.Fatal("removed within 30 s")
			}
			w.run(4 * time.Second)
			if w.inode(o.Key) != 0 {
				t.Errorf("not removed afterwards: %+v", w.step(o.Key))
			}
			w.crash()
		})
	}
}

func TestARegistryOutageRemovesNothing(t *testing.T) {
	w, o, _ := warm(t)
	w.nmos, w.registry = true, false
	w.demand = map[Key]bool{}
	w.peers = map[string]*worldPeer{} // peers are known from the registry
	w.run(60 * time.Second)
	if w.inode(o.Key) == 0 {
		t.Fatal("a registry outage made the mirror an orphan")
	}
	w.registry = true
	w.run(4 * time.Second)
	if w.inode(o.Key) != 0 {
		t.Error("an orphan stayed")
	}
}

func TestMissingFlowIsToldOnce(t *testing.T) {
	w, o, other := warm(t)
	w.read(o.Key, 77)
	delete(w.peer(testSource).flows, o.Key)
	w.run(20 * time.Second)
	if n := w.count(EventOriginMissing, o.Key); n != 1 {
		t.Errorf("%d origin_missing events", n)
	}
	if h := w.step(o.Key).Health; h.State != HealthIdle || h.Reason != OriginIsMissing {
		t.Errorf("%+v", h)
	}
	w.run(60 * time.Second)
	if n := w.count(EventFlowKept, o.Key); n != 1 {
		t.Errorf("%d kept events while one reader stays", n)
	}
	w.read(o.Key, 78)
	w.run(6 * time.Second)
	if n := w.count(EventFlowKept, o.Key); n != 2 {
		t.Errorf("%d kept events after a second reader came", n)
	}
	w.proc.remove(77)
	w.proc.remove(78)
	w.run(6 * time.Second)
	if len(w.removed) != 1 || w.removed[0].Reason != OriginMissing || w.inode(o.Key) != 0 || w.inode(other.Key) == 0 {
		t.Errorf("removed %+v", w.removed)
	}
	if w.refused != 0 {
		t.Errorf("%d removals were tried under a reader", w.refused)
	}
}

func TestMissingClockPausesForAnUnsettledPeer(t *testing.T) {
	w, o, other := warm(t)
	delete(w.peer(testSource).flows, o.Key)
	w.run(30 * time.Second)
	w.peer(testSource).boot = "again" // it restarted: one poll is not enough
	w.peer(testSource).scanned = false
	w.run(30 * time.Second)
	if s := w.step(o.Key); w.inode(o.Key) == 0 || s.Health.Reason != InventoryPending || s.Missing > 35*time.Second {
		t.Fatalf("%+v", s)
	}
	w.run(36 * time.Second) // unsettled for over 60 s: counts as down, the clock starts again
	if s := w.step(o.Key); s.Missing != 0 || s.Health.State != HealthStale || s.Health.Reason != PeerIsDown {
		t.Errorf("missing for %v, health %+v", s.Missing, s.Health)
	}
	w.peer(testSource).scanned = true
	w.run(36 * time.Second)
	if w.inode(o.Key) == 0 {
		t.Error("removed before its grace time was over again")
	}
	w.run(10 * time.Second)
	if w.inode(o.Key) != 0 || w.inode(other.Key) == 0 {
		t.Errorf("%+v", w.step(o.Key))
	}
}

// A source that answers with the empty list of a scan that has not been made, for
// however long, makes no mirror an orphan.
func TestAnUnsettledPeerMakesNoOrphans(t *testing.T) {
	w, o, _ := warm(t)
	before := w.inode(o.Key)
	p := w.peer(testSource)
	flows, domains := p.flows, p.domains
	p.boot, p.scanned, p.flows, p.domains = "again", false, nil, nil
	w.run(90 * time.Second)
	if w.inode(o.Key) != before || w.out.Domains[0].State != DomainActive {
		t.Fatalf("%+v", w.out.Domains)
	}
	p.scanned, p.flows, p.domains = true, flows, domains
	w.run(6 * time.Second)
	if s := w.step(o.Key); w.inode(o.Key) != before || s.Health.State != HealthLive {
		t.Errorf("%+v", s)
	}
	p.flows, p.domains = nil, nil // and now it has none, says a finished scan
	w.run(6 * time.Second)
	if w.inode(o.Key) != 0 {
		t.Errorf("%+v", w.out.Domains)
	}
}

func TestAnotherPeerOffersTheFlow(t *testing.T) {
	w, o, _ := warm(t)
	before := w.inode(o.Key)
	moved := o
	moved.SourceHost = "node-c"
	w.peer("node-c").offer(moved)
	w.peer("node-c").offer(origin("data", 2))
	delete(w.peers, testSource)
	w.run(120 * time.Second)
	if w.inode(o.Key) != before || w.step(o.Key).Peer != "node-c" || w.step(o.Key).Health.State != HealthLive {
		t.Errorf("%+v", w.step(o.Key))
	}
}

// A function that has moved is where its flows come from, not where the marker of the
// mirror says: while that host is down its mirror stays, wanted or not.
func TestTheSourceIsTheHostThatOffers(t *testing.T) {
	for _, remains := range []bool{true, false} {
		w, o, other := warm(t)
		before := w.inode(o.Key)
		for _, moved := range []Origin{o, other} {
			moved.SourceHost = "node-c"
			w.peer("node-c").offer(moved)
		}
		if old := w.peer(testSource); remains { // the host that the function came from
			old.flows, old.domains = nil, nil
		} else {
			delete(w.peers, testSource)
		}
		w.run(10 * time.Second)
		w.peer("node-c").up = false
		w.run(120 * time.Second)
		s := w.step(o.Key)
		if w.inode(o.Key) != before || s.Peer != "node-c" || s.Health.State != HealthStale || s.Health.Reason != PeerIsDown || s.Missing != 0 {
			t.Fatalf("%v: %+v, domains %+v", remains, s, w.out.Domains)
		}
		v := ViewMirrors(w.facts, w.out)[0]
		if v.State != DomainActive || v.Origin.HostID != "node-c" || v.Origin.PeerUp || v.Flows[0].Peer != "node-c" {
			t.Errorf("%+v", v)
		}
		w.peer("node-c").up = true
		w.run(6 * time.Second)
		if w.inode(o.Key) != before || w.step(o.Key).Health.State != HealthLive {
			t.Errorf("%v: %+v", remains, w.step(o.Key))
		}
		w.peer("node-c").flows, w.peer("node-c").domains = nil, nil
		w.run(6 * time.Second)
		if w.inode(o.Key) != 0 {
			t.Errorf("%v: nobody has the domain, and it is there: %+v", remains, w.out.Domains)
		}
	}
}

// A host that is no peer any more keeps nothing: the marker's decides again.
func TestASourceThatIsNoPeerAnyMoreKeepsNothing(t *testing.T) {
	w, o, other := warm(t)
	moved := o
	moved.SourceHost = "node-c"
	w.peer("node-c").offer(moved)
	delete(w.peer(testSource).flows, o.Key)
	w.run(10 * time.Second)
	delete(w.peers, "node-c")
	w.run(w.set.IdleGrace - 5*time.Second)
	if w.inode(o.Key) == 0 {
		t.Fatal("removed before its grace time was over")
	}
	w.run(10 * time.Second)
	if w.inode(o.Key) != 0 || w.inode(other.Key) == 0 {
		t.Errorf("%+v", w.step(o.Key))
	}
}

func TestDryRunRemovesNothing(t *testing.T) {
	w, o, other := warm(t)
	w.set.DryRun = true
	delete(w.peer(testSource).flows, o.Key)
	w.run(60 * time.Second)
	if n := w.count(EventFlowWouldRemove, o.Key); n != 1 || w.inode(o.Key) == 0 {
		t.Errorf("%d would-remove events for the flow", n)
	}
	w.peers = map[string]*worldPeer{}
	w.run(60 * time.Second)
	if n := w.count(EventDomainWouldRemove, Key{DomainID: testDomain}); n != 1 || w.inode(o.Key) == 0 || w.inode(other.Key) == 0 {
		t.Errorf("%d would-remove events for the domain", n)
	}
	if len(w.removed) != 0 {
		t.Errorf("removed %+v", w.removed)
	}
}

func TestDomainBusyIsToldOnce(t *testing.T) {
	w, o, _ := warm(t)
	w.read(o.Key, 77)
	w.peers = map[string]*worldPeer{}
	w.run(60 * time.Second)
	k := Key{DomainID: testDomain}
	if n := w.count(EventDomainBusy, k); n != 1 {
		t.Errorf("%d busy events", n)
	}
	if d, found := w.domain(testDomain); !found || d.State != DomainOrphan || d.Guard != ReadersMapped {
		t.Errorf("%+v", d)
	}
	w.proc.remove(77)
	w.proc.remove(1)
	w.run(6 * time.Second)
	if n := w.count(EventDomainBusy, k); n != 2 {
		t.Errorf("%d busy events after the check became incomplete", n)
	}
	if w.inode(o.Key) == 0 {
		t.Error("removed with an incomplete check")
	}
}

// A reader that comes between the periodic check and the removal refuses it
// once, not with every pass.
func TestARefusedRemovalWaitsForTheNextCheck(t *testing.T) {
	for _, whole := range []bool{false, true} {
		w, o, _ := warm(t)
		if whole {
			w.peers = map[string]*worldPeer{}
		} else {
			delete(w.peer(testSource).flows, o.Key)
			w.run(38 * time.Second)
		}
		// The next removal comes before the next check.
		for w.refused == 0 && w.inode(o.Key) != 0 && w.now.Sub(w.started) < 10*time.Minute {
			w.proc.remove(77)
			if w.now.Add(200*time.Millisecond).Sub(w.checked) >= ReaderCheckEvery {
				w.report, w.checked = w.check.Scan(t.Context(), w.room.Watched()), w.now.Add(200*time.Millisecond)
			}
			w.read(o.Key, 77)
			w.run(200 * time.Millisecond)
		}
		if w.refused != 1 || w.inode(o.Key) == 0 {
			t.Fatalf("whole %v: %d refused, inode %d", whole, w.refused, w.inode(o.Key))
		}
		w.run(1600 * time.Millisecond)
		if w.refused != 1 {
			t.Errorf("whole %v: %d refusals within one check", whole, w.refused)
		}
		w.proc.remove(77)
		w.run(4 * time.Second)
		if w.inode(o.Key) != 0 {
			t.Errorf("whole %v: it stayed", whole)
		}
	}
}

func TestAWriterWithoutASignalKeepsItsEagerMirror(t *testing.T) {
	w, o, other := warm(t)
	delete(w.demand, o.Key)
	before := w.inode(o.Key)
	for _, f := range w.peer(testSource).flows {
		f.live = false
	}
	w.run(120 * time.Second)
	if w.inode(o.Key) != before || w.inode(other.Key) == 0 {
		t.Errorf("removed %+v", w.removed)
	}
}

func TestTheTimeAPeerIsDownIsNotInactivity(t *testing.T) {
	w, o, _ := warm(t)
	delete(w.demand, o.Key)
	w.peer(testSource).up = false
	w.run(30 * time.Second)
	f := w.peer(testSource).flows[o.Key]
	f.active, f.live = false, false
	w.peer(testSource).up = true
	w.run(8 * time.Second)
	if w.inode(o.Key) == 0 {
		t.Error("removed before MIRROR_GRACE_S of seen inactivity")
	}
}

func TestSpaceShort(t *testing.T) {
	w := newWorld(t)
	w.free = 512 * mebibyte
	o := origin("data", 1)
	w.peer(testSource).offer(o)
	w.run(time.Second)
	if s := w.step(o.Key); s.State != FlowNoSpace || s.Do != Leave || w.inode(o.Key) != 0 {
		t.Errorf("%+v", s)
	}
	if v := ViewMirrors(w.facts, w.out); len(v) != 1 || v[0].OnDisk || v[0].Demand || v[0].State != DomainIdle {
		t.Errorf("unwanted: %+v", v)
	}
	w.demand[o.Key] = true
	w.run(time.Second)
	if v := ViewMirrors(w.facts, w.out); len(v) != 1 || v[0].OnDisk || !v[0].Demand || v[0].State != DomainActive {
		t.Errorf("wanted: %+v", v)
	}
	delete(w.demand, o.Key)
	w.free = 600 * mebibyte
	w.run(w.set.ReleaseGrace + time.Second)
	if s := w.step(o.Key); s.State != FlowIdle || w.inode(o.Key) == 0 {
		t.Errorf("%+v", s)
	}
	w.crash()
}
