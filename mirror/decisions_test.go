package mirror

import (
	"strings"
	"testing"
	"time"
)

func TestPlanFlow(t *testing.T) {
	// A flow of an up peer with a writer, wanted, on disk, eager.
	base := FlowFacts{PeerUp: true, Offered: true, Active: true, OnDisk: true, Demand: true, Hold: true, Fits: true, Eager: true, Grace: 10 * time.Second}
	with := func(change func(*FlowFacts)) FlowFacts { f := base; change(&f); return f }
	unwanted := func(f *FlowFacts) { f.Demand, f.Hold = false, false }
	cases := []struct {
		name string
		f    FlowFacts
		want FlowPlan
	}{
		{"wanted", base, FlowPlan{State: FlowReplicating, Action: Ensure, Pull: true}},
		{"wanted, not on disk", with(func(f *FlowFacts) { f.OnDisk = false }), FlowPlan{State: FlowReplicating, Action: Ensure, Pull: true}},
		{"eager, not wanted", with(unwanted), FlowPlan{State: FlowIdle, Action: Ensure}},
		{"eager, not wanted, not on disk", with(func(f *FlowFacts) { unwanted(f); f.OnDisk = false }), FlowPlan{State: FlowIdle, Action: Ensure}},
		{"on demand, wanted", with(func(f *FlowFacts) { f.Eager = false }), FlowPlan{State: FlowReplicating, Action: Ensure, Pull: true}},
		{"on demand, demand lost, held", with(func(f *FlowFacts) { f.Eager, f.Demand = false, false }), FlowPlan{State: FlowReplicating, Action: Ensure, Pull: true}},
		{"on demand, not wanted", with(func(f *FlowFacts) { unwanted(f); f.Eager = false }), FlowPlan{State: FlowAbsent, Action: Remove, Reason: NoDemand}},
		{"on demand, not wanted, not on disk", with(func(f *FlowFacts) { unwanted(f); f.Eager, f.OnDisk = false, false }), FlowPlan{State: FlowAbsent}},
		{"local origin", with(func(f *FlowFacts) { f.Local = true }), FlowPlan{State: FlowConflict}},
		{"foreign directory", with(func(f *FlowFacts) { f.Foreign = true }), FlowPlan{State: FlowConflict}},
		{"local comes before excluded", with(func(f *FlowFacts) { f.Local, f.Excluded = true, true }), FlowPlan{State: FlowConflict}},
		{"excluded", with(func(f *FlowFacts) { f.Excluded = true }), FlowPlan{State: FlowAbsent, Action: Remove, Reason: Excluded}},
		{"excluded, not on disk", with(func(f *FlowFacts) { f.Excluded, f.OnDisk = true, false }), FlowPlan{State: FlowAbsent}},
		{"excluded comes before peer down", with(func(f *FlowFacts) { f.Excluded, f.PeerUp = true, false }), FlowPlan{State: FlowAbsent, Action: Remove, Reason: Excluded}},
		{"peer down", with(func(f *FlowFacts) { f.PeerUp, f.Offered, f.Active = false, false, false }), FlowPlan{State: FlowPeerDown}},
		{"peer down, not on disk", with(func(f *FlowFacts) { f.PeerUp, f.OnDisk = false, false }), FlowPlan{State: FlowAbsent}},
		{"not offered", with(func(f *FlowFacts) { f.Offered, f.Active = false, false }), FlowPlan{State: FlowIdle}},
		{"not offered, not on disk", with(func(f *FlowFacts) { f.Offered, f.OnDisk = false, false }), FlowPlan{State: FlowAbsent}},
		{"inactive within the grace", with(func(f *FlowFacts) { f.Active, f.InactiveFor = false, 10*time.Second }), FlowPlan{State: FlowIdle}},
		{"inactive within the grace, not wanted", with(func(f *FlowFacts) { unwanted(f); f.Active, f.InactiveFor = false, 10*time.Second }), FlowPlan{State: FlowIdle}},
		{"inactive, wanted", with(func(f *FlowFacts) { f.Active, f.InactiveFor = false, 10*time.Second+1 }), FlowPlan{State: FlowOrphaned}},
		{"inactive, not wanted", with(func(f *FlowFacts) { unwanted(f); f.Active, f.InactiveFor = false, 10*time.Second+1 }), FlowPlan{State: FlowAbsent, Action: Remove, Reason: OriginGone}},
		{"inactive, not on disk", with(func(f *FlowFacts) { f.Active, f.OnDisk = false, false }), FlowPlan{State: FlowAbsent}},
		{"inactive, not on disk, would not fit", with(func(f *FlowFacts) { f.Active, f.OnDisk, f.Fits = false, false, false }), FlowPlan{State: FlowNoSpace}},
		{"inactive, not on disk, not wanted, would not fit", with(func(f *FlowFacts) { unwanted(f); f.Active, f.OnDisk, f.Fits, f.Eager = false, false, false, false }), FlowPlan{State: FlowAbsent}},
		{"space short", with(func(f *FlowFacts) { f.OnDisk, f.Fits = false, false }), FlowPlan{State: FlowNoSpace}},
		{"space short, on disk", with(func(f *FlowFacts) { f.Fits = false }), FlowPlan{State: FlowReplicating, Action: Ensure, Pull: true}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			if got := PlanFlow(c.f); got != c.want {
				t.Errorf("%+v, want %+v", got, c.want)
			}
		})
	}
}

