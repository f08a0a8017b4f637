package nmos

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// checkReads: every receiver is in exactly one place, and each host counts what it has.
func checkReads(tb testing.TB, p *readPlan) {
	tb.Helper()
	places := map[*read]int{}
	busy := map[*readHost]int{}
	count := func(list []*read, taken bool) {
		for _, r := range list {
			places[r]++
			if taken {
				busy[r.at]++
			}
		}
	}
	count(p.queue, false)
	count(p.ready, true)
	receivers := map[*readHost]int{}
	for _, h := range p.hosts {
		for _, r := range h.waiting {
			if p.reads[r.id] == r {
				places[r]++
			}
		}
		count(h.attempts, true)
	}
	for id, r := range p.reads {
		if r.running {
			places[r]++
			busy[r.at]++
		}
		if places[r] != 1 {
			tb.Fatalf("%s is in %d places: %+v", id, places[r], r)
		}
		if r.at != nil {
			receivers[r.at]++
		}
	}
	for name, h := range p.hosts {
		if h.receivers != receivers[h] || h.busy < busy[h] {
			tb.Fatalf("host %s: %d receivers, %d busy; want %d, at least %d", name, h.receivers, h.busy, receivers[h], busy[h])
		}
		if !h.silent() && h.probe != nil || h.silent() && h.probe == nil && len(h.waiting) > 0 && h.busy == 0 && alive(p, h) {
			tb.Fatalf("host %s, silent %v, nobody asks: %+v", name, h.silent(), h)
		}
	}
	if len(receivers) != len(p.hosts) {
		tb.Fatalf("%d hosts, %d of them with receivers", len(p.hosts), len(receivers))
	}
}

func alive(p *readPlan, h *readHost) bool {
	for _, r := range h.waiting {
		if p.reads[r.id] == r {
			return true
		}
	}
	return false
}

// play runs a plan for a while; answer says how long a read takes and how it ends. It
// counts the reads of each host.
func play(p *readPlan, from time.Time, d time.Duration, hostOf func(*read) string, answer func(host string, now time.Time) (time.Duration, outcome)) (counts map[string]int, turned []string) {
	counts = map[string]int{}
	type running struct {
		r  *read
		at time.Time
		o  outcome
	}
	var under []running
	for now := from; now.Before(from.Add(d)); {
		for r := p.next(now, hostOf); r != nil; r = p.next(now, hostOf) {
			counts[r.at.name]++
			took, o := answer(r.at.name, now)
			under = append(under, running{r, now.Add(took), o})
		}
		next := p.wake()
		if next.IsZero() {
			next = from.Add(d)
		}
		for _, u := range under {
			next = earlier(next, u.at)
		}
		now = next
		for i := 0; i < len(under); i++ {
			if u := under[i]; !now.Before(u.at) {
				if h := p.done(u.r, u.o, now); h != nil {
					turned = append(turned, fmt.Sprint(h.name, map[bool]string{true: " silent", false: " answers"}[h.silent()]))
				}
				u.r.known = u.r.known || u.o.ok
				under = append(under[:i], under[i+1:]...)
				i--
			}
		}
	}
	for _, u := range under { // what is under way ends
		p.done(u.r, u.o, from.Add(d))
	}
	return counts, turned
}

var good = outcome{ok: true, answered: true}

// TestDeadNodesDelayNobody: a hundred nodes that hang until the time-out, with twenty
// receivers each, and one that answers: it is read every second, as if it were alone.
// Their reads filled every slot.
func TestDeadNodesDelayNobody(t *testing.T) {
	p, now := newReadPlan(time.Second, 64), time.Unix(1000, 0)
	hostOf := func(r *read) string { return strings.SplitN(r.id, "/", 2)[0] }
	for h := range 100 {
		for r := range 20 {
			p.add(fmt.Sprintf("dead%d/%d", h, r), now)
		}
	}
	for r := range 20 {
		p.add(fmt.Sprintf("well/%d", r), now)
	}
	answer := func(host string, _ time.Time) (time.Duration, outcome) {
		if host == "well" {
			return time.Millisecond, good
		}
		return requestTimeout, outcome{}
	}
	// The node that answers has to be found among the others first.
	play(p, now, 20*time.Second, hostOf, answer)
	checkReads(t, p)
	counts, _ := play(p, now.Add(20*time.Second), 60*time.Second, hostOf, answer)
	checkReads(t, p)
	if n := counts["well"]; n < 20*59 {
		t.Errorf("%d reads of the node that answers in a minute, want %d", n, 20*60)
	}
	if n := counts["dead7"]; n < 8 || n > 20 {
		t.Errorf("%d reads of a node that does not answer in a minute", n)
	}
}

