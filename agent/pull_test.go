package agent

import (
	"errors"
	"net/netip"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/mxl-stack/mxl-fabrics-agent/agent/config"
	"github.com/mxl-stack/mxl-fabrics-agent/fabrics"
	"github.com/mxl-stack/mxl-fabrics-agent/mirror"
	"github.com/mxl-stack/mxl-fabrics-agent/peers"
)

func TestPullSetsUpAsksAndGoesActive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newPullBench(t)
		defer b.cancel()
		b.passes(1, aWish())
		if targets, asks, _ := b.counts(); targets != 1 || asks != 1 {
			t.Fatalf("%d targets, %d questions after the first pass; want one each", targets, asks)
		}
		if b.asks[0].DestHostID != "b" || b.asks[0].DestBootID != "boot-b" || b.asks[0].DomainID != "dom" {
			t.Errorf("asked %+v", b.asks[0])
		}
		if s := b.seen.Load().State; s != statePending {
			t.Errorf("state %s before the first grain", s)
		}
		head := uint64(50)
		b.answer = peers.ReplicationAnswer{ReplicationID: "id-1", State: stateActive, OriginHead: &head}
		b.targets[0].set(func(s *fabrics.TargetStats) { s.Connected, s.Grains, s.Bytes, s.Head = true, 3, 300, 49 })
		b.passes(2, aWish())
		v := b.seen.Load()
		if v.State != stateActive || v.Grains != 3 || v.Bytes != 300 || v.Head != 49 || v.Error != "" {
			t.Errorf("view %+v", v)
		}
		// While grains flow the question is repeated every two seconds only.
		_, before, _ := b.counts()
		for i := range 50 {
			b.targets[0].set(func(s *fabrics.TargetStats) { s.Grains = uint64(4 + i) })
			b.passes(1, aWish())
		}
		if _, after, _ := b.counts(); after-before < 4 || after-before > 6 {
			t.Errorf("%d questions in 10 s, want about 5", after-before)
		}
	})
}

func TestPullReleases(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newPullBench(t)
		defer b.cancel()
		b.passes(1, aWish())
		b.want(pullWish{ControlURL: "http://a/api/v1"})
		synctest.Wait()
		if !b.over() || !b.targets[0].isClosed() || b.releases != 1 {
			t.Errorf("over %v, closed %v, %d releases", b.over(), b.targets[0].isClosed(), b.releases)
		}
	})
}

func TestPullShutdownTellsNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newPullBench(t)
		b.passes(1, aWish())
		b.cancel()
		synctest.Wait()
		if !b.over() || !b.targets[0].isClosed() || b.releases != 0 {
			t.Errorf("over %v, closed %v, %d releases; want a closed target and no release", b.over(), b.targets[0].isClosed(), b.releases)
		}
	})
}

// TestPullFollowsPEERS: another local address or provider in PEERS applies at once
// (it is a live setting), to a target that runs too.
func TestPullFollowsPEERS(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newPullBench(t)
		defer b.cancel()
		b.answer.State = stateActive
		b.passes(1, aWish())
		b.targets[0].set(func(s *fabrics.TargetStats) { s.Connected, s.Grains, s.Head = true, 3, 49 })
		b.passes(5, aWish())
		moved := aWish()
		moved.Address, moved.Way = "127.0.0.2", way{Provider: "tcp", Address: "127.0.0.2"}
		_, asked, _ := b.counts()
		b.passes(5, moved)
		targets, asks, releases := b.counts()
		if targets != 2 || !b.targets[0].isClosed() || b.targets[1].isClosed() || asks == asked || releases != 0 {
			t.Errorf("%d targets, first closed %v, %d questions, %d releases", targets, b.targets[0].isClosed(), asks-asked, releases)
		}
		if v := b.seen.Load(); v.Restarts != 1 || v.Grains != 3 {
			t.Errorf("%d restarts, %d grains", v.Restarts, v.Grains)
		}
	})
}