func TestFilter(t *testing.T) {
	k := origin("data", 1).Key
	flow, other := k.FlowID.String(), origin("data", 2).FlowID.String()
	cases := []struct {
		name string
		f    Filter
		want bool
	}{
		{"none", Filter{}, false},
		{"domain excluded", Filter{ExcludeDomains: []string{"x", testDomain}}, true},
		{"flow excluded", Filter{ExcludeFlows: []string{flow}}, true},
		{"in another case, excluded", Filter{ExcludeFlows: []string{strings.ToUpper(flow)}}, true},
		{"in another case, domain excluded", Filter{ExcludeDomains: []string{strings.ToUpper(testDomain)}}, true},
		{"in another case, included", Filter{IncludeDomains: []string{strings.ToUpper(testDomain)}, IncludeFlows: []string{strings.ToUpper(flow)}}, false},
		{"another flow excluded", Filter{ExcludeFlows: []string{other}}, false},
		{"domain included", Filter{IncludeDomains: []string{testDomain}}, false},
		{"another domain included", Filter{IncludeDomains: []string{"x"}}, true},
		{"another flow included", Filter{IncludeFlows: []string{other}}, true},
		{"both lists must match", Filter{IncludeDomains: []string{testDomain}, IncludeFlows: []string{other}}, true},
		{"both lists match", Filter{IncludeDomains: []string{testDomain}, IncludeFlows: []string{flow}}, false},
		{"exclude wins", Filter{IncludeFlows: []string{flow}, ExcludeDomains: []string{testDomain}}, true},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			if got := c.f.Excludes(k); got != c.want {
				t.Errorf("%v", got)
			}
		})
	}
}

var (
	calm   = Surroundings{SinceStart: time.Hour, NMOS: true, RegistryAnswers: true}
	silent = Surroundings{SinceStart: time.Hour, NMOS: true}
	young  = Surroundings{SinceStart: StartGuard - 1, NMOS: true, RegistryAnswers: true}
	dry    = Surroundings{SinceStart: time.Hour, NMOS: true, RegistryAnswers: true, DryRun: true}
	noNMOS = Surroundings{SinceStart: StartGuard}

	nobody   = ReaderFacts{Known: true}
	somebody = ReaderFacts{Known: true, Mapped: []Reader{{77, "player"}}}
	unknown  = ReaderFacts{Why: "own PID namespace"}
)

