package mxl

import (
	"bytes"
	"sync"
	"testing"
	"time"
)

// fastest returns the shortest of several runs: statements about a millisecond must hold on a busy machine too.
func fastest(runs int, f func() time.Duration) time.Duration {
	best := time.Hour
	for range runs {
		best = min(best, f())
	}
	return best
}

func TestConformance18BlockedReaderIsWoken(t *testing.T) {
	d := newDomain(t, 0)
	w := newGrainWriter(t, d, dataDef(50, 1))
	r := newGrainReader(t, d, w.ID())
	r.slice = 10 * time.Second // only a wake ends the wait in time
	index := uint64(1000)
	delay := fastest(20, func() time.Duration {
		index++
		woke := make(chan time.Time, 1)
		go func() {
			g, err := r.WaitGrain(index, AllSlices, 5*time.Second)
			at := time.Now()
			if err != nil || g.Index != index || g.Payload[0] != byte(index) {
				t.Errorf("grain %d: %+v, %v", index, g.GrainHeader, err)
			}
			woke <- at
		}()
		time.Sleep(2 * time.Millisecond) // let it fall asleep; nothing depends on it
		write(t, w, index, byte(index))
		committed := time.Now()
		return (<-woke).Sub(committed)
	})
	if delay > time.Millisecond {
		t.Errorf("fastest wake took %v", delay)
	}
}

func TestConformance19PartialCommitsWake(t *testing.T) {
	d := newDomain(t, 0)
	w := newGrainWriter(t, d, videoDef(192, 108, 50, 1))
	r := newGrainReader(t, d, w.ID())
	r.slice = 10 * time.Second
	write(t, w, 41, 1) // the slot of 51, complete
	next, seen := make(chan int), make(chan uint16)
	go func() {
		defer close(seen)
		for n := range next {
			g, err := r.WaitGrain(51, n, 5*time.Second)
			if err != nil {
				t.Error(err)
				return
			}
			seen <- g.ValidSlices
		}
	}()
	if _, err := w.OpenGrain(51); err != nil {
		t.Fatal(err)
	}
	last := uint16(0)
	for valid := 1; valid <= w.TotalSlices(); valid++ {
		before := w.Sync()
		next <- valid
		if err := w.Commit(51, valid, 0); err != nil {
			t.Fatal(err)
		}
		if w.Sync() != before+1 {
			t.Fatalf("commit of %d slices did not count", valid)
		}
		got := <-seen
		if int(got) != valid || got < last {
			t.Fatalf("reader saw %d valid slices after the commit of %d", got, valid)
		}
		last = got
	}
	close(next)
}

func TestConformance20SkippedIsAGap(t *testing.T) {
	d := newDomain(t, 0)
	w := newGrainWriter(t, d, dataDef(50, 1))
	r := newGrainReader(t, d, w.ID())
	for i := uint64(100); i < 140; i++ {
		if i%7 != 0 {
			write(t, w, i, byte(i))
		}
	}
	for i := uint64(130); i < 140; i++ {
		g, err := r.Grain(i, AllSlices)
		switch {
		case i%7 == 0 && err != ErrSkipped:
			t.Errorf("skipped %d: %v", i, err)
		case i%7 != 0 && (err != nil || g.Payload[9] != byte(i)):
			t.Errorf("%d: %v", i, err)
		}
	}
	// A wait for an index that was skipped ends with the commit of the next one.
	var committed sync.WaitGroup
	committed.Go(func() {
		time.Sleep(2 * time.Millisecond) // let it fall asleep; nothing depends on it
		write(t, w, 141, 1)
	})
	_, err := r.WaitGrain(140, AllSlices, 5*time.Second)
	committed.Wait()
	if err != ErrSkipped {
		t.Errorf("waiting for a skipped index: %v", err)
	}
}

func TestConformance21OverwrittenWhileCopying(t *testing.T) {
	d := newDomain(t, 40_000_000)
	w := newGrainWriter(t, d, videoDef(1280, 720, 50, 1)) // two slots
	r := newGrainReader(t, d, w.ID())
	write(t, w, 100, 1)
	g, err := r.Grain(100, AllSlices)
	if err != nil || !r.Intact(g) {
		t.Fatal(err)
	}
	if _, err := w.OpenGrain(102); err != nil {
		t.Fatal(err)
	}
	if r.Intact(g) {
		t.Error("the slot was taken for another index and counts as intact")
	}
	if _, err := r.Grain(100, AllSlices); err != ErrTooLate {
		t.Errorf("a grain whose slot was taken: %v", err)
	}
	// Under load no accepted copy is torn.
	stop := make(chan struct{})
	done := make(chan struct{})
	go func() {
		defer close(done)
		for i := uint64(103); ; i++ {
			select {
			case <-stop:
				return
			default:
				p, err := w.OpenGrain(i)
				if err == nil {
					for n := 0; n < len(p); n += len(lines) {
						copy(p[n:], bytes.Repeat([]byte{byte(i)}, len(lines)))
					}
					err = w.Commit(i, w.TotalSlices(), 0)
				}
				if err != nil {
					t.Error(err)
					return
				}
			}
		}
	}()
	buf := make([]byte, r.PayloadSize())
	intact, torn := 0, 0
	for end := time.Now().Add(10 * time.Second); (intact < 50 || torn < 5) && time.Now().Before(end); {
		i := r.Head()
		h, err := r.CopyGrain(buf, i, AllSlices)
		if err != nil {
			torn++
			continue
		}
		intact++
		if h.Index != i || bytes.Count(buf, []byte{byte(i)}) != len(buf) {
			t.Fatalf("grain %d is torn", i)
		}
	}
	close(stop)
	<-done
	if intact == 0 {
		t.Errorf("%d intact copies, %d refused", intact, torn)
	}
}

