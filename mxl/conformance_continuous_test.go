package mxl

import (
	"errors"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"
)

func TestConformance26WindowsWrap(t *testing.T) {
	const length = 19456
	for _, c := range []struct {
		index, count uint64
		want         Window
	}{
		{480, 480, Window{0, 480, 0}},
		{length, 480, Window{length - 480, 480, 0}}, // ends exactly at slot 0
		{length + 100, 480, Window{length - 380, 380, 100}},
		{5*length + 1, 2, Window{length - 1, 1, 1}},
		{3 * length, length / 2, Window{length / 2, length / 2, 0}},
		{1<<63 + 7, 480, Window{(1<<63 + 7 - 480) % length, 480, 0}},
		{100, 0, Window{100, 0, 0}},
	} {
		if got := windowOf(c.index, c.count, length); got != c.want {
			t.Errorf("window(%d, %d) is %+v, want %+v", c.index, c.count, got, c.want)
		}
	}
	d := newDomain(t, 0)
	w := newSampleWriter(t, d, audioDef(3, 48000), FlowOptions{})
	r := newSampleReader(t, d, w.ID())
	const count = 1000
	dst := make([]byte, 3*count*4)
	wrapped := 0
	for head := uint64(1_000_000_000); head < 1_000_000_000+60*count; head += count {
		win, err := w.OpenSamples(head, count)
		if err != nil {
			t.Fatal(err)
		}
		if win.Second > 0 {
			wrapped++
		}
		for c := range 3 {
			first, second := w.Segments(win, c)
			for s := range uint64(count) {
				sample := uint32(head-count+s)*31 + uint32(c)
				if s < win.First {
					le.PutUint32(first[4*s:], sample)
				} else {
					le.PutUint32(second[4*(s-win.First):], sample)
				}
			}
		}
		if err := w.Commit(head, count); err != nil {
			t.Fatal(err)
		}
		if err := r.Read(dst, head, count); err != nil {
			t.Fatal(err)
		}
		for c := range 3 {
			for s := range uint64(count) {
				if got, want := le.Uint32(dst[4*(uint64(c)*count+s):]), uint32(head-count+s)*31+uint32(c); got != want {
					t.Fatalf("head %d channel %d sample %d is %d, want %d", head, c, s, got, want)
				}
			}
		}
	}
	if wrapped < 2 {
		t.Errorf("%d windows wrapped", wrapped)
	}
}

func TestConformance27HalfTheRing(t *testing.T) {
	d := newDomain(t, 0)
	w := newSampleWriter(t, d, audioDef(2, 48000), FlowOptions{})
	r := newSampleReader(t, d, w.ID())
	half := w.MaxCount()
	if half != 9728 {
		t.Fatalf("half is %d", half)
	}
	const head = 50_000_000
	if _, err := w.OpenSamples(head, half); err != nil {
		t.Error(err)
	}
	for _, count := range []uint64{0, half + 1} {
		if _, err := w.OpenSamples(head, count); !errors.Is(err, ErrInvalidArgument) {
			t.Errorf("window of %d: %v", count, err)
		}
	}
	if err := w.Commit(head, half+1); !errors.Is(err, ErrInvalidArgument) {
		t.Errorf("commit of %d: %v", half+1, err)
	}
	if err := w.Commit(head, half); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		index, count uint64
		want         error
	}{
		{head, half, nil}, {head, half + 1, ErrTooLate}, {head - half + 10, 10, nil}, {head - half + 9, 10, ErrTooLate},
		{head - half, 0, nil}, {head - half - 1, 0, ErrTooLate}, {head + 1, 1, ErrTooEarly}, {head + 1, 0, ErrTooEarly},
	} {
		if _, err := r.Samples(c.index, c.count); err != c.want {
			t.Errorf("window (%d, %d): %v, want %v", int64(c.index)-head, c.count, err, c.want)
		}
	}
	if err := r.Read(make([]byte, 15), head, 2); !errors.Is(err, ErrInvalidArgument) {
		t.Errorf("short destination: %v", err)
	}
}

func TestConformance28WakesPerBatch(t *testing.T) {
	d := newDomain(t, 0)
	w := newSampleWriter(t, d, audioDef(2, 48000), FlowOptions{MaxCommitBatchSizeHint: 48, MaxSyncBatchSizeHint: 480})
	start := uint64(48_000_000)
	var at []uint64
	for head := start + 48; head <= start+48_000; head += 48 {
		before := w.Sync()
		if err := w.Commit(head, 48); err != nil {
			t.Fatal(err)
		}
		if w.Sync() != before {
			at = append(at, head)
		}
	}
	if n := len(at); n < 99 || n > 101 {
		t.Errorf("%d wakes in 100 sync batches", n)
	}
	for i, head := range at {
		// The first commit of a new writer wakes; afterwards one wake falls on the batch boundary, or one commit early.
		if i > 0 && head-at[i-1] != 480 && i > 1 {
			t.Errorf("wake %d at %d, %d after the one before", i, head-start, head-at[i-1])
		}
	}
	// Backward: no wake until the head passes the old batch again (the rule as the SDK has it).
	before := w.Sync()
	for head := start + 48; head < start+47_000; head += 48 {
		if err := w.Commit(head, 48); err != nil {
			t.Fatal(err)
		}
	}
	if w.Sync() != before {
		t.Errorf("%d wakes after a backward jump", w.Sync()-before)
	}
}

