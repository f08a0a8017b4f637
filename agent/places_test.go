package agent

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"github.com/mxl-stack/mxl-fabrics-agent/mirror"
	"github.com/mxl-stack/mxl-fabrics-agent/peers"
)

func (pl *place) isReady() bool {
	select {
	case <-pl.ready:
		return true
	default:
		return false
	}
}

// TestPlacesAreShared: who is next among the peers, and in which order one peer's deeds
// begin. Each step asks for a place ("a1" is the first deed of a) or leaves one ("-a1");
// began is what has begun by then, in order.
func TestPlacesAreShared(t *testing.T) {
	for _, tc := range []struct {
		name  string
		most  int
		steps []string
		began string
	}{
		{"one peer alone keeps one place free", 4, []string{"a1", "a2", "a3", "a4", "a5"}, "a1 a2 a3"},
		{"another peer finds it", 4, []string{"a1", "a2", "a3", "a4", "b1"}, "a1 a2 a3 b1"},
		{"in the order asked for", 4, []string{"a1", "a2", "a3", "a4", "a5", "-a2", "-a1"}, "a1 a2 a3 a4 a5"},
		{"the peer that holds fewest is next", 4, []string{"a1", "a2", "b1", "b2", "a3", "b3", "c1", "-a1"}, "a1 a2 b1 b2 c1"},
		{"then by turns", 2, []string{"a1", "b1", "a2", "a3", "b2", "c1", "-a1", "-b1", "-a2", "-c1", "-b2"}, "a1 b1 a2 b2 c1 a3"},
		{"one that stopped waiting is passed over", 2, []string{"a1", "b1", "a2", "a3", "-a2", "-a1"}, "a1 b1 a3"},
		{"a queue that ended gives its turn up", 2, []string{"a1", "b1", "c1", "a2", "-c1", "-b1"}, "a1 b1"},
		{"where there is one place a peer may have it", 1, []string{"a1", "a2", "b1", "-a1", "-a2"}, "a1 a2 b1"},
		{"this host's own deeds are one peer's", 4, []string{"1", "2", "3", "4", "a1"}, "1 2 3 a1"},
	} {
		p := newPlaces(tc.most)
		there := map[string]*place{}
		var order, began []string
		for _, step := range tc.steps {
			if step[0] == '-' {
				there[step[1:]].leave()
				delete(there, step[1:])
			} else {
				there[step] = p.ask(step[:len(step)-1])
				order = append(order, step)
			}
			for _, name := range order {
				if pl := there[name]; pl != nil && pl.isReady() && !slices.Contains(began, name) {
					began = append(began, name)
				}
			}
		}
		if got := fmt.Sprint(began); got != "["+tc.began+"]" {
			t.Errorf("%s: %s began, want [%s]", tc.name, got, tc.began)
		}
		for _, pl := range there {
			pl.leave()
		}
		if p.taken != 0 || len(p.held)+len(p.queue)+len(p.turns) != 0 {
			t.Errorf("%s: left over %+v", tc.name, p)
		}
	}
}

// TestPlacesUnderContention: never more than allowed, at once or for one peer, and
// everybody has a turn.
func TestPlacesUnderContention(t *testing.T) {
	p := newPlaces(setupsAtOnce)
	var mu sync.Mutex
	running, done := map[string]int{}, map[string]int{}
	var wg sync.WaitGroup
	for n := range 400 {
		peer := fmt.Sprint("peer", n%5)
		wg.Go(func() {
			pl := p.ask(peer)
			defer pl.leave()
			if n%7 == 0 {
				return // does not wait
			}
			<-pl.ready
			mu.Lock()
			defer mu.Unlock()
			running[peer]++
			total := 0
			for _, c := range running {
				total += c
			}
			if running[peer] > setupsAtOnce-1 || total > setupsAtOnce {
				t.Errorf("%v run at once", running)
			}
			mu.Unlock()
			mu.Lock()
			running[peer]--
			done[peer]++
		})
	}
	wg.Wait()
	if p.taken != 0 || len(p.held)+len(p.queue)+len(p.turns) != 0 {
		t.Errorf("left over %+v", p)
	}
	for n := range 5 {
		if peer := fmt.Sprint("peer", n); done[peer] < 60 {
			t.Errorf("%s had %d turns", peer, done[peer])
		}
	}
}

// rebuildingRoom is a room in which many mirrors are made anew at once.
type rebuildingRoom struct{ *fakeRoom }

func (r rebuildingRoom) RebuildFlow(context.Context, mirror.Key) (mirror.Rebuilt, error) {
	return mirror.Rebuilt{Flow: r.replaced}, nil
}

// The flows of a crowd, by their number.
func crowdFlow(n int) uuid.UUID {
	return uuid.MustParse(fmt.Sprintf("0d9f6c3a-2b71-4f5e-8a64-%012d", n))
}