// TestSilentHostIsAskedForOne: ten thousand receivers of a host that refuses connections
// cost a handful of reads, and all of them are read within seconds when it is back.
func TestSilentHostIsAskedForOne(t *testing.T) {
	p, now := newReadPlan(time.Second, 64), time.Unix(1000, 0)
	for r := range 10_000 {
		p.add(fmt.Sprint(r), now)
	}
	back := now.Add(61 * time.Second)
	counts, turned := play(p, now, 80*time.Second, func(*read) string { return "h" }, func(_ string, at time.Time) (time.Duration, outcome) {
		if at.Before(back) {
			return 100 * time.Microsecond, outcome{}
		}
		return time.Millisecond, good
	})
	checkReads(t, p)
	if got := fmt.Sprint(turned); got != "[h silent h answers]" {
		t.Errorf("turned %s, want once each way", got)
	}
	known := 0
	for _, r := range p.reads {
		if r.known {
			known++
		}
	}
	if known != 10_000 {
		t.Errorf("%d of 10,000 are known 19 s after it came back", known)
	}
	// Four, and then one after half the time it has been silent, from 1 to 5 s.
	q := newReadPlan(time.Second, 64)
	for r := range 10_000 {
		q.add(fmt.Sprint(r), now)
	}
	counts, _ = play(q, now, time.Minute, func(*read) string { return "h" }, func(string, time.Time) (time.Duration, outcome) { return 100 * time.Microsecond, outcome{} })
	if n := counts["h"]; n < 12 || n > 20 {
		t.Errorf("%d reads in a minute at a host that refuses", n)
	}
}

// TestDeadAddressesAreTriedInTurn: ten thousand receivers, each of another host that is
// not there, are asked a hundred times a second after the first, and the host that
// answers is found before they have all been asked again.
func TestDeadAddressesAreTriedInTurn(t *testing.T) {
	p, now := newReadPlan(time.Second, 64), time.Unix(1000, 0)
	for r := range 10_000 {
		p.add(fmt.Sprint(r), now)
	}
	total := 0
	play(p, now, 10*time.Second, func(r *read) string { return r.id }, func(string, time.Time) (time.Duration, outcome) {
		total++
		return 100 * time.Microsecond, outcome{}
	})
	checkReads(t, p)
	if want := attemptsAtOnce + 1000; total < want-20 || total > want+20 {
		t.Errorf("%d reads in 10 s, want %d", total, want)
	}
}

// TestASilentHostIsAskedWhenSomethingIsHeardOfIt: IS-04 says that one of its receivers
// changed, so it is back.
func TestASilentHostIsAskedWhenSomethingIsHeardOfIt(t *testing.T) {
	p, now := newReadPlan(time.Second, 64), time.Unix(1000, 0)
	hostOf := func(*read) string { return "h" }
	for r := range 100 {
		p.add(fmt.Sprint(r), now)
	}
	play(p, now, 21*time.Second, hostOf, func(string, time.Time) (time.Duration, outcome) { return time.Millisecond, outcome{} })
	now = now.Add(21 * time.Second)
	if p.next(now, hostOf) != nil {
		t.Fatal("a read was due anyway")
	}
	p.ask("77", now)
	r := p.next(now, hostOf)
	if r == nil || p.next(now, hostOf) != nil {
		t.Fatalf("asked %+v, want one receiver", r)
	}
	p.done(r, good, now)
	started := 0
	for p.next(now, hostOf) != nil {
		started++
	}
	if started != readsPerHost {
		t.Errorf("%d reads start when it has answered", started)
	}
	checkReads(t, p)
}