func TestJudgeDomain(t *testing.T) {
	active := DomainFacts{Listed: true, Source: PeerUp, Settled: true, LiveEager: true, IdleGrace: 300 * time.Second}
	idle := DomainFacts{Listed: true, Source: PeerUp, Settled: true, IdleFor: 300 * time.Second, IdleGrace: 300 * time.Second}
	orphan := DomainFacts{Source: PeerUp, Settled: true, Demand: true}
	local := DomainFacts{Local: true, Listed: true, Source: PeerUp, Demand: true}
	with := func(f DomainFacts, change func(*DomainFacts)) DomainFacts { change(&f); return f }
	cases := []struct {
		name    string
		f       DomainFacts
		around  Surroundings
		readers ReaderFacts
		want    DomainVerdict
	}{
		{"active: eager mirrors a live origin", active, calm, nobody, DomainVerdict{State: DomainActive}},
		{"active: a receiver wants it", with(idle, func(f *DomainFacts) { f.Demand = true }), calm, nobody, DomainVerdict{State: DomainActive}},
		{"active: a replication is held", with(idle, func(f *DomainFacts) { f.Hold = true }), calm, nobody, DomainVerdict{State: DomainActive}},
		{"active: source down, wanted", with(active, func(f *DomainFacts) { f.Listed, f.Source, f.LiveEager, f.Demand = false, PeerDown, false, true }), calm, nobody, DomainVerdict{State: DomainActive}},

		{"same_node goes", local, calm, nobody, DomainVerdict{DomainSameNode, SameNode, NoGuard}},
		{"same_node within 30 s", local, young, nobody, DomainVerdict{DomainSameNode, SameNode, JustStarted}},
		{"same_node while the registry is silent", local, silent, nobody, DomainVerdict{DomainSameNode, SameNode, NoGuard}},
		{"same_node under a reader", local, calm, somebody, DomainVerdict{DomainSameNode, SameNode, ReadersMapped}},
		{"same_node, readers unknown", local, calm, unknown, DomainVerdict{DomainSameNode, SameNode, ReadersUnknown}},
		{"same_node, dry run", local, dry, nobody, DomainVerdict{DomainSameNode, SameNode, DryRun}},

		{"orphan goes, wanted or not", orphan, calm, nobody, DomainVerdict{DomainOrphan, Orphan, NoGuard}},
		{"orphan of an unknown peer", with(orphan, func(f *DomainFacts) { f.Source, f.Settled = PeerUnknown, false }), calm, nobody, DomainVerdict{DomainOrphan, Orphan, NoGuard}},
		{"not orphan: source down", with(orphan, func(f *DomainFacts) { f.Source = PeerDown }), calm, nobody, DomainVerdict{State: DomainActive}},
		{"not orphan: another peer lists it", with(orphan, func(f *DomainFacts) { f.Listed = true }), calm, nobody, DomainVerdict{State: DomainActive}},
		{"orphan within 30 s", orphan, young, nobody, DomainVerdict{DomainOrphan, Orphan, JustStarted}},
		{"orphan while the registry is silent", orphan, silent, nobody, DomainVerdict{DomainOrphan, Orphan, RegistrySilent}},
		{"orphan without NMOS", orphan, noNMOS, nobody, DomainVerdict{DomainOrphan, Orphan, NoGuard}},
		{"orphan, inventory not settled", with(orphan, func(f *DomainFacts) { f.Settled = false }), calm, nobody, DomainVerdict{DomainOrphan, Orphan, NotSettled}},
		{"orphan under a reader", orphan, calm, somebody, DomainVerdict{DomainOrphan, Orphan, ReadersMapped}},
		{"orphan, readers unknown", orphan, calm, unknown, DomainVerdict{DomainOrphan, Orphan, ReadersUnknown}},
		{"orphan, dry run", orphan, dry, nobody, DomainVerdict{DomainOrphan, Orphan, DryRun}},

		{"idle goes after its grace", idle, calm, nobody, DomainVerdict{DomainIdle, IdleLong, NoGuard}},
		{"idle within its grace", with(idle, func(f *DomainFacts) { f.IdleFor-- }), calm, nobody, DomainVerdict{DomainIdle, IdleLong, GraceRuns}},
		{"idle, grace 0 is never", with(idle, func(f *DomainFacts) { f.IdleGrace = 0 }), calm, nobody, DomainVerdict{State: DomainIdle}},
		{"idle, source down", with(idle, func(f *DomainFacts) { f.Source, f.Listed = PeerDown, false }), calm, nobody, DomainVerdict{DomainIdle, IdleLong, NoGuard}},
		{"idle within 30 s", idle, young, nobody, DomainVerdict{DomainIdle, IdleLong, JustStarted}},
		{"idle while the registry is silent", idle, silent, nobody, DomainVerdict{DomainIdle, IdleLong, RegistrySilent}},
		{"idle under a reader", idle, calm, somebody, DomainVerdict{DomainIdle, IdleLong, ReadersMapped}},
		{"idle, readers unknown", idle, calm, unknown, DomainVerdict{DomainIdle, IdleLong, ReadersUnknown}},
		{"idle, dry run", idle, dry, nobody, DomainVerdict{DomainIdle, IdleLong, DryRun}},
		{"idle, dry run, under a reader", idle, dry, somebody, DomainVerdict{DomainIdle, IdleLong, ReadersMapped}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			if got := JudgeDomain(c.f, c.around, c.readers); got != c.want {
				t.Errorf("%+v, want %+v", got, c.want)
			}
			if got := JudgeDomain(c.f, c.around, c.readers); got.Go() != (c.want.Reason != "" && c.want.Guard == NoGuard) {
				t.Errorf("Go() is %v", got.Go())
			}
		})
	}
}

