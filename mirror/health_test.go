package mirror

import (
	"testing"
	"time"

	"github.com/mxl-stack/mxl-fabrics-agent/mxl"
)

// healthStep is one pass: after some time, with changed facts, and what it must
// give.
type healthStep struct {
	after  time.Duration
	change func(*healthCase)
	state  HealthState
	reason string
	event  HealthChange
}

// healthCase is the facts of a case and how it makes the indexes: ages count
// back from now at the flow's rate.
type healthCase struct {
	HealthFacts
	age       time.Duration // of the mirror's newest grain; negative: none yet
	originAge time.Duration // of the origin's head; negative: it says none
	poll      bool          // an inventory was taken just now
	frozen    bool          // heads stay where they are
}

func (c *healthCase) facts(now time.Time, tai uint64) HealthFacts {
	f := c.HealthFacts
	head := func(age time.Duration) uint64 { return c.Rate.IndexAt(tai - uint64(age)) }
	if !c.frozen {
		c.Head = 0
		if c.age >= 0 {
			c.Head = head(c.age)
		}
	}
	f.Head = c.Head
	if c.poll {
		c.PolledAt = now
		if !c.frozen {
			c.OriginHead = nil
			if c.originAge >= 0 {
				index := head(c.originAge)
				c.OriginHead = &index
			}
		}
	}
	f.OriginHead, f.PolledAt = c.OriginHead, c.PolledAt
	return f
}

