package fabrics

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

const ms = int64(time.Millisecond)

// TestNextSamplePost: the rate of the contract's "Audio timing": about two passes a
// cycle.
func TestNextSamplePost(t *testing.T) {
	for _, c := range []struct {
		name              string
		posted, completed int64
		pass              time.Duration
		want              int64
	}{
		{"at once", 0, ms / 10, 2 * time.Millisecond, 4 * ms},
		{"just before the second pass", 0, 4*ms - 1, 2 * time.Millisecond, 6 * ms},
		{"on a pass", 0, 2 * ms, 2 * time.Millisecond, 4 * ms},
		{"after the pass", 0, 2*ms + 1, 2 * time.Millisecond, 6 * ms},
		{"short passes keep the gap", 0, ms / 2, time.Millisecond, 3 * ms},
		{"long passes", 0, ms, 4 * time.Millisecond, 8 * ms},
		{"from where it was posted", 1000 * ms, 1000*ms + 1, 2 * time.Millisecond, 1004 * ms},
	} {
		if got := nextSamplePost(c.posted, c.completed, c.pass); got != c.want {
			t.Errorf("%s: %d, want %d", c.name, got, c.want)
		}
	}
}

func TestNextSamples(t *testing.T) {
	const half, limit = 1000, 480
	for _, c := range []struct {
		name       string
		next, head uint64
		want       sampleStep
	}{
		{"nothing new", 5000, 5000, sampleStep{next: 5000}},
		{"a little", 5000, 5048, sampleStep{next: 5000, count: 48}},
		{"more than an entry", 5000, 5600, sampleStep{next: 5000, count: 480}},
		{"as old as can be read", 5000, 6000, sampleStep{next: 5000, count: 480}},
		{"too old", 5000, 6001, sampleStep{next: 5521, skipped: 521, count: 480}},
		{"far too old", 5000, 1 << 40, sampleStep{next: 1<<40 - 480, skipped: 1<<40 - 480 - 5000, count: 480}},
		{"the origin went back", 5000, 4000, sampleStep{next: 4000}},
	} {
		if got := nextSamples(c.next, c.head, half, limit); got != c.want {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
	}
}

func TestNextBackoff(t *testing.T) {
	var got []time.Duration
	for d := time.Duration(0); len(got) < 7; got = append(got, d) {
		d = nextBackoff(d)
	}
	want := []time.Duration{250, 500, 1000, 2000, 4000, 5000, 5000}
	for i := range want {
		if want[i] *= time.Millisecond; got[i] != want[i] {
			t.Errorf("%v, want %v", got, want)
		}
	}
}

// TestPlanWait: a lane with something in flight that moves waits on its queues, one
// without on the origin; nothing waits longer than its next deadline.
func TestPlanWait(t *testing.T) {
	const now = 1000 * ms
	for _, c := range []struct {
		name string
		f    sourceFacts
		want sourceWait
	}{
		{"nobody is connected", sourceFacts{}, sourceWait{poll: idleWait}},
		{"a retry is due", sourceFacts{nextEvent: now + 5*ms}, sourceWait{poll: 5 * time.Millisecond}},
		{"a retry is overdue", sourceFacts{nextEvent: now - 5*ms}, sourceWait{}},
		{"connected, origin lively", sourceFacts{hungry: true}, sourceWait{sync: shortWait}},
		{"connected, origin silent", sourceFacts{hungry: true, silent: true}, sourceWait{sync: longWait}},
		{"in flight, window full", sourceFacts{moving: true}, sourceWait{poll: idleWait, busy: true}},
		{"in flight, room for more", sourceFacts{moving: true, hungry: true}, sourceWait{poll: idleWait, glance: time.Millisecond, busy: true}},
		{"one stuck, others want more", sourceFacts{stuck: true, hungry: true}, sourceWait{sync: glance}},
		{"one stuck alone", sourceFacts{stuck: true}, sourceWait{poll: shortWait}},
		{"one connecting, others want more", sourceFacts{connecting: true, hungry: true}, sourceWait{sync: glance}},
		{"draining", sourceFacts{closing: true, hungry: true}, sourceWait{poll: glance}},
		{"audio before its next post", sourceFacts{samples: true, hungry: true, nextPost: now + 3*ms, pass: 2 * time.Millisecond}, sourceWait{poll: 3 * time.Millisecond, busy: true}},
		{"audio waits for samples", sourceFacts{samples: true, hungry: true, nextPost: now - 3*ms, pass: 2 * time.Millisecond}, sourceWait{sync: shortWait, headEvery: 2 * time.Millisecond}},
		{"audio in flight, one target", sourceFacts{samples: true, moving: true, alone: true, pass: 2 * time.Millisecond}, sourceWait{poll: idleWait, hold: true, busy: true}},
		{"audio in flight, several targets", sourceFacts{samples: true, moving: true, pass: 2 * time.Millisecond}, sourceWait{poll: idleWait, busy: true}},
		{"audio, origin silent", sourceFacts{samples: true, hungry: true, silent: true, pass: 2 * time.Millisecond}, sourceWait{sync: longWait}},
		{"audio in flight, pipelined", sourceFacts{samples: true, hungry: true, moving: true, nextPost: now + ms, pass: 2 * time.Millisecond}, sourceWait{poll: time.Millisecond, busy: true}},
	} {
		if got := planWait(c.f, now); got != c.want {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
	}
}

func TestHistogram(t *testing.T) {
	var h histogram
	second := int64(time.Second)
	for _, o := range []struct{ d, now int64 }{{ms, second}, {ms + 1, second}, {0, second}, {-5, second}, {6 * second, 2 * second}} {
		h.observe(o.d, o.now)
	}
	s := h.snapshot(2 * second)
	if s.Count != 5 || s.Counts[0] != 2 || s.Counts[2] != 1 || s.Counts[3] != 1 || s.Counts[len(s.Counts)-1] != 1 {
		t.Errorf("%+v", s)
	}
	if len(s.Counts) != len(s.Bounds)+1 || s.Sum < 6.002 || s.Sum > 6.0021 {
		t.Errorf("%d counts for %d bounds, sum %v", len(s.Counts), len(s.Bounds), s.Sum)
	}
	// A bucket ends where a reader begins to miss samples (contract, "Audio timing").
	var age histogram
	age.observe(120*ms, second)
	age.observe(120*ms+1, second)
	a := age.snapshot(second)
	if i := slices.Index(a.Bounds, 0.12); i < 0 || a.Counts[i] != 1 || a.Counts[i+1] != 1 || !slices.IsSorted(a.Bounds) {
		t.Errorf("%+v", a)
	}
	// The largest of the last 10 s, whoever asks and however often.
	for _, c := range []struct {
		now  int64
		want time.Duration
	}{{2 * second, 6 * time.Second}, {2 * second, 6 * time.Second}, {11 * second, 6 * time.Second}, {12 * second, 0}, {100 * second, 0}} {
		if got := h.snapshot(c.now).Max; got != c.want {
			t.Errorf("at %d s: %v, want %v", c.now/second, got, c.want)
		}
	}
	h.observe(3*ms, 12*second) // the slot of second 2
	if got := h.snapshot(12 * second).Max; got != 3*time.Millisecond {
		t.Errorf("%v", got)
	}
}

// TestUsualGap: late is more than twice the 98th percentile of the last 256 gaps and
// at least 10 ms.
func TestUsualGap(t *testing.T) {
	var u usualGap
	if u.late(500 * ms) {
		t.Error("the first gap has nothing to be compared with")
	}
	u = usualGap{}
	for range 300 {
		if u.late(4 * ms) {
			t.Fatal("a usual gap is late")
		}
	}
	if u.late(9 * ms) {
		t.Error("9 ms is late")
	}
	if !u.late(50*ms) || u.usual() != 4*ms {
		t.Errorf("50 ms is not late, or became usual: %d", u.usual())
	}
	// Long waits that come with every burst are usual.
	u = usualGap{}
	for range 100 {
		for range 3 {
			u.late(3 * ms)
		}
		u.late(20 * ms)
	}
	if u.usual() != 20*ms || u.late(20*ms) || !u.late(41*ms) {
		t.Errorf("usual %d", u.usual())
	}
	// Against a plain computation.
	r := rand.New(rand.NewPCG(5, 6))
	u = usualGap{}
	var all []int64
	for range 2000 {
		gap := int64(r.ExpFloat64() * 5e6)
		u.late(gap)
		all = append(all, gap)
		last := slices.Clone(all[max(0, len(all)-usualGaps):])
		slices.Sort(last)
		if want := last[(len(last)*98+99)/100-1]; u.usual() != want {
			t.Fatalf("after %d gaps: %d, want %d", len(all), u.usual(), want)
		}
	}
}

func TestLateGrain(t *testing.T) {
	for _, c := range []struct {
		gap, period int64
		want        bool
	}{{40 * ms, 20 * ms, false}, {41 * ms, 20 * ms, true}, {9 * ms, 4 * ms, false}, {10 * ms, 4 * ms, true}} {
		if got := lateGrain(c.gap, c.period); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
}

// TestStallWatch: only a pass that had work and took over 20 ms beyond its wait
// counts, under the call that held it.
func TestStallWatch(t *testing.T) {
	var w stallWatch
	pass := func(post, wait, allowed, commit int64, busy bool) (Stall, bool) {
		now := int64(0)
		w.begin(now)
		now += post
		w.lap(taskPost, now)
		now += wait
		w.waited(allowed, now)
		now += commit
		w.lap(taskCommit, now)
		w.end(busy, now)
		return w.take()
	}
	for _, c := range []struct {
		name                        string
		post, wait, allowed, commit int64
		busy                        bool
		gap                         time.Duration
		task                        string
	}{
		{"a long wait", 0, 200 * ms, 200 * ms, 0, true, 0, ""},
		{"nothing to do", 0, 90 * ms, 20 * ms, 0, false, 0, ""},
		{"a short overrun", 5 * ms, 25 * ms, 20 * ms, 5 * ms, true, 0, ""},
		{"no processor", 0, 90 * ms, 20 * ms, 0, true, 70 * time.Millisecond, "pass"},
		{"held by post", 30 * ms, ms, ms, 0, true, 30 * time.Millisecond, "post"},
		{"held by commit", ms, 5 * ms, 5 * ms, 40 * ms, true, 41 * time.Millisecond, "commit"},
	} {
		s, ok := pass(c.post, c.wait, c.allowed, c.commit, c.busy)
		held := map[string]int64{"post": c.post, "commit": c.commit}[c.task]
		if ok != (c.gap > 0) || ok && s != (Stall{Gap: c.gap, Task: c.task, Held: time.Duration(held)}) {
			t.Errorf("%s: %+v, %v", c.name, s, ok)
		}
	}
	if _, ok := w.take(); ok {
		t.Error("a stall is reported twice")
	}
	s := w.snapshot(0)
	if s["post"].Count != 1 || s["commit"].Count != 1 || s["pass"].Count != 1 || len(s) != 3 {
		t.Errorf("%+v", s)
	}
}

func TestCommandsRunInOrder(t *testing.T) {
	var c commands
	var got []int
	for i := range 5 {
		c.push(func() { got = append(got, i) })
	}
	c.run()
	c.run()
	if !slices.Equal(got, []int{0, 1, 2, 3, 4}) {
		t.Errorf("%v", got)
	}
}

func TestSignature(t *testing.T) {
	in := signature{receives: 64, instance: 1<<63 + 5, secret: newSecret(), rounds: true}
	b := in.bytes()
	if len(b) > 55 {
		t.Errorf("%d bytes do not fit verbs' connection data", len(b))
	}
	if out, ok := readSignature(append(b, 0, 0)); !ok || out != in {
		t.Errorf("%+v, %v", out, ok)
	}
	early := in
	early.rounds = false
	if out, ok := readSignature(append(b[:signatureSecret:signatureSecret], 0, 0)); !ok || out != early {
		t.Errorf("without rounds: %+v, %v", out, ok)
	}
	early.secret = secret{}
	if out, ok := readSignature(b[:signatureLen]); !ok || out != early {
		t.Errorf("without a secret: %+v, %v", out, ok)
	}
	for _, other := range [][]byte{nil, {0}, b[:13], append([]byte("MXFB"), b[4:]...), append([]byte("MXFA\x02"), b[5:]...)} {
		if _, ok := readSignature(other); ok {
			t.Errorf("%x is taken for a signature", other)
		}
	}
}