// TestSlowSetUpsOfOnePeer: a hundred targets for one peer that take ten seconds each do
// not delay the one of another peer. Without places for each peer it came after 250 s.
func TestSlowSetUpsOfOnePeer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		ctx, stop := context.WithCancel(t.Context())
		bench := newPullBench(t)
		bench.cancel()
		deps := bench.deps
		deps.setups, deps.ports = newPlaces(setupsAtOnce), newPortPool(23500, 200)
		var mu sync.Mutex
		var order []int // of the slow peer's flows
		healthy := time.Duration(-1)
		open := deps.open
		deps.open = func(s targetSetup) (targetLane, error) {
			mu.Lock()
			if s.Flow == testFlow {
				healthy = time.Since(began)
				mu.Unlock()
			} else {
				order = append(order, int(s.Flow[14])<<8+int(s.Flow[15]))
				took := 10*time.Second + time.Duration(len(order))*time.Millisecond // no two end together
				mu.Unlock()
				time.Sleep(took)
			}
			return open(s)
		}
		var pulls []*pull
		start := func(peer string, flow uuid.UUID) {
			p := newPull(pullKey{Peer: peer, Domain: "dom", Flow: flow}, deps)
			pulls = append(pulls, p)
			go p.run(ctx)
			p.want(aWish())
			synctest.Wait()
		}
		for n := range 100 {
			start("slow", crowdFlow(n))
		}
		start("healthy", testFlow)
		time.Sleep(time.Second)
		mu.Lock()
		if healthy != 0 {
			t.Errorf("the target for the healthy peer was made after %v, want at once", healthy)
		}
		mu.Unlock()
		time.Sleep(10 * time.Minute)
		mu.Lock()
		if len(order) != 100 || !slices.IsSorted(order) {
			t.Errorf("%d targets for the slow peer, in the order %v", len(order), order)
		}
		mu.Unlock()
		// Those that still wait end with the agent, and whoever needs a mirror's files
		// does not wait for their turn.
		for n := range 8 {
			start("slow", crowdFlow(200+n))
		}
		halting := time.Now()
		pulls[len(pulls)-1].halt()
		if waited := time.Since(halting); waited != 0 {
			t.Errorf("a deed waited %v for a pull that had not its turn", waited)
		}
		stop()
		synctest.Wait()
		time.Sleep(time.Minute)
		for _, p := range pulls {
			if !p.over() {
				t.Fatal("a pull goes on")
			}
		}
		if p := deps.setups; p.taken != 0 || len(p.queue) != 0 {
			t.Errorf("left over %+v", p)
		}
	})
}

// TestDeedsDoNotWaitForASilentPeer: the mirrors of a peer that does not answer are made
// anew while their pulls wait for its answers. Neither they nor the mirror of another
// peer wait for that. Before, a deed held its place for as long as the call.
func TestDeedsDoNotWaitForASilentPeer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		bench := newPullBench(t)
		bench.cancel()
		deps := bench.deps
		deps.setups, deps.ports = newPlaces(setupsAtOnce), newPortPool(23500, 200)
		var broken int
		var mu sync.Mutex
		deps.ask = func(ctx context.Context, _ string, _ peers.ReplicationRequest) (peers.ReplicationAnswer, error) {
			<-ctx.Done() // ten seconds at most, in the client
			mu.Lock()
			broken++
			mu.Unlock()
			return peers.ReplicationAnswer{}, ctx.Err()
		}
		deeds := newDeedBench()
		deeds.mirrorDeeds.room = rebuildingRoom{deeds.room}
		pulls := map[mirror.Key]*pull{}
		for n := range 100 {
			p := newPull(pullKey{Peer: "silent", Domain: "dom", Flow: crowdFlow(n)}, deps)
			pulls[p.key.mirror()] = p
			go p.run(ctx)
			p.want(aWish())
		}
		synctest.Wait()
		deeds.halt = func(k mirror.Key) { pulls[k].halt() }
		deeds.note = func(mirror.Key, mirror.Reason) {}
		began := time.Now()
		for k := range pulls {
			if !deeds.rebuildFlow(ctx, k, func(mirror.Rebuilt, error) {}) {
				t.Fatal("a deed did not begin")
			}
		}
		deeds.wait()
		if took := time.Since(began); took != 0 {
			t.Errorf("the deeds took %v", took)
		}
		if synctest.Wait(); broken != 100 {
			t.Errorf("%d calls were broken off", broken)
		}
		// A pull that was broken off sets up again with the next wish, not before.
		made := len(bench.targets)
		for _, p := range pulls {
			w := aWish()
			w.MirrorGeneration = 2
			p.want(w)
		}
		synctest.Wait()
		if n := len(bench.targets) - made; made != 100 || n != 100 {
			t.Errorf("%d targets before the deeds, %d after", made, n)
		}
		stop()
		synctest.Wait()
	})
}

// TestReleaseIsHeardAlthoughADeedWantsTheFiles: a deed does not wait for it, and does
// not break it off.
func TestReleaseIsHeardAlthoughADeedWantsTheFiles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newPullBench(t)
		defer b.cancel()
		var released atomic.Int64
		var asked time.Time
		b.deps.release = func(ctx context.Context, _, _, _ string) error {
			select {
			case <-time.After(5 * time.Second):
				released.Store(int64(time.Since(asked)))
			case <-ctx.Done():
			}
			return ctx.Err()
		}
		b.passes(1, aWish())
		asked = time.Now()
		b.want(pullWish{ControlURL: "http://a/api/v1"})
		synctest.Wait()
		b.halt()
		if waited := time.Since(asked); waited != 0 || !b.targets[0].isClosed() {
			t.Errorf("a deed waited %v for a release", waited)
		}
		time.Sleep(6 * time.Second)
		if took := time.Duration(released.Load()); took != 5*time.Second || !b.over() {
			t.Errorf("released after %v, over %v", took, b.over())
		}
	})
}