func TestHealth(t *testing.T) {
	s, ms := time.Second, time.Millisecond
	set := func(change func(*healthCase)) func(*healthCase) { return change }
	freeze := set(func(c *healthCase) { c.frozen = true })
	unwanted := set(func(c *healthCase) { c.Demand, c.Hold = false, false })
	mirrorStops := set(func(c *healthCase) { c.age = 3 * s })
	cases := []struct {
		name  string
		start func(*healthCase)
		steps []healthStep
	}{
		{"live: the newest grain is young", nil, []healthStep{
			{0, nil, HealthLive, "", NoChange},
			{200 * ms, set(func(c *healthCase) { c.age = 1960 * ms }), HealthLive, "", NoChange},
		}},
		{"live: held without a receiver", set(func(c *healthCase) { c.Demand = false }), []healthStep{{0, nil, HealthLive, "", NoChange}}},
		{"live: ahead of the clock", set(func(c *healthCase) { c.frozen, c.Head = true, 1<<62 }), []healthStep{{0, nil, HealthLive, "", NoChange}}},
		{"pending: no first grain, then one", set(func(c *healthCase) { c.age = -1 }), []healthStep{
			{0, nil, HealthPending, "", NoChange},
			{1999 * ms, nil, HealthPending, "", NoChange},
			{0, set(func(c *healthCase) { c.age = 40 * ms }), HealthLive, "", NoChange},
		}},
		{"stale: no first grain", set(func(c *healthCase) { c.age = -1 }), []healthStep{
			{0, nil, HealthPending, "", NoChange},
			{2 * s, nil, HealthStale, NoFirstGrain, BecameStale},
			{1 * s, nil, HealthStale, NoFirstGrain, NoChange},
		}},
		{"pending: just wanted again, with an old grain", unwanted, []healthStep{
			{0, mirrorStops, HealthIdle, NobodyWants, NoChange},
			{10 * s, set(func(c *healthCase) { c.Demand = true }), HealthPending, "", NoChange},
			{2 * s, nil, HealthStale, NoNewGrains, BecameStale},
		}},
		{"pending: rebuilt", nil, []healthStep{
			{0, nil, HealthLive, "", NoChange},
			{10 * s, set(func(c *healthCase) { c.Inode, c.age = 8, -1 }), HealthPending, "", NoChange},
			{1999 * ms, nil, HealthPending, "", NoChange},
			{1 * ms, nil, HealthStale, NoFirstGrain, BecameStale},
		}},
		{"stale: no new grains, and back", nil, []healthStep{
			{0, nil, HealthLive, "", NoChange},
			{3 * s, mirrorStops, HealthStale, NoNewGrains, BecameStale},
			{1 * s, nil, HealthStale, NoNewGrains, NoChange},
			{1 * s, set(func(c *healthCase) { c.age = 20 * ms }), HealthLive, "", Recovered},
		}},
		{"stale, then nobody wants it any more", nil, []healthStep{
			{0, nil, HealthLive, "", NoChange},
			{3 * s, mirrorStops, HealthStale, NoNewGrains, BecameStale},
			{1 * s, unwanted, HealthIdle, NobodyWants, Recovered},
		}},
		{"stale: peer down", nil, []healthStep{
			{0, nil, HealthLive, "", NoChange},
			{1 * s, set(func(c *healthCase) {
				c.PeerUp, c.Offered, c.OriginActive, c.OriginLive, c.poll, c.frozen = false, false, false, false, false, true
			}), HealthLive, "", NoChange},
			{3 * s, nil, HealthStale, PeerIsDown, BecameStale},
		}},
		{"stale: link down", nil, []healthStep{
			{0, nil, HealthLive, "", NoChange},
			{1 * s, set(func(c *healthCase) { c.LinkUp = false }), HealthLive, "", NoChange},
			{3 * s, mirrorStops, HealthStale, LinkIsDown, BecameStale},
		}},
		{"stale: link and peer down", set(func(c *healthCase) { c.PeerUp, c.LinkUp, c.Offered, c.age = false, false, false, 3*time.Second }), []healthStep{
			{0, nil, HealthPending, "", NoChange},
			{2 * s, nil, HealthStale, LinkIsDown, BecameStale},
		}},
		{"peer down: a hold alone keeps nothing due", set(func(c *healthCase) { c.Demand, c.PeerUp, c.Offered = false, false, false }), []healthStep{
			{0, nil, HealthIdle, PeerIsDown, NoChange},
		}},
		{"idle: no demand", unwanted, []healthStep{{0, nil, HealthIdle, NobodyWants, NoChange}}},
		{"idle: peer down and no demand", set(func(c *healthCase) { c.Demand, c.Hold, c.PeerUp, c.Offered = false, false, false, false }), []healthStep{{0, nil, HealthIdle, PeerIsDown, NoChange}}},
		{"idle: origin inactive", set(func(c *healthCase) { c.OriginActive, c.OriginLive = false, false }), []healthStep{{0, nil, HealthIdle, OriginInactive, NoChange}}},
		{"idle: origin missing", set(func(c *healthCase) { c.Offered, c.OriginActive, c.OriginLive = false, false, false }), []healthStep{{0, nil, HealthIdle, OriginIsMissing, NoChange}}},
		{"idle: origin missing and no demand", set(func(c *healthCase) { c.Demand, c.Hold, c.Offered, c.OriginLive = false, false, false, false }), []healthStep{{0, nil, HealthIdle, OriginIsMissing, NoChange}}},
		{"idle: inventory pending", set(func(c *healthCase) { c.Offered, c.OriginActive, c.OriginLive, c.Settled = false, false, false, false }), []healthStep{{0, nil, HealthIdle, InventoryPending, NoChange}}},
		{"idle: origin not live, by an older source", set(func(c *healthCase) { c.OriginLive, c.originAge = false, -1 }), []healthStep{
			{0, nil, HealthIdle, OriginNotLive, NoChange},
			{10 * s, nil, HealthIdle, OriginNotLive, NoChange},
		}},
		{"idle: origin silent, seen before its live flag goes", nil, []healthStep{
			{0, nil, HealthLive, "", NoChange},
			{1 * s, freeze, HealthLive, "", NoChange},
			{2100 * ms, nil, HealthIdle, OriginSilent, NoChange},
			{10 * s, set(func(c *healthCase) { c.OriginLive = false }), HealthIdle, OriginSilent, NoChange},
			{1 * s, set(func(c *healthCase) { c.OriginLive, c.frozen, c.age, c.originAge = true, false, 0, 0 }), HealthLive, "", NoChange},
		}},
		{"idle: origin silent and the mirror is not complete is stale", nil, []healthStep{
			{0, nil, HealthLive, "", NoChange},
			{1 * s, set(func(c *healthCase) { c.frozen = true; c.Head -= 5 }), HealthLive, "", NoChange},
			{2100 * ms, nil, HealthStale, NoNewGrains, BecameStale},
		}},
		{"idle: a writer that never wrote", set(func(c *healthCase) {
			zero := uint64(0)
			c.frozen, c.OriginHead, c.Head, c.OriginLive = true, &zero, 0, false
		}), []healthStep{
			{0, nil, HealthIdle, OriginNotLive, NoChange},
			{2 * s, nil, HealthIdle, OriginSilent, NoChange},
		}},
		{"one poll alone shows no silence", nil, []healthStep{
			{0, nil, HealthLive, "", NoChange},
			{100 * ms, set(func(c *healthCase) { c.frozen, c.poll = true, false }), HealthLive, "", NoChange},
			// The mirror has all that the last poll saw; the next one decides.
			{3 * s, nil, HealthLive, "", NoChange},
			{100 * ms, set(func(c *healthCase) { c.poll = true; *c.OriginHead += 150 }), HealthStale, NoNewGrains, BecameStale},
		}},
		{"an older source that stops goes stale until its live flag goes", set(func(c *healthCase) { c.originAge = -1 }), []healthStep{
			{0, nil, HealthLive, "", NoChange},
			{3 * s, freeze, HealthStale, NoNewGrains, BecameStale},
			{2 * s, set(func(c *healthCase) { c.OriginLive = false }), HealthIdle, OriginNotLive, Recovered},
		}},
		{"a clock of this host that is ahead", set(func(c *healthCase) { c.age, c.originAge = 37*time.Second, 37*time.Second }), []healthStep{
			{0, nil, HealthPending, "", NoChange},
			{3 * s, nil, HealthLive, "", NoChange},
			{1 * s, nil, HealthLive, "", NoChange},
		}},
		{"MIRROR_STALE_MS=0: never stale", set(func(c *healthCase) { c.StaleAfter, c.age = 0, -1 }), []healthStep{
			{0, nil, HealthPending, "", NoChange},
			{1e4 * s, nil, HealthPending, "", NoChange},
			{0, set(func(c *healthCase) { c.age = 0 }), HealthLive, "", NoChange},
		}},
		{"absent, with the reason of its removal", set(func(c *healthCase) { c.OnDisk, c.Gone = false, OriginMissing }), []healthStep{{0, nil, HealthAbsent, "origin_missing", NoChange}}},
		{"stale, then absent", nil, []healthStep{
			{0, nil, HealthLive, "", NoChange},
			{3 * s, mirrorStops, HealthStale, NoNewGrains, BecameStale},
			{1 * s, set(func(c *healthCase) { c.OnDisk, c.Gone = false, NoDemand }), HealthAbsent, "no_demand", Recovered},
		}},
	}
	for _, rate := range []mxl.Rational{{Numerator: 50, Denominator: 1}, {Numerator: 60000, Denominator: 1001}, {Numerator: 48000, Denominator: 1}} {
		for _, c := range cases {
			t.Run(c.name+" at "+rate.String(), func(t *testing.T) {
				now, tai := time.Unix(1_700_000_000, 0), uint64(1_700_000_037_000_000_000)
				hc := healthCase{poll: true, originAge: 0, HealthFacts: HealthFacts{
					OnDisk: true, Inode: 7, Rate: rate, Demand: true, Hold: true, PeerUp: true, LinkUp: true,
					Offered: true, Settled: true, OriginActive: true, OriginLive: true, StaleAfter: 2 * time.Second,
				}}
				if c.start != nil {
					c.start(&hc)
				}
				var m HealthMemory
				var since time.Time
				for i, s := range c.steps {
					now, tai = now.Add(s.after), tai+uint64(s.after)
					if s.change != nil {
						s.change(&hc)
					}
					var got Health
					var event HealthChange
					m, got, event = m.Step(hc.facts(now, tai), now, tai)
					if got.State != s.state || got.Reason != s.reason || event != s.event {
						t.Errorf("step %d: %s %q, event %d; want %s %q, event %d", i, got.State, got.Reason, event, s.state, s.reason, s.event)
					}
					if event == BecameStale {
						since = now
					}
					if got.State != HealthStale {
						since = time.Time{}
					}
					if !got.StaleSince.Equal(since) {
						t.Errorf("step %d: stale since %v, want %v", i, got.StaleSince, since)
					}
					if hasGrain := got.State != HealthAbsent && hc.Head != 0; got.HasGrain != hasGrain {
						t.Errorf("step %d: has a grain: %v", i, got.HasGrain)
					}
				}
			})
		}
	}
}