func TestGuardRemoval(t *testing.T) {
	cases := []struct {
		name    string
		reason  Reason
		around  Surroundings
		readers ReaderFacts
		want    Guard
	}{
		{"origin_gone needs no reader check", OriginGone, calm, somebody, NoGuard},
		{"origin_gone, readers unknown", OriginGone, calm, unknown, NoGuard},
		{"origin_gone within 30 s", OriginGone, young, nobody, JustStarted},
		{"origin_gone while demand is not known", OriginGone, silent, nobody, RegistrySilent},
		{"origin_gone, dry run", OriginGone, dry, nobody, DryRun},
		{"no_demand", NoDemand, calm, nobody, NoGuard},
		{"no_demand under a reader", NoDemand, calm, somebody, ReadersMapped},
		{"no_demand, readers unknown", NoDemand, calm, unknown, NoGuard},
		{"no_demand within 30 s", NoDemand, young, nobody, JustStarted},
		{"no_demand while demand is not known", NoDemand, silent, nobody, RegistrySilent},
		{"no_demand without NMOS", NoDemand, noNMOS, nobody, NoGuard},
		{"no_demand, dry run", NoDemand, dry, nobody, DryRun},
		{"excluded", Excluded, silent, nobody, NoGuard},
		{"excluded under a reader", Excluded, calm, somebody, ReadersMapped},
		{"excluded within 30 s", Excluded, young, nobody, JustStarted},
		{"excluded, dry run", Excluded, dry, nobody, DryRun},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			if got := GuardRemoval(c.reason, c.around, c.readers); got != c.want {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}

func TestMissingClock(t *testing.T) {
	missing := MissingFacts{SourceUp: true, Settled: true, IdleGrace: 300 * time.Second}
	offered := MissingFacts{SourceUp: true, Settled: true, Offered: true, IdleGrace: 300 * time.Second}
	down := MissingFacts{Settled: true, IdleGrace: 300 * time.Second}
	pending := MissingFacts{SourceUp: true, IdleGrace: 300 * time.Second}
	never := MissingFacts{SourceUp: true, Settled: true}
	type step struct {
		after   time.Duration
		f       MissingFacts
		around  Surroundings
		readers ReaderFacts
		want    MissingVerdict
	}
	s := time.Second
	cases := []struct {
		name  string
		steps []step
	}{
		{"goes after the grace", []step{
			{0, missing, calm, nobody, MissingVerdict{Missing: true, Started: true}},
			{299 * s, missing, calm, nobody, MissingVerdict{Missing: true, Gone: 299 * s}},
			{1 * s, missing, calm, nobody, MissingVerdict{Missing: true, Gone: 300 * s, Due: true}},
		}},
		{"offered again starts again", []step{
			{0, missing, calm, nobody, MissingVerdict{Missing: true, Started: true}},
			{299 * s, offered, calm, nobody, MissingVerdict{}},
			{1 * s, missing, calm, nobody, MissingVerdict{Missing: true, Started: true}},
			{299 * s, missing, calm, nobody, MissingVerdict{Missing: true, Gone: 299 * s}},
		}},
		{"source down starts again", []step{
			{0, missing, calm, nobody, MissingVerdict{Missing: true, Started: true}},
			{299 * s, down, calm, nobody, MissingVerdict{}},
			{1000 * s, missing, calm, nobody, MissingVerdict{Missing: true, Started: true}},
		}},
		{"not settled pauses", []step{
			{0, missing, calm, nobody, MissingVerdict{Missing: true, Started: true}},
			{200 * s, missing, calm, nobody, MissingVerdict{Missing: true, Gone: 200 * s}},
			{50 * s, pending, calm, nobody, MissingVerdict{Pending: true, Gone: 200 * s}},
			{50 * s, pending, calm, nobody, MissingVerdict{Pending: true, Gone: 200 * s}},
			{1 * s, missing, calm, nobody, MissingVerdict{Missing: true, Gone: 200 * s}},
			{99 * s, missing, calm, nobody, MissingVerdict{Missing: true, Gone: 299 * s}},
			{1 * s, missing, calm, nobody, MissingVerdict{Missing: true, Gone: 300 * s, Due: true}},
		}},
		{"not settled from the start", []step{
			{0, pending, calm, nobody, MissingVerdict{Pending: true}},
			{1000 * s, pending, calm, nobody, MissingVerdict{Pending: true}},
			{1 * s, missing, calm, nobody, MissingVerdict{Missing: true, Started: true}},
		}},
		{"grace 0 is never", []step{
			{0, never, calm, nobody, MissingVerdict{Missing: true, Started: true}},
			{1e6 * s, never, calm, nobody, MissingVerdict{Missing: true, Gone: 1e6 * s}},
		}},
		{"guards", []step{
			{0, missing, calm, nobody, MissingVerdict{Missing: true, Started: true}},
			{300 * s, missing, young, nobody, MissingVerdict{Missing: true, Gone: 300 * s, Due: true, Guard: JustStarted}},
			{1 * s, missing, silent, nobody, MissingVerdict{Missing: true, Gone: 301 * s, Due: true, Guard: RegistrySilent}},
			{1 * s, missing, calm, somebody, MissingVerdict{Missing: true, Gone: 302 * s, Due: true, Guard: ReadersMapped}},
			{1 * s, missing, calm, unknown, MissingVerdict{Missing: true, Gone: 303 * s, Due: true, Guard: ReadersUnknown}},
			{1 * s, missing, dry, nobody, MissingVerdict{Missing: true, Gone: 304 * s, Due: true, Guard: DryRun}},
			{1 * s, missing, noNMOS, nobody, MissingVerdict{Missing: true, Gone: 305 * s, Due: true}},
		}},
		{"a clock that is set back adds nothing", []step{
			{0, missing, calm, nobody, MissingVerdict{Missing: true, Started: true}},
			{-100 * s, missing, calm, nobody, MissingVerdict{Missing: true}},
			{10 * s, missing, calm, nobody, MissingVerdict{Missing: true, Gone: 10 * s}},
		}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			now, clock := time.Unix(1e9, 0), MissingClock{}
			for i, s := range c.steps {
				now = now.Add(s.after)
				var got MissingVerdict
				clock, got = clock.Step(s.f, s.around, s.readers, now)
				if got != s.want {
					t.Errorf("step %d: %+v, want %+v", i, got, s.want)
				}
				if got.Go() != (s.want.Due && s.want.Guard == NoGuard) {
					t.Errorf("step %d: Go() is %v", i, got.Go())
				}
			}
		})
	}
}
