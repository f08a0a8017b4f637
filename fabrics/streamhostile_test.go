package fabrics

import (
	"encoding/binary"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/mxl-stack/mxl-fabrics-agent/mxl"
)

// commitsBySink is how many batches a target's runs have published.
func commitsBySink(target *Target) uint64 { return target.lane.numbers.moved.Batches.Load() }

// TestStreamAgainstPeer: what a hostile initiator sends in the middle of a run outside
// Go is judged as by a pass: the mirror's head stays, and the process lives.
func TestStreamAgainstPeer(t *testing.T) {
	const usual, top, count = uint64(48000 * 1000), uint64(1<<64 - 10), uint64(48)
	for name, c := range map[string]struct {
		at          uint64 // the mirror's head before
		head, count uint64 // of the bad batch
		entry       uint32
		lost        bool // the connection ends
	}{
		"entry beyond the buffer":   {usual, usual + 48, 48, 1 << 20, true},
		"highest entry":             {usual, usual + 48, 48, 1<<32 - 1, true},
		"no samples":                {usual, usual, 0, 0, true},
		"more than an entry":        {usual, usual + 1<<20, 1 << 20, 0, true},
		"count that wraps the head": {usual, usual - 1, 1<<64 - 1, 0, false},
		"count that wraps bytes":    {usual, usual + 1<<62, 1 << 62, 0, true},
		"the undefined index":       {usual, 1<<64 - 1, 48, 0, true},
		"head that wraps":           {top, 38, 48, 0, true},
		"late":                      {usual, usual - 48, 48, 0, false},
		"hours back":                {usual, usual - 48000*600, 48, 0, true},
		"less than its own count":   {usual, 10, 48, 0, true},
		"the same batch again":      {usual, usual, 48, 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFlow(t, audioDef(3), 200*time.Millisecond, 200*time.Millisecond)
			mirror := f.sampleWriter(t, f.mirror)
			target := openTarget(t, TargetConfig{Continuous: mirror, FlowID: f.id})
			info := target.Info()
			p := newRawPeer(t, "127.0.0.1", 1<<20, false)
			p.connect(info)
			send := func(h, n uint64, entry uint32) {
				binary.LittleEndian.PutUint64(p.mem, h)
				binary.LittleEndian.PutUint64(p.mem[8:], n)
				p.write(info.Regions[int(entry)%len(info.Regions)], sampleHeader+count*12, entry)
				p.completed(1, patience)
			}
			head := c.at
			at := head - 100*count
			for i := uint32(0); at < head; i++ {
				at += count
				send(at, count, i%uint32(len(info.Regions)))
			}
			what := func() string { return fmt.Sprintf("%+v", target.Stats()) }
			eventually(t, patience, what, func() bool { return target.Stats().Head == head })
			t.Logf("%d of 100 batches published by runs", commitsBySink(target))
			send(c.head, c.count, c.entry)
			eventually(t, patience, what, func() bool {
				st := target.Stats()
				return st.Connected != c.lost && (st.BadImmediates > 0 || c.head == head && st.Grains == 101)
			})
			if mirror.Head() != head || target.Stats().Head != head {
				t.Errorf("mirror's head %d, want %d: %s", mirror.Head(), head, what())
			}
		})
	}
}

// TestStreamJumps: an origin whose head leaps while a run sends is followed, and what
// was between is skipped.
func TestStreamJumps(t *testing.T) {
	f := newFlow(t, audioDef(4), 200*time.Millisecond, 200*time.Millisecond)
	w := f.sampleWriter(t, f.origin)
	mirror := f.sampleWriter(t, f.mirror)
	target := openTarget(t, TargetConfig{Continuous: mirror, FlowID: f.id})
	s := openSource(t, f)
	r, err := f.mirror.OpenContinuousReader(f.id)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	head := uint64(48000 * 100000)
	writeSamples(t, w, head, 48)
	connect(t, s, "b", target)
	what := func() string { return fmt.Sprintf("source %+v target %+v", targetOf(s, "b"), target.Stats()) }
	for _, jump := range []int64{0, 48000 * 7200, -48000 * 3600, 48000 / 5, 1, -48000 / 10, -1, 1 << 61, -(1 << 61)} {
		head += uint64(jump)
		before := commitsBySink(target)
		for until := time.Now().Add(150 * time.Millisecond); time.Now().Before(until); time.Sleep(time.Millisecond) {
			head += 48
			writeSamples(t, w, head, 48)
		}
		eventually(t, patience, what, func() bool {
			if target.Stats().Head == head && mirror.Head() == head {
				return true
			}
			// After a step back nothing is sent before the head moves again.
			head += 48
			writeSamples(t, w, head, 48)
			time.Sleep(4 * time.Millisecond)
			return false
		})
		readSamples(t, r, head, 48, what)
		t.Logf("jump %d: %d batches by runs, connections %d", jump, commitsBySink(target)-before, target.Stats().Connections)
	}
}

// TestStreamOverCutFiles: files that are cut off while runs copy from or to them fail
// the origin or the mirror, not the process.
func TestStreamOverCutFiles(t *testing.T) {
	for _, c := range []struct {
		file   string
		size   int64
		mirror bool
	}{
		{"channels", 0, false}, {"channels", 4096, false}, {"data", 0, false},
		{"channels", 0, true}, {"channels", 4096, true}, {"data", 0, true},
	} {
		t.Run(fmt.Sprintf("%s cut to %d, mirror %v", c.file, c.size, c.mirror), func(t *testing.T) {
			f := newFlow(t, audioDef(16), 200*time.Millisecond, 200*time.Millisecond)
			w := f.sampleWriter(t, f.origin)
			target := openTarget(t, TargetConfig{Continuous: f.sampleWriter(t, f.mirror), FlowID: f.id})
			s := openSource(t, f)
			writeSamples(t, w, w.Rate().IndexAt(mxl.Now())/48*48, 48)
			connect(t, s, "b", target)
			stop, done := make(chan struct{}), make(chan struct{})
			go func() {
				defer close(done)
				head := w.Head()
				for {
					select {
					case <-stop:
						return
					case <-time.After(time.Millisecond):
					}
					head += 48
					if mxl.Guard(func() error { return w.Commit(head, 48) }) != nil {
						return
					}
				}
			}()
			t.Cleanup(func() { close(stop); <-done })
			what := func() string { return fmt.Sprintf("source %+v target %+v", s.Stats(), target.Stats()) }
			eventually(t, patience, what, func() bool { return commitsBySink(target) > 20 })
			d := f.origin
			if c.mirror {
				d = f.mirror
			}
			began := time.Now()
			if err := os.Truncate(fmt.Sprint(d.Path(), "/", mxl.FlowDirName(f.id), "/", c.file), c.size); err != nil {
				t.Fatal(err)
			}
			if c.mirror {
				eventually(t, patience, what, func() bool { return target.Stats().MirrorLost })
			} else {
				eventually(t, patience, what, func() bool { st := s.Stats(); return !st.Reading && st.State == StateError })
			}
			t.Logf("noticed after %v: %q, %q", time.Since(began), s.Stats().LastError, target.Stats().LastError)
		})
	}
}