func TestConformance28WakeRule(t *testing.T) {
	for _, c := range []struct {
		sync, commit uint32
		heads        []uint64
		want         []bool
	}{
		{480, 480, []uint64{480, 960, 1440}, []bool{true, true, true}},
		{100, 10, []uint64{10, 90, 91, 95, 100, 190, 191}, []bool{false, false, true, false, false, false, true}},
		{100, 300, []uint64{300, 350, 600}, []bool{true, true, true}},
		{0, 0, []uint64{1, 2, 2, 1, 3}, []bool{true, true, false, false, true}},
		{10, 1, []uint64{55, 12, 55, 59, 61, 75}, []bool{true, false, false, false, true, true}},
	} {
		rule := newWakeRule(c.sync, c.commit)
		for i, head := range c.heads {
			if got := rule.commit(head); got != c.want[i] {
				t.Errorf("sync %d commit %d: head %d (%d) wakes %v, want %v", c.sync, c.commit, head, i, got, c.want[i])
			}
		}
	}
}

func TestConformance29BlockedSampleReader(t *testing.T) {
	d := newDomain(t, 0)
	w := newSampleWriter(t, d, audioDef(2, 48000), FlowOptions{MaxCommitBatchSizeHint: 480, MaxSyncBatchSizeHint: 480})
	r := newSampleReader(t, d, w.ID())
	r.slice = 10 * time.Second
	head := uint64(48_000_000)
	delay := fastest(20, func() time.Duration {
		head += 480
		woke := make(chan time.Time, 1)
		go func() {
			_, err := r.WaitSamples(head, 480, 5*time.Second)
			at := time.Now()
			if err != nil {
				t.Error(err)
			}
			woke <- at
		}()
		time.Sleep(2 * time.Millisecond) // let it fall asleep; nothing depends on it
		if err := w.Commit(head, 480); err != nil {
			t.Fatal(err)
		}
		committed := time.Now()
		return (<-woke).Sub(committed)
	})
	if delay > time.Millisecond {
		t.Errorf("fastest wake took %v", delay)
	}
}

func TestConformance30WriterThatNeverWakes(t *testing.T) {
	d := newDomain(t, 0)
	w := newSampleWriter(t, d, audioDef(2, 48000), FlowOptions{MaxCommitBatchSizeHint: 48, MaxSyncBatchSizeHint: 480})
	r := newSampleReader(t, d, w.ID())
	if r.slice != 10*time.Millisecond {
		t.Fatalf("longest wait %v, want one sync batch", r.slice)
	}
	head := uint64(48_000_000)
	delay := fastest(10, func() time.Duration {
		head += 480
		woke := make(chan time.Time, 1)
		go func() {
			if _, err := r.WaitSamples(head, 480, 5*time.Second); err != nil {
				t.Error(err)
			}
			woke <- time.Now()
		}()
		time.Sleep(2 * time.Millisecond)
		atomic.StoreUint64(w.head, head) // an SDK that does not notify (MXL format reference §15)
		stored := time.Now()
		return (<-woke).Sub(stored)
	})
	if delay > 12*time.Millisecond {
		t.Errorf("fastest progress took %v, want one batch of 10 ms", delay)
	}
}

func TestConformance31WriteTimeOfSamplesStays(t *testing.T) {
	d := newDomain(t, 0)
	w := newSampleWriter(t, d, audioDef(2, 48000), FlowOptions{})
	created := w.Info().LastWriteTime
	for head := uint64(480); head < 4800; head += 480 {
		if err := w.Commit(head, 480); err != nil {
			t.Fatal(err)
		}
	}
	if i := w.Info(); i.LastWriteTime != created || i.LastReadTime != created {
		t.Errorf("times moved: %+v", i)
	}
	if active, err := d.IsActive(w.ID()); err != nil || !active {
		t.Errorf("active %v, %v", active, err)
	}
}

func TestContinuousDoubles(t *testing.T) {
	d := newDomain(t, 0)
	def := audioDef(2, 48000, set("bit_depth", 64))
	w := newSampleWriter(t, d, def, FlowOptions{})
	r := newSampleReader(t, d, w.ID())
	if r.WordSize() != 8 || len(r.Channels()) != 2*8*int(r.BufferLength()) {
		t.Errorf("word %d, ring of %d bytes", r.WordSize(), len(r.Channels()))
	}
	// A fabric target puts samples into Channels without opening a window.
	le.PutUint64(w.Channels()[8:], 42)
	if err := w.Commit(2, 2); err != nil {
		t.Fatal(err)
	}
	dst := make([]byte, 32)
	if err := r.Read(dst, 2, 2); err != nil || le.Uint64(dst[8:]) != 42 {
		t.Errorf("%v %v", dst, err)
	}
	other, err := d.OpenContinuousWriter(w.ID())
	if err != nil {
		t.Fatal(err)
	}
	other.Close()
	again, created, err := d.CreateContinuousWriter(def, FlowOptions{})
	if err != nil || created {
		t.Fatalf("created %v, %v", created, err)
	}
	again.Close()
	if _, err := os.Stat(filepath.Join(w.Dir(), nameAccess)); err == nil {
		t.Error("a continuous flow has an access file")
	}
}
