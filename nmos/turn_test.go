package nmos

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// checkView compares what a view keeps beside its entries with the entries.
func checkView(tb testing.TB, v *view) {
	tb.Helper()
	want := newKin()
	for k := range kinds {
		missing := 0
		for id, e := range v.entries[k] {
			want.add(k, e.res)
			if !e.missing.IsZero() {
				missing++
				if v.gone[k][id] != e {
					tb.Errorf("%s %s is missing and not among those that are gone", k, id)
				}
			}
		}
		if missing != len(v.gone[k]) {
			tb.Errorf("%d of the %ss are missing, %d are gone", missing, k, len(v.gone[k]))
		}
	}
	if !reflect.DeepEqual(v.kin, want) {
		tb.Errorf("kin %+v, want %+v", v.kin, want)
	}
}

// known is the snapshot of an observer, made from all that it knows.
func known(tb testing.TB, o *Observer) Snapshot {
	tb.Helper()
	s := Snapshot{
		RegistryUp: o.view.up, RegistryError: o.view.err, QueryURL: o.view.base,
		Subscribed: o.subs.allOpen(), Stale: o.view.stale(),
	}
	local := map[string]string{}
	for id, e := range o.view.entries[kindNode] {
		if rule, is := o.cfg.Local.Match(LocalNode{ID: id, Hostname: e.res.node.hostname, Hosts: e.res.node.hosts}); is {
			local[id] = rule
		}
		if n := e.res.node; n.control != "" && n.hostID != o.cfg.OwnHostID && id != o.cfg.OwnNodeID {
			s.Agents = append(s.Agents, Agent{HostID: n.hostID, ControlURL: n.control, NodeID: id, Stale: !o.view.up || !e.missing.IsZero()})
		}
	}
	if !maps.Equal(local, o.locality) {
		tb.Errorf("local nodes %v, want %v", o.locality, local)
	}
	slices.SortFunc(s.Agents, func(a, b Agent) int { return cmp.Compare(a.HostID, b.HostID) })
	read := 0
	for id, e := range o.view.entries[kindReceiver] {
		if e.res.receiver.mxl {
			s.Receivers = append(s.Receivers, o.receiver(id, e))
		}
		if isRead := o.plan.reads[id] != nil; isRead != o.isLocal(id) {
			tb.Errorf("receiver %s is read: %v", id, isRead)
		} else if isRead {
			read++
		}
	}
	if read != len(o.plan.reads) {
		tb.Errorf("%d receivers are read that nobody knows", len(o.plan.reads)-read)
	}
	slices.SortFunc(s.Receivers, func(a, b Receiver) int { return cmp.Compare(a.ID, b.ID) })
	return s
}

// randomResource is a resource of a small facility in one of its states.
func randomResource(r *rand.Rand, k kind) resource {
	res := resource{id: testID(k, r.IntN(12))}
	switch k {
	case kindNode:
		res.node = &nodeFacts{label: fmt.Sprint("label", r.IntN(3)), hostname: []string{"here", "there"}[r.IntN(2)], hosts: []string{"192.0.2.9"}}
		if r.IntN(3) == 0 {
			res.node.control, res.node.hostID = fmt.Sprint("http://192.0.2.9:", 80+r.IntN(2)), "host"+res.id
		}
	case kindDevice:
		res.device = &deviceFacts{nodeID: testID(kindNode, r.IntN(12))}
		if r.IntN(2) == 0 {
			res.device.controls = []control{{2, fmt.Sprintf("http://192.0.2.%d/x-nmos/connection/v1.2", r.IntN(4))}}
		}
	case kindReceiver:
		res.receiver = &receiverFacts{}
		if r.IntN(4) > 0 {
			res.receiver = &receiverFacts{mxl: true, deviceID: testID(kindDevice, r.IntN(12)), version: fmt.Sprint(r.IntN(3))}
		}
	}
	if r.IntN(20) == 0 {
		res = resource{id: res.id, bad: true}
	}
	return res
}