// TestANodeThatComesBackDuringAReadIsAskedAgain: a node hangs, registers anew while a read
// to where it was still waits for its time-out, and answers: all its receivers are known
// when that read has ended, not a pause later; and without a word from IS-04 within the
// longest pause, counted from when a read began.
func TestANodeThatComesBackDuringAReadIsAskedAgain(t *testing.T) {
	for _, word := range []string{"of the one that is read", "of another", ""} {
		p, now := newReadPlan(time.Second, 64), time.Unix(1000, 0)
		hostOf := func(*read) string { return "h" }
		for r := range 20 {
			p.add(fmt.Sprint(r), now)
		}
		hang := func(string, time.Time) (time.Duration, outcome) { return requestTimeout, outcome{} }
		play(p, now, time.Minute, hostOf, hang)
		now = now.Add(time.Minute)
		probe := p.next(now, hostOf)
		for ; probe == nil; probe = p.next(now, hostOf) {
			now = now.Add(10 * time.Millisecond)
		}
		began := now
		switch word {
		case "":
		case "of another":
			other := "1"
			if probe.id == other {
				other = "2"
			}
			p.ask(other, now.Add(time.Second))
		default:
			p.ask(probe.id, now.Add(time.Second))
		}
		now = now.Add(requestTimeout)
		p.done(probe, outcome{}, now)
		checkReads(t, p)
		limit := began.Add(retryMax).Sub(now)
		if word != "" {
			limit = 0
		}
		counts, _ := play(p, now, limit+100*time.Millisecond, hostOf, func(string, time.Time) (time.Duration, outcome) { return time.Millisecond, good })
		if counts["h"] < 19 {
			t.Errorf("word %q: %d of 20 receivers were read within %v", word, counts["h"], limit)
		}
		checkReads(t, p)
	}
}

// TestWordsOfASilentNodeDoNotMakeItWait: a controller connects fifty receivers of a node
// that is away for three seconds. Each of them is a word from IS-04 and a read in vain;
// the node is asked again within two seconds of its return all the same.
func TestWordsOfASilentNodeDoNotMakeItWait(t *testing.T) {
	p, now := newReadPlan(time.Second, 64), time.Unix(1000, 0)
	hostOf := func(*read) string { return "h" }
	for r := range 50 {
		p.add(fmt.Sprint(r), now)
	}
	refuse := func(string, time.Time) (time.Duration, outcome) { return time.Millisecond, outcome{} }
	play(p, now, 1500*time.Millisecond, hostOf, refuse)
	now = now.Add(1500 * time.Millisecond)
	for r := range 50 {
		p.ask(fmt.Sprint(r), now)
		play(p, now, 10*time.Millisecond, hostOf, refuse)
		now = now.Add(10 * time.Millisecond)
	}
	play(p, now, time.Second, hostOf, refuse)
	now = now.Add(time.Second)
	back := now
	for p.next(now, hostOf) == nil {
		now = now.Add(10 * time.Millisecond)
	}
	if waited := now.Sub(back); waited > 2*time.Second {
		t.Errorf("it is asked %v after it is back", waited)
	}
}

// TestReadPlanLosesNobody: whatever hosts do, and receivers that come, go, move and are
// asked for, every receiver stays in the plan at one place and is read in the end.
func TestReadPlanLosesNobody(t *testing.T) {
	for seed := range uint64(200) {
		rnd := rand.New(rand.NewPCG(seed, 5))
		p, now := newReadPlan(time.Second, 4+rnd.IntN(12)), time.Unix(1000, 0)
		hosts, down := map[string]string{}, map[string]bool{}
		hostOf := func(r *read) string { return hosts[r.id] }
		var under []*read
		for range 600 {
			id := fmt.Sprint(rnd.IntN(40))
			switch rnd.IntN(12) {
			case 0, 1:
				hosts[id] = fmt.Sprint("h", rnd.IntN(5))
				p.add(id, now)
			case 2:
				p.remove(id)
			case 3:
				p.ask(id, now)
			case 4:
				hosts[id] = []string{"", "h1", "h2"}[rnd.IntN(3)]
			case 5:
				down[fmt.Sprint("h", rnd.IntN(5))] = rnd.IntN(2) == 0
			case 6:
				now = now.Add(time.Duration(rnd.IntN(3000)) * time.Millisecond)
			case 7, 8:
				for r := p.next(now, hostOf); r != nil; r = p.next(now, hostOf) {
					under = append(under, r)
				}
			default:
				if len(under) > 0 {
					i := rnd.IntN(len(under))
					r := under[i]
					under = append(under[:i], under[i+1:]...)
					p.done(r, outcome{ok: !down[r.at.name] && rnd.IntN(5) > 0, answered: !down[r.at.name]}, now)
				}
			}
			checkReads(t, p)
		}
		for _, r := range under {
			p.done(r, good, now)
		}
		last := map[string]bool{}
		play(p, now, 30*time.Second, hostOf, func(string, time.Time) (time.Duration, outcome) { return time.Millisecond, good })
		for id, r := range p.reads {
			if last[id] = r.started.After(now.Add(20 * time.Second)); !last[id] {
				t.Fatalf("seed %d: %s was not read any more: %+v at %+v", seed, id, r, r.at)
			}
		}
	}
}