// TestPullRenewsWhoMayConnect: another remote address in PEERS is the new target's list
// of who may connect, and an entry that stays as it is changes nothing.
func TestPullRenewsWhoMayConnect(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newPullBench(t)
		defer b.cancel()
		b.answer.State = stateActive
		cfg := &config.Config{DefaultProvider: "tcp", FabricInterface: "127.0.0.1"}
		wish := func(remote string) pullWish {
			entry := &peers.Peer{HostID: "a", RemoteFabricAddr: remote}
			w := aWish()
			w.Way, w.From = wayTo(cfg, entry), peerAddresses(entry)
			return w
		}
		b.passes(3, wish("192.0.2.2"))
		b.passes(3, wish("::ffff:192.0.2.2"))
		if targets, _, _ := b.counts(); targets != 1 {
			t.Fatalf("%d targets of one entry", targets)
		}
		b.passes(3, wish("192.0.2.3"))
		b.passes(3, wish(""))
		if targets, _, _ := b.counts(); targets != 3 || !b.targets[0].isClosed() || !b.targets[1].isClosed() || b.targets[2].isClosed() {
			t.Fatalf("%d targets", targets)
		}
		for i, want := range [][]netip.Addr{{netip.MustParseAddr("192.0.2.2")}, {netip.MustParseAddr("192.0.2.3")}, nil} {
			if got := b.setups[i].Peers; !slices.Equal(got, want) {
				t.Errorf("target %d lets in %v, want %v", i, got, want)
			}
		}
	})
}

func TestPullAsksAtOnceWhenTheConnectionGoes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newPullBench(t)
		defer b.cancel()
		b.answer.State = stateActive
		b.passes(1, aWish())
		b.targets[0].set(func(s *fabrics.TargetStats) { s.Connected, s.Grains, s.Head = true, 1, 1 })
		b.passes(1, aWish())
		_, before, _ := b.counts()
		b.targets[0].set(func(s *fabrics.TargetStats) { s.Connected = false })
		b.passes(1, aWish())
		if _, after, _ := b.counts(); after != before+1 {
			t.Errorf("%d questions after the connection went, want one", after-before)
		}
	})
}

// TestPullMakesANewTargetForALostConnection: the source is asked, says that it lost
// the connection, and gets another target in the same pass; one that has let go of its
// origin for a while keeps the old one.
func TestPullMakesANewTargetForALostConnection(t *testing.T) {
	for state, targets := range map[string]int{stateError: 2, stateIdle: 2, statePending: 1} {
		synctest.Test(t, func(t *testing.T) {
			b := newPullBench(t)
			defer b.cancel()
			b.answer.State = stateActive
			b.passes(1, aWish())
			b.targets[0].set(func(s *fabrics.TargetStats) { s.Connected, s.Grains, s.Head = true, 3, 49 })
			b.passes(5, aWish())
			b.targets[0].set(func(s *fabrics.TargetStats) { s.Connected = false })
			b.answer.State = state
			_, asked, _ := b.counts()
			b.passes(1, aWish())
			made, asks, releases := b.counts()
			if made != targets || releases != 0 || asks-asked != targets {
				t.Errorf("%s: %d targets, %d questions, %d releases", state, made, asks-asked, releases)
			}
			if b.targets[0].isClosed() != (targets == 2) {
				t.Errorf("%s: the old target is closed: %v", state, b.targets[0].isClosed())
			}
			// Without a grain in between the usual times hold.
			b.passes(4, aWish())
			if again, _, _ := b.counts(); again != targets {
				t.Errorf("%s: %d targets after another 800 ms", state, again)
			}
		})
	}
}

func TestPullDropsItsTargetWhenThePeerRestarted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newPullBench(t)
		defer b.cancel()
		b.passes(1, aWish())
		w := aWish()
		w.BootID = "boot-2"
		b.passes(1, w)
		if targets, _, releases := b.counts(); targets != 2 || !b.targets[0].isClosed() || releases != 1 {
			t.Errorf("%d targets, first closed %v, %d releases", targets, b.targets[0].isClosed(), releases)
		}
		if r := b.seen.Load().Restarts; r != 1 {
			t.Errorf("restarts %d, want 1", r)
		}
	})
}

func TestPullLinkDownAndUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newPullBench(t)
		defer b.cancel()
		b.passes(1, aWish())
		w := aWish()
		w.LinkUp, w.LinkReason = false, "no carrier on x (down)"
		b.passes(20, w)
		targets, asks, releases := b.counts()
		v := b.seen.Load()
		if targets != 1 || asks != 1 || releases != 1 || v.State != stateLinkDown || v.Error != "no carrier on x (down)" {
			t.Errorf("while down: %d targets, %d questions, %d releases, %s %q", targets, asks, releases, v.State, v.Error)
		}
		b.passes(1, aWish())
		if targets, asks, _ := b.counts(); targets != 2 || asks != 2 {
			t.Errorf("after up: %d targets, %d questions; want fresh ones at once", targets, asks)
		}
	})
}

func TestPullBacksOffFromAFailingPeer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newPullBench(t)
		defer b.cancel()
		b.askErr = errors.New("http 500: origin flow not found")
		b.passes(300, aWish()) // a minute
		targets, asks, _ := b.counts()
		if asks < 5 || asks > 9 {
			t.Errorf("%d questions in a minute of failures, want the doubling back-off", asks)
		}
		if targets > 4 {
			t.Errorf("%d targets set up in a minute of failures", targets)
		}
		v := b.seen.Load()
		if v.State != stateError || v.Error != "http 500: origin flow not found" {
			t.Errorf("view %s %q", v.State, v.Error)
		}
		b.mu.Lock()
		b.askErr = nil
		b.mu.Unlock()
		b.passes(160, aWish())
		if s := b.seen.Load().State; s != statePending {
			t.Errorf("state %s after the peer recovered", s)
		}
	})
}

func TestPullSetUpFailureAndPortPool(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newPullBench(t)
		defer b.cancel()
		b.openErr = errors.New("provider tcp has no interface for 192.0.2.1")
		b.passes(50, aWish())
		if v := b.seen.Load(); v.State != stateError || v.Error != b.openErr.Error() || v.Restarts == 0 {
			t.Errorf("view %+v", v)
		}
		b.mu.Lock()
		b.openErr = nil
		b.mu.Unlock()
		b.passes(170, aWish())
		if targets, _, _ := b.counts(); targets == 0 {
			t.Errorf("%d targets; ports of failed set-ups were not given back", targets)
		}
	})
}

func TestPullHaltLeavesTheMirrorAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newPullBench(t)
		defer b.cancel()
		b.passes(1, aWish())
		b.halt()
		if !b.targets[0].isClosed() {
			t.Fatal("halt returned before the target was closed")
		}
		w := aWish()
		w.MirrorReady = false
		b.passes(5, w)
		if targets, _, _ := b.counts(); targets != 1 {
			t.Error("a target was set up while the mirror is being changed")
		}
		w = aWish()
		w.MirrorGeneration = 2
		b.passes(1, w)
		if targets, _, _ := b.counts(); targets != 2 {
			t.Error("no target on the new mirror")
		}
	})
}

func TestPortPool(t *testing.T) {
	p := newPortPool(23500, 2)
	first, err1 := p.take()
	second, err2 := p.take()
	if err1 != nil || err2 != nil || first == second {
		t.Fatalf("%d %v, %d %v", first, err1, second, err2)
	}
	if _, err := p.take(); err == nil || err.Error() != "all 2 fabric ports from 23500 are in use: raise FABRIC_PORT_COUNT" {
		t.Errorf("exhausted pool: %v", err)
	}
	p.give(first)
	if again, err := p.take(); err != nil || again != first {
		t.Errorf("%d %v, want the port that was given back", again, err)
	}
}

// TestPullWaitsForADeed: a wish from before a deed on the mirror names a writer that is
// about to be closed; no target is opened on it, and one is on the next good wish.
func TestPullWaitsForADeed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newPullBench(t)
		defer b.cancel()
		var generation atomic.Uint64
		generation.Store(2)
		b.deps.usable = func(_ mirror.Key, g uint64) bool { return g == generation.Load() }
		old := aWish()
		old.MirrorGeneration = 1
		b.passes(20, old)
		if targets, asks, _ := b.counts(); targets != 0 || asks != 0 {
			t.Errorf("%d targets, %d questions on a writer that goes", targets, asks)
		}
		fresh := aWish()
		fresh.MirrorGeneration = 2
		b.passes(20, fresh)
		if targets, _, _ := b.counts(); targets != 1 {
			t.Errorf("%d targets on the new writer, want 1", targets)
		}
	})
}