// TestWhatIsToldIsWhatIsKnown: whatever passes, messages, reads and time bring, in any
// order, the snapshot that is kept up to date entry by entry is the one that is made
// from everything; and what is let go of is what a look at everything lets go of.
func TestWhatIsToldIsWhatIsKnown(t *testing.T) {
	for seed := range uint64(20) {
		synctest.Test(t, func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 28))
			client := &http.Client{Transport: roundTripper(func(q *http.Request) *http.Response {
				switch time.Now().UnixMilli() / 700 % 4 {
				case 0:
					return answer(http.StatusInternalServerError, "{}")
				case 1:
					return nil
				}
				return answer(http.StatusOK, fmt.Sprintf(`{"master_enable":%t,"transport_params":[{"mxl_domain_id":%q,"mxl_flow_id":%q}]}`,
					time.Now().Unix()%2 == 0, domain1, []string{flow1, flow2}[time.Now().Unix()/5%2]))
			})}
			o, err := NewObserver(ObserverConfig{
				Directory: StaticDirectory{}, Client: client, NoSubscriptions: true, OwnNodeID: testID(kindNode, 0),
				Local: NewLocalRules(LocalConfig{Hostname: "here"}),
			})
			if err != nil {
				t.Fatal(err)
			}
			ctx, stop := context.WithCancel(t.Context())
			all := newView(o.view.removeHold, o.view.restartHold, o.cfg.OwnNodeID)
			for range 400 {
				now := time.Now()
				passed := false
				switch n := r.IntN(10); {
				case n < 2:
					p := pass{base: "q", started: now}
					for k := range kinds {
						for range r.IntN(24) {
							p.lists[k] = append(p.lists[k], randomResource(r, k))
						}
					}
					if r.IntN(6) == 0 {
						p = pass{base: "q", started: now, err: fmt.Errorf("down %d", r.IntN(2))}
					}
					o.apply(ctx, event{pass: &p})
					all.applyPass(p, 0, now)
					passed = p.err == nil
				case n < 8:
					m := message{kind: kind(r.IntN(int(kinds)))}
					for range 1 + r.IntN(4) {
						m.changes = append(m.changes, change{res: randomResource(r, m.kind), removed: r.IntN(3) == 0})
					}
					o.apply(ctx, event{message: &subscriptionMessage{message: m}})
					all.applyMessage(m, now)
				default:
					time.Sleep(time.Duration(r.IntN(20_000)) * time.Millisecond)
				}
				for drained := false; !drained; {
					synctest.Wait()
					select {
					case e := <-o.events:
						o.apply(ctx, e)
					default:
						drained = true
					}
				}
				now = time.Now()
				o.turn(ctx, now)
				all.expire(now, o.answers)
				o.turn(ctx, now)
				checkView(t, o.view)
				want := known(t, o)
				got := o.Snapshot()
				got.ActiveErrors, got.PollErrors, got.BadResources = 0, 0, 0
				if !reflect.DeepEqual(got, want) && (len(got.Receivers)+len(want.Receivers) > 0 || got.Stale != want.Stale) {
					t.Fatalf("seed %d: told %+v\nknown %+v", seed, got, want)
				}
				for k := range kinds {
					if !passed {
						continue
					}
					if here, there := slices.Sorted(maps.Keys(o.view.entries[k])), slices.Sorted(maps.Keys(all.entries[k])); !slices.Equal(here, there) {
						t.Fatalf("seed %d: %ss %v, a look at everything leaves %v", seed, k, here, there)
					}
				}
				if t.Failed() {
					t.Fatalf("seed %d", seed)
				}
			}
			stop()
			synctest.Wait()
			for len(o.events) > 0 {
				<-o.events
			}
			o.work.Wait()
		})
	}
}

// largeFacility is an observer that knows n receivers of other hosts, ten of a node,
// while some that were listed before are missing.
func largeFacility(tb testing.TB, n int) *Observer {
	tb.Helper()
	o, err := NewObserver(ObserverConfig{Directory: StaticDirectory{}, NoSubscriptions: true, Local: NewLocalRules(LocalConfig{Hostname: "here"})})
	if err != nil {
		tb.Fatal(err)
	}
	var p pass
	p.base = "q"
	for i := range n {
		if i%10 == 0 {
			p.lists[kindNode] = append(p.lists[kindNode], resource{id: testID(kindNode, i/10), node: &nodeFacts{hostname: "there", hosts: []string{"192.0.2.9"}}})
			p.lists[kindDevice] = append(p.lists[kindDevice], resource{id: testID(kindDevice, i/10), device: &deviceFacts{nodeID: testID(kindNode, i/10)}})
		}
		p.lists[kindReceiver] = append(p.lists[kindReceiver], changedReceiver(i, 0).res)
	}
	p.started = time.Now()
	o.apply(tb.Context(), event{pass: &p})
	p.started = time.Now()
	p.lists[kindReceiver] = p.lists[kindReceiver][:n/2]
	o.apply(tb.Context(), event{pass: &p})
	o.turn(tb.Context(), time.Now())
	return o
}