var lines [4096]byte

func TestConformance22RangeOfTheRing(t *testing.T) {
	d := newDomain(t, 0)
	w := newGrainWriter(t, d, dataDef(50, 1))
	r := newGrainReader(t, d, w.ID())
	for i := uint64(200); i <= 220; i++ {
		write(t, w, i, byte(i))
	}
	n := r.Depth()
	for index, want := range map[uint64]error{220 - n + 1: nil, 220 - n: ErrTooLate, 220: nil, 221: ErrTooEarly, 0: ErrTooLate} {
		if _, err := r.Grain(index, AllSlices); err != want {
			t.Errorf("%d: %v, want %v", index, err, want)
		}
	}
	// The head follows a writer that goes back.
	write(t, w, 50, 1)
	if r.Head() != 50 {
		t.Errorf("head %d", r.Head())
	}
	if _, err := r.Grain(220, AllSlices); err != ErrTooEarly {
		t.Errorf("220 after the head went back: %v", err)
	}
}

func TestConformance23InvalidGrain(t *testing.T) {
	d := newDomain(t, 0)
	w := newGrainWriter(t, d, dataDef(50, 1))
	r := newGrainReader(t, d, w.ID())
	if _, err := w.OpenGrain(70); err != nil {
		t.Fatal(err)
	}
	if err := w.Commit(70, 0, GrainInvalid); err != nil {
		t.Fatal(err)
	}
	g, err := r.Grain(70, AllSlices)
	if err != nil || !g.Invalid() || g.ValidSlices != 0 {
		t.Fatalf("%+v, %v", g.GrainHeader, err)
	}
	buf := bytes.Repeat([]byte{7}, r.PayloadSize())
	h, err := r.CopyGrain(buf, 70, AllSlices)
	if err != nil || !h.Invalid() || bytes.Count(buf, []byte{7}) != len(buf) {
		t.Errorf("copy of an invalid grain: %+v, %v", h, err)
	}
	// The next occupant of the slot is valid again.
	write(t, w, 80, 3)
	if g, err := r.Grain(80, AllSlices); err != nil || g.Invalid() || !g.Complete() {
		t.Errorf("%+v, %v", g.GrainHeader, err)
	}
}

func TestConformance23NothingWrittenYet(t *testing.T) {
	d := newDomain(t, 0)
	w := newGrainWriter(t, d, dataDef(50, 1))
	r := newGrainReader(t, d, w.ID())
	if _, err := r.Grain(0, 0); err != ErrTooEarly {
		t.Errorf("index 0 of a flow nobody wrote: %v", err)
	}
	write(t, w, 0, 1)
	if _, err := r.Grain(0, AllSlices); err != nil {
		t.Errorf("index 0: %v", err)
	}
}

func TestConformance24WriteTimeRises(t *testing.T) {
	d := newDomain(t, 0)
	w := newGrainWriter(t, d, dataDef(50, 1))
	last := w.Info().LastWriteTime
	for i := range uint64(20) {
		before := Now()
		write(t, w, i, 1)
		at := w.Info().LastWriteTime
		if at < before || at > Now() || at < last {
			t.Fatalf("commit %d at %d, between %d and %d", i, at, before, Now())
		}
		last = at
	}
}

func TestConformance25ReadTimeMoves(t *testing.T) {
	watch := NewAccessWatch()
	var domains []*Domain
	for range 3 {
		d, err := OpenDomain(shmDir(t), WithAccessWatch(watch))
		if err != nil {
			t.Fatal(err)
		}
		domains = append(domains, d)
	}
	for _, d := range domains {
		w := newGrainWriter(t, d, dataDef(50, 1))
		second, _, err := d.CreateDiscreteWriter(mustDef(t, d, w), FlowOptions{})
		if err != nil {
			t.Fatal(err)
		}
		second.Close()
		write(t, w, 5, 1)
		r := newGrainReader(t, d, w.ID())
		before := Now()
		if _, err := r.Grain(5, AllSlices); err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		eventually(t, "read time", 5*time.Second, func() bool { return w.Info().LastReadTime >= before })
		if took := time.Since(start); took > 300*time.Millisecond {
			t.Errorf("read time moved after %v", took)
		}
	}
	if watch.running == nil || len(watch.running.entries) != 3 {
		t.Error("the domains do not share the watch")
	}
}

func mustDef(t testing.TB, d *Domain, w *DiscreteWriter) []byte {
	t.Helper()
	def, err := d.ReadFlowDef(w.ID())
	if err != nil {
		t.Fatal(err)
	}
	return def
}

func TestAccessWatchEndsWithItsLastWriter(t *testing.T) {
	d := newDomain(t, 0)
	for range 3 {
		a, b := newGrainWriter(t, d, dataDef(50, 1)), newGrainWriter(t, d, dataDef(50, 1))
		a.Close()
		if d.watch.running == nil {
			t.Fatal("the watch ended before its last writer")
		}
		b.Close()
		if d.watch.running != nil {
			t.Fatal("the watch goes on without writers")
		}
	}
	if e := d.watch.add("/nowhere", new(uint64)); e != nil || d.watch.running != nil {
		t.Error("a watch of nothing")
	}
}
