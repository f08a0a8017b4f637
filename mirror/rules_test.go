package mirror

import (
	"slices"
	"testing"
	"time"
)

// TestRebuildRules is the table of the contract's section "Rebuild rules": what
// the destination sees of the origin, what becomes of the mirror, and the reason
// when the origin is back.
func TestRebuildRules(t *testing.T) {
	o := origin("data", 1)
	other := origin("data", 2) // keeps the domain in use
	second := time.Second
	gone := func(w *world) { delete(w.peer(testSource).flows, o.Key) }
	goneDomain := func(w *world) {
		gone(w)
		delete(w.peer(testSource).flows, other.Key)
		delete(w.peer(testSource).domains, testDomain)
	}
	inactive := func(w *world) { f := w.peer(testSource).flows[o.Key]; f.active, f.live = false, false }
	wanted := func(w *world) { w.demand[o.Key] = true }
	cases := []struct {
		name  string
		setup func(*world)
		away  func(*world)
		for_  time.Duration
		kept  bool // the mirror is there when the time is over
		state FlowState
		back  func(*world)
		want  []Reason
	}{
		{"back with the same definition at once", wanted, gone, 2 * second, true, FlowIdle, nil, nil},
		{"back with the same definition within MIRROR_IDLE_GRACE_S", wanted, gone, 35 * second, true, FlowIdle, nil, nil},
		{"listed but inactive, with a receiver", wanted, inactive, 80 * second, true, FlowOrphaned, nil, nil},
		{"listed but inactive, without a receiver, within MIRROR_GRACE_S", nil, inactive, 10 * second, true, FlowIdle, nil, nil},
		{"listed but inactive, without a receiver", nil, inactive, 14 * second, false, FlowAbsent, nil, []Reason{OriginGone}},
		{"listed but inactive, without a receiver, under a reader", func(w *world) { w.read(o.Key, 77) }, inactive, 14 * second, false, FlowAbsent, nil, []Reason{OriginGone}},
		{"origin flow gone", wanted, gone, 44 * second, false, FlowAbsent, nil, []Reason{OriginMissing}},
		{"origin flow gone, mapped", func(w *world) { w.read(o.Key, 77) }, gone, 80 * second, true, FlowIdle, nil, nil},
		{"origin flow gone, mapped, then let go of", func(w *world) { w.read(o.Key, 77) }, func(w *world) { gone(w); w.run(80 * second); w.proc.remove(77) }, 4 * second, false, FlowAbsent, nil, []Reason{OriginMissing}},
		{"origin flow gone, readers not known", nil, func(w *world) { gone(w); w.proc.remove(1) }, 80 * second, true, FlowIdle, nil, nil},
		{"origin domain gone", wanted, goneDomain, 4 * second, false, FlowAbsent, nil, []Reason{"mirror_domain_orphan"}},
		{"origin domain gone for less than a poll", func(w *world) { wanted(w); w.run(600 * time.Millisecond) }, goneDomain, 400 * time.Millisecond, true, FlowReplicating, nil, nil},
		{"origin domain gone, mapped", func(w *world) { w.read(o.Key, 77) }, goneDomain, 60 * second, true, FlowIdle, nil, nil},
		{"back with another definition", wanted, func(w *world) {
			f := w.peer(testSource).flows[o.Key]
			f.Origin = o.edit("grain_rate", map[string]int{"numerator": 25, "denominator": 1})
		}, 4 * second, true, FlowReplicating, nil, []Reason{OriginConfigChanged}},
		{"back with another definition, mapped", func(w *world) { w.read(o.Key, 77) }, func(w *world) {
			f := w.peer(testSource).flows[o.Key]
			f.Origin = o.edit("grain_rate", map[string]int{"numerator": 25, "denominator": 1})
		}, 4 * second, true, FlowIdle, nil, []Reason{OriginConfigChanged}},
		{"back with another label", wanted, func(w *world) {
			f := w.peer(testSource).flows[o.Key]
			f.Origin = o.edit("label", "renamed")
		}, 4 * second, true, FlowReplicating, nil, nil},
		{"source peer down", wanted, func(w *world) { w.peer(testSource).up = false }, 80 * second, true, FlowPeerDown, nil, nil},
		{"link down", wanted, func(w *world) { w.peer(testSource).link = false }, 80 * second, true, FlowReplicating, nil, nil},
		{"this agent was killed and started again", wanted, func(w *world) { w.crash(); w.start() }, 4 * second, true, FlowReplicating, nil, nil},
		{"this agent was stopped without cleanup", wanted, func(w *world) {
			if _, err := w.room.Close(false); err != nil {
				w.t.Error(err)
			}
			w.crash()
			w.start()
		}, 4 * second, true, FlowReplicating, nil, nil},
		{"on demand, demand lost for RELEASE_GRACE_MS", func(w *world) { w.set.Eager = false; wanted(w) }, func(w *world) { delete(w.demand, o.Key) }, 2200 * time.Millisecond, false, FlowAbsent, func(w *world) { wanted(w) }, []Reason{NoDemand}},
		{"on demand, demand lost for less", func(w *world) { w.set.Eager = false; wanted(w) }, func(w *world) { delete(w.demand, o.Key) }, 1800 * time.Millisecond, true, FlowReplicating, func(w *world) { wanted(w) }, nil},
		{"excluded", wanted, func(w *world) { w.set.Filter.ExcludeFlows = []string{o.FlowID.String()} }, 4 * second, false, FlowAbsent, func(w *world) { w.set.Filter = Filter{} }, []Reason{Excluded}},
		{"rebuild hook", wanted, func(w *world) {
			w.books.Removed(o.Key, TestHook)
			if _, err := w.room.RebuildFlow(w.t.Context(), o.Key); err != nil {
				w.t.Error(err)
			}
		}, 200 * time.Millisecond, true, FlowReplicating, nil, []Reason{TestHook}},
		{"DELETE of the domain", wanted, func(w *world) {
			if err := w.removeDomain(testDomain, Delete); err != nil {
				w.t.Error(err)
			}
		}, 200 * time.Millisecond, true, FlowReplicating, nil, []Reason{"mirror_domain_api"}},
		{"a function moved here", wanted, func(w *world) { w.local[testDomain] = true }, 4 * second, false, FlowConflict, func(w *world) { w.local = map[string]bool{} }, []Reason{"mirror_domain_same_node"}},
		{"nobody wants the domain for MIRROR_IDLE_GRACE_S", func(w *world) { w.set.Grace = time.Hour }, func(w *world) {
			for _, f := range w.peer(testSource).flows {
				f.active, f.live = false, false
			}
		}, 44 * second, false, FlowAbsent, nil, []Reason{"mirror_domain_idle"}},
		{"something else removed it", wanted, func(w *world) { rename(w.t, flowPath(w.room, o.Key), w.root+"/taken") }, 400 * time.Millisecond, true, FlowReplicating, nil, []Reason{Replaced}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t)
			w.set.IdleGrace = 40 * second
			w.peer(testSource).offer(o)
			w.peer(testSource).offer(other)
			w.run(4 * second)
			if c.setup != nil {
				c.setup(w)
			}
			w.run(StartGuard)
			before := w.inode(o.Key)
			if before == 0 || len(w.events) != 0 {
				t.Fatalf("inode %d, events %+v", before, w.events)
			}
			c.away(w)
			w.run(c.for_)
			if got := w.inode(o.Key); (got != 0) != c.kept || (got != before) != (!c.kept || c.want != nil) {
				t.Errorf("the mirror's inode was %d and is %d", before, got)
			}
			if got := w.step(o.Key).State; got != c.state {
				t.Errorf("state %q, want %q", got, c.state)
			}
			if len(c.want) > 0 && !c.kept {
				if h := w.step(o.Key).Health; h.State != HealthAbsent || h.Reason != string(c.want[0]) {
					t.Errorf("health %+v", h)
				}
			}
			// The origin is back.
			p := w.peer(testSource)
			p.up, p.link = true, true
			if f := p.flows[o.Key]; f == nil {
				p.offer(o)
				p.offer(other)
			} else {
				f.active, f.live = true, true
			}
			if c.back != nil {
				c.back(w)
			}
			w.run(6 * second)
			if got := w.rebuilt(o.Key); !slices.Equal(got, c.want) {
				t.Errorf("rebuilt for %q, want %q", got, c.want)
			}
			if got := w.step(o.Key); got.Rebuilds.Count != len(c.want) {
				t.Errorf("%+v", got)
			}
			if c.want == nil && w.inode(o.Key) != before {
				t.Errorf("the mirror's inode was %d and is %d", before, w.inode(o.Key))
			}
			if w.demand[o.Key] {
				if h := w.step(o.Key).Health; h.State != HealthLive {
					t.Errorf("back, and not live: %+v", h)
				}
			}
			w.crash()
		})
	}
}