func TestGrainAge(t *testing.T) {
	rate := mxl.Rational{Numerator: 50, Denominator: 1}
	tai := rate.TimeOf(85_000_000_000)
	for _, c := range []struct {
		head uint64
		want time.Duration
	}{{85_000_000_000, 0}, {84_999_999_999, 20 * time.Millisecond}, {84_999_999_900, 2 * time.Second}, {85_000_000_001, 0}} {
		if got := grainAge(rate, c.head, tai); got != c.want {
			t.Errorf("head %d: %v, want %v", c.head, got, c.want)
		}
	}
	if got := grainAge(mxl.Rational{}, 1, tai); got != 0 {
		t.Errorf("without a rate: %v", got)
	}
}

func TestRebuildMemory(t *testing.T) {
	start := time.Unix(1e9, 0)
	type step struct {
		after   time.Duration
		removed Reason
		inode   uint64
		rebuilt Reason // of the event, empty: none
		gone    Reason // shown while absent
	}
	h := time.Hour
	cases := []struct {
		name  string
		steps []step
		count int
	}{
		{"the first file is no rebuild", []step{{0, "", 0, "", ""}, {0, "", 7, "", ""}, {h, "", 7, "", ""}}, 0},
		{"another inode", []step{{0, "", 7, "", ""}, {h, "", 8, Replaced, ""}}, 1},
		{"gone and back", []step{{0, "", 7, "", ""}, {h, "", 0, "", Replaced}, {h, "", 8, Replaced, ""}}, 1},
		{"gone and back under the same inode number", []step{{0, "", 7, "", ""}, {h, "", 0, "", Replaced}, {h, "", 7, Replaced, ""}}, 1},
		{"origin_gone", []step{{0, "", 7, "", ""}, {h, OriginGone, 0, "", OriginGone}, {h, "", 8, OriginGone, ""}}, 1},
		{"origin_missing", []step{{0, "", 7, "", ""}, {h, OriginMissing, 0, "", OriginMissing}, {h, "", 8, OriginMissing, ""}}, 1},
		{"no_demand", []step{{0, "", 7, "", ""}, {h, NoDemand, 0, "", NoDemand}, {h, "", 8, NoDemand, ""}}, 1},
		{"excluded", []step{{0, "", 7, "", ""}, {h, Excluded, 0, "", Excluded}, {h, "", 8, Excluded, ""}}, 1},
		{"origin_config_changed", []step{{0, "", 7, "", ""}, {h, OriginConfigChanged, 8, OriginConfigChanged, ""}}, 1},
		{"api", []step{{0, "", 7, "", ""}, {h, TestHook, 8, TestHook, ""}}, 1},
		{"mirror_domain_idle", []step{{0, "", 7, "", ""}, {h, IdleLong.ForFlow(), 0, "", "mirror_domain_idle"}, {h, "", 8, "mirror_domain_idle", ""}}, 1},
		{"mirror_domain_orphan", []step{{0, "", 7, "", ""}, {h, Orphan.ForFlow(), 0, "", "mirror_domain_orphan"}, {h, "", 8, "mirror_domain_orphan", ""}}, 1},
		{"mirror_domain_same_node", []step{{0, "", 7, "", ""}, {h, SameNode.ForFlow(), 0, "", "mirror_domain_same_node"}, {h, "", 8, "mirror_domain_same_node", ""}}, 1},
		{"mirror_domain_api", []step{{0, "", 7, "", ""}, {h, Delete.ForFlow(), 0, "", "mirror_domain_api"}, {h, "", 8, "mirror_domain_api", ""}}, 1},
		{"a reason is used once", []step{{0, "", 7, "", ""}, {h, TestHook, 8, TestHook, ""}, {h, "", 9, Replaced, ""}}, 2},
		{"twice", []step{{0, "", 7, "", ""}, {h, NoDemand, 0, "", NoDemand}, {h, "", 8, NoDemand, ""}, {h, OriginGone, 0, "", OriginGone}, {h, "", 9, OriginGone, ""}}, 2},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			now, m := start, RebuildMemory{}
			for i, s := range c.steps {
				now = now.Add(s.after)
				if s.removed != "" {
					m = m.Removed(s.removed)
				}
				var rebuilt *Rebuild
				m, rebuilt = m.Step(s.inode, now)
				got := Reason("")
				if rebuilt != nil {
					got = rebuilt.Reason
					if rebuilt.NewInode != s.inode || rebuilt.Count != m.Count || m.LastReason != got || !m.Last.Equal(now) {
						t.Errorf("step %d: %+v, %+v", i, rebuilt, m)
					}
				}
				if got != s.rebuilt {
					t.Errorf("step %d: rebuilt %q, want %q", i, got, s.rebuilt)
				}
				if s.inode == 0 && m.Gone() != s.gone {
					t.Errorf("step %d: gone %q, want %q", i, m.Gone(), s.gone)
				}
			}
			if m.Count != c.count {
				t.Errorf("%d rebuilds, want %d", m.Count, c.count)
			}
		})
	}
}

func TestRebuildsAreForgottenAfterADay(t *testing.T) {
	now := time.Unix(1e9, 0)
	m, _ := RebuildMemory{}.Step(7, now)
	if m.Forgettable(now.Add(48 * time.Hour)) {
		t.Error("a mirror that is there is forgettable")
	}
	m, _ = m.Removed(NoDemand).Step(0, now.Add(time.Minute))
	if m.Forgettable(now.Add(RebuildKept)) {
		t.Error("forgettable within 24 h of when it was seen")
	}
	if !m.Forgettable(now.Add(RebuildKept + 1)) {
		t.Error("not forgettable after 24 h")
	}
	if !(RebuildMemory{}).Forgettable(now) {
		t.Error("nothing seen, and not forgettable")
	}
}