func changedReceiver(i, version int) change {
	return change{res: resource{id: testID(kindReceiver, i), receiver: &receiverFacts{mxl: true, deviceID: testID(kindDevice, i/10), version: fmt.Sprint(version)}}}
}

// round is a message about ten receivers, one device and one node, and what follows.
func round(ctx context.Context, o *Observer, version int) {
	for _, m := range []message{
		{kind: kindNode, changes: []change{{res: resource{id: testID(kindNode, 3), node: &nodeFacts{label: fmt.Sprint(version), hostname: "there"}}}}},
		{kind: kindDevice, changes: []change{{res: resource{id: testID(kindDevice, 3), device: &deviceFacts{nodeID: testID(kindNode, 3), controls: []control{{version, "http://192.0.2.9"}}}}}}},
		{kind: kindReceiver},
	} {
		if m.kind == kindReceiver {
			for i := range 10 {
				m.changes = append(m.changes, changedReceiver(40+i, version))
			}
		}
		o.apply(ctx, event{message: &subscriptionMessage{message: m}})
		o.turn(ctx, time.Now())
	}
}

// TestAMessageCostsWhatItSays: what is allocated for a message does not grow with what
// is known. It was a new list of all receivers, sorted, for each.
func TestAMessageCostsWhatItSays(t *testing.T) {
	allocated := func(n int) uint64 {
		o := largeFacility(t, n)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		for version := range 50 {
			round(t.Context(), o, version+1)
		}
		runtime.ReadMemStats(&after)
		return (after.TotalAlloc - before.TotalAlloc) / 50
	}
	if few, many := allocated(1000), allocated(10_000); many > 2*few {
		t.Errorf("%d bytes with 1,000 receivers, %d with 10,000", few, many)
	}
}

// BenchmarkMessage measures three messages, of a node, a device and ten receivers, and
// what follows from them in the observer, while 1,000 or 10,000 receivers are known and
// half of them are missing. "read" includes the list of all receivers, which is made for
// whoever reads it, five times a second at most.
func BenchmarkMessage(b *testing.B) {
	for _, n := range []int{1000, 10_000} {
		for _, mode := range []string{"told", "read"} {
			b.Run(fmt.Sprintf("known=%d/%s", n, mode), func(b *testing.B) {
				o := largeFacility(b, n)
				b.ReportAllocs()
				for version := 1; b.Loop(); version++ {
					round(b.Context(), o, version)
					if mode == "read" {
						o.Snapshot()
					}
				}
			})
		}
	}
}

// TestBoardMerges: lists after changes in front, between, behind, of rows that go and of
// rows that never were.
func TestBoardMerges(t *testing.T) {
	var b board
	row := func(id, label string) *Receiver { return &Receiver{ID: id, Label: label} }
	for _, step := range []struct {
		rows map[string]*Receiver
		want string
	}{
		{nil, ""},
		{map[string]*Receiver{"d": row("d", "1"), "b": row("b", "1")}, "b1 d1"},
		{map[string]*Receiver{"a": row("a", "1"), "c": row("c", "1"), "e": row("e", "1")}, "a1 b1 c1 d1 e1"},
		{map[string]*Receiver{"a": nil, "c": row("c", "2"), "x": nil}, "b1 c2 d1 e1"},
		{map[string]*Receiver{"e": nil, "f": row("f", "1")}, "b1 c2 d1 f1"},
	} {
		before := b.read().Receivers
		kept := slices.Clone(before)
		b.post(Snapshot{}, step.rows)
		var got []string
		for _, r := range b.read().Receivers {
			got = append(got, r.ID+r.Label)
		}
		if text := strings.Join(got, " "); text != step.want {
			t.Errorf("%v, want %s", text, step.want)
		}
		if !slices.Equal(before, kept) {
			t.Error("a list that was read has changed")
		}
	}
	// Nobody reads: what waits stays bounded.
	for i := range 10_000 {
		id := fmt.Sprint(i)
		b.post(Snapshot{}, map[string]*Receiver{id: row(id, "")})
		b.post(Snapshot{}, map[string]*Receiver{id: nil})
	}
	if len(b.pending) > 2000 || len(b.read().Receivers) != 4 {
		t.Errorf("%d rows wait, %d are told", len(b.pending), len(b.receivers))
	}
}