// TestANodeThatGoesIsOneLine: of fifty receivers of a node that stops answering one is
// named, then the node; all of them are out of date within seconds, those of another
// node are not, and the way back is as short.
func TestANodeThatGoesIsOneLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &facility{tb: t, active: map[string]string{}, reads: map[string]int{}, known: map[string]bool{}, noSubs: true}
		f.srv = &httptest.Server{URL: "http://facility.test"}
		var gone atomic.Bool
		device := func(n int, host string) {
			f.put(kindDevice, testID(kindDevice, n), fmt.Sprintf(`{"id":%q,"node_id":%q,"controls":[{"type":"urn:x-nmos:control:sr-ctrl/v1.2","href":"http://%s/x-nmos/connection/v1.2"}]}`,
				testID(kindDevice, n), testID(kindNode, n), host))
		}
		var fifty []int
		for r := range 50 {
			fifty = append(fifty, r)
		}
		f.putNode(1, "127.0.0.1", fifty...)
		f.putNode(2, "127.0.0.1", 100, 101)
		device(1, "gone.test")
		device(2, "well.test")
		client := &http.Client{Transport: roundTripper(func(r *http.Request) *http.Response {
			if r.URL.Host == "gone.test" && gone.Load() {
				return nil // until the time-out
			}
			w := httptest.NewRecorder()
			f.serve(w, r)
			return w.Result()
		})}
		var lines logLines
		o, err := NewObserver(ObserverConfig{
			Directory: StaticDirectory{Query: []string{f.srv.URL}}, Client: client, NoSubscriptions: true,
			Local: NewLocalRules(LocalConfig{Hostname: "none.test"}), Log: slog.New(slog.NewJSONHandler(&lines, nil)),
		})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); o.Run(ctx) }()
		defer func() { cancel(); <-done }()
		state := func() (known, stale, others int) {
			for _, r := range o.Snapshot().Receivers {
				switch {
				case r.ActiveKnown && r.ActiveStale && r.NodeID == testID(kindNode, 1):
					stale++
				case r.ActiveKnown && r.NodeID == testID(kindNode, 1):
					known++
				case r.ActiveKnown && !r.ActiveStale:
					others++
				}
			}
			return known, stale, others
		}
		expect := func(when string, known, stale, unavailable, silent, answers, available int) {
			t.Helper()
			k, s, others := state()
			if k != known || s != stale || others != 2 {
				t.Errorf("%s: %d known, %d out of date, %d of the other node", when, k, s, others)
			}
			if u, n, a, v := lines.count("nmos_active_unavailable"), lines.count("nmos_node_silent"), lines.count("nmos_node_answers"), lines.count("nmos_active_available"); u != unavailable || n != silent || a != answers || v != available {
				t.Errorf("%s: %d unavailable, %d silent, %d answers, %d available in the log", when, u, n, a, v)
			}
		}
		time.Sleep(5 * time.Second)
		expect("before", 50, 0, 0, 0, 0, 0)
		gone.Store(true)
		time.Sleep(5 * time.Second)
		expect("gone", 0, 50, 1, 1, 0, 0)
		f.mu.Lock()
		well := f.reads[testID(kindReceiver, 100)]
		f.mu.Unlock()
		time.Sleep(5 * time.Minute)
		expect("still gone", 0, 50, 1, 1, 0, 0)
		f.mu.Lock()
		if n := f.reads[testID(kindReceiver, 100)] - well; n < 290 {
			t.Errorf("%d reads of the other node's receiver in five minutes", n)
		}
		f.mu.Unlock()
		gone.Store(false)
		time.Sleep(15 * time.Second)
		expect("back", 50, 0, 1, 1, 1, 1)
	})
}
