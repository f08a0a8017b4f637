package mxl

import (
	"bytes"
	"errors"
	"testing"
	"time"
)

func TestGrainsPassFromWriterToReader(t *testing.T) {
	d := newDomain(t, 0)
	w := newGrainWriter(t, d, videoDef(192, 108, 50, 1))
	r := newGrainReader(t, d, w.ID())
	if r.Depth() != 10 || r.TotalSlices() != 108 || r.PayloadSize() != 108*512 {
		t.Fatalf("depth %d slices %d payload %d", r.Depth(), r.TotalSlices(), r.PayloadSize())
	}
	base := w.Rate().IndexAt(Now())
	buf := make([]byte, r.PayloadSize())
	for i := range uint64(25) {
		write(t, w, base+i, byte(i))
		h, err := r.CopyGrain(buf, base+i, AllSlices)
		if err != nil || h.Index != base+i || !h.Complete() || h.Invalid() {
			t.Fatalf("grain %d: %+v, %v", i, h, err)
		}
		if !bytes.Equal(buf, bytes.Repeat([]byte{byte(i)}, len(buf))) {
			t.Fatalf("grain %d has other bytes", i)
		}
	}
}

func TestHotPathAllocatesNothing(t *testing.T) {
	d := newDomain(t, 0)
	w := newGrainWriter(t, d, videoDef(192, 108, 50, 1))
	r := newGrainReader(t, d, w.ID())
	cw := newSampleWriter(t, d, audioDef(2, 48000), FlowOptions{})
	cr := newSampleReader(t, d, cw.ID())
	index, head := uint64(1000), uint64(1_000_000)
	dst := make([]byte, 48*4*2)
	write(t, w, index, 1)
	never := func(err error) {
		if err != nil {
			t.Fatal(err)
		}
	}
	for name, pass := range map[string]func(){
		"write and read grain": func() {
			index++
			_, err := w.OpenGrain(index)
			never(err)
			never(w.Commit(index, 50, 0))
			never(w.Commit(index, w.TotalSlices(), 0))
			g, err := r.Grain(index, AllSlices)
			never(err)
			if !r.Intact(g) {
				t.Fatal("not intact")
			}
			_, err = r.WaitGrain(index, 1, time.Second)
			never(err)
		},
		"look at ring": func() {
			_ = r.Head() + uint64(r.Sync()) + r.Header(3).Index + r.Info().HeadIndex + uint64(len(r.Slot(2)))
			never(r.Check())
			r.Touch()
		},
		"too early": func() {
			if _, err := r.Grain(index+1, AllSlices); err != ErrTooEarly {
				t.Fatal(err)
			}
		},
		"wait": func() {
			_, err := r.WaitSync(r.Sync(), time.Microsecond)
			never(err)
		},
		"commit slot": func() {
			slot := w.SlotOf(index)
			got, err := w.CommitSlot(slot, 108)
			never(err)
			if got != index {
				t.Fatalf("index %d, want %d", got, index)
			}
		},
		"write and read samples": func() {
			head += 48
			_, err := cw.OpenSamples(head, 48)
			never(err)
			never(cw.Commit(head, 48))
			_, err = cr.WaitSamples(head, 48, time.Second)
			never(err)
			never(cr.Read(dst, head, 48))
		},
		"guard": func() {
			never(Guard(func() error { _ = r.Slot(0)[0]; return nil }))
		},
	} {
		if n := testing.AllocsPerRun(200, pass); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}

func TestGrainStatus(t *testing.T) {
	h := func(index uint64, valid uint16, flags uint32) GrainHeader {
		return GrainHeader{Index: index, TotalSlices: 100, ValidSlices: valid, Flags: flags}
	}
	for _, c := range []struct {
		name        string
		index, head uint64
		h           GrainHeader
		min         int
		want        error
	}{
		{"complete", 50, 50, h(50, 100, 0), AllSlices, nil},
		{"partial, all wanted", 50, 50, h(50, 40, 0), AllSlices, ErrTooEarly},
		{"partial, enough", 50, 50, h(50, 40, 0), 40, nil},
		{"partial, one short", 50, 50, h(50, 40, 0), 41, ErrTooEarly},
		{"none wanted", 50, 50, h(50, 0, 0), 0, nil},
		{"invalid without slices", 50, 50, h(50, 0, GrainInvalid), AllSlices, nil},
		{"beyond head", 51, 50, h(41, 100, 0), AllSlices, ErrTooEarly},
		{"oldest", 41, 50, h(41, 100, 0), AllSlices, nil},
		{"left the ring", 40, 50, h(50, 100, 0), AllSlices, ErrTooLate},
		{"skipped", 48, 50, h(38, 100, 0), AllSlices, ErrSkipped},
		{"skipped, slot never used", 48, 50, h(0, 0, 0), 0, ErrSkipped},
		{"being overwritten", 41, 50, h(51, 0, 0), 0, ErrTooLate},
		{"head below depth", 0, 5, h(0, 100, 0), AllSlices, nil},
	} {
		if got := grainStatus(c.index, c.head, 10, true, c.h, c.min); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
	if got := grainStatus(0, 0, 10, false, GrainHeader{TotalSlices: 100}, 0); got != ErrTooEarly {
		t.Errorf("index 0 of a new flow: %v", got)
	}
}

func TestCommitRefuses(t *testing.T) {
	d := newDomain(t, 0)
	w := newGrainWriter(t, d, videoDef(192, 108, 50, 1))
	if err := w.Commit(7, 1, 0); !errors.Is(err, ErrInvalidArgument) {
		t.Errorf("commit without open: %v", err)
	}
	if _, err := w.OpenGrain(7); err != nil {
		t.Fatal(err)
	}
	for name, try := range map[string]func() error{
		"other index": func() error { return w.Commit(8, 1, 0) },
		"too many":    func() error { return w.Commit(7, 109, 0) },
		"negative":    func() error { return w.Commit(7, -1, 0) },
	} {
		if err := try(); !errors.Is(err, ErrInvalidArgument) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := w.Commit(7, 50, 0); err != nil {
		t.Fatal(err)
	}
	if err := w.Commit(7, 49, 0); !errors.Is(err, ErrInvalidArgument) {
		t.Errorf("fewer slices: %v", err)
	}
	if err := w.Commit(7, 108, 0); err != nil {
		t.Fatal(err)
	}
	if err := w.Commit(7, 108, 0); !errors.Is(err, ErrInvalidArgument) {
		t.Errorf("commit after the last slice: %v", err)
	}
	w.Cancel()
	w.Close()
	if _, err := w.OpenGrain(9); err != ErrInvalidFlowWriter {
		t.Errorf("open after close: %v", err)
	}
	if err := w.Close(); err != nil {
		t.Errorf("second close: %v", err)
	}
}
