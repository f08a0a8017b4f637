package mxl

import (
	"errors"
	"sync/atomic"
	"testing"
)

func TestCommitSlot(t *testing.T) {
	d := newDomain(t, 0)
	w := newGrainWriter(t, d, videoDef(192, 108, 50, 1))
	r := newGrainReader(t, d, w.ID())
	// What an initiator writes: the whole grain file, its header included.
	arrive := func(index uint64, flags uint32, valid uint16) int {
		slot := w.SlotOf(index)
		mem := w.Slot(slot)
		h := w.Header(slot)
		h.Index, h.Flags, h.ValidSlices = index, flags, valid
		encodeGrainHeader(mem, h)
		mem[PayloadOffset] = byte(index)
		return slot
	}
	slot := arrive(1007, 0, 108)
	before := w.Info()
	index, err := w.CommitSlot(slot, 40)
	if err != nil || index != 1007 {
		t.Fatal(index, err)
	}
	g, err := r.Grain(1007, 40)
	if err != nil || g.ValidSlices != 40 || g.TotalSlices != 108 || g.Payload[0] != byte(1007%256) {
		t.Errorf("%+v, %v", g.GrainHeader, err)
	}
	if i := w.Info(); i.HeadIndex != 1007 || i.LastWriteTime <= before.LastWriteTime || i.SyncCounter != before.SyncCounter+1 {
		t.Errorf("%+v", i)
	}
	if _, err := w.CommitSlot(slot, 108); err != nil {
		t.Error(err)
	}
	if g, err := r.Grain(1007, AllSlices); err != nil || !g.Complete() {
		t.Errorf("%+v, %v", g.GrainHeader, err)
	}
	slot = arrive(1008, GrainInvalid, 108)
	if _, err := w.CommitSlot(slot, 0); err != nil {
		t.Error(err)
	}
	if g, err := r.Grain(1008, AllSlices); err != nil || !g.Invalid() || g.ValidSlices != 0 {
		t.Errorf("%+v, %v", g.GrainHeader, err)
	}
	head, sync := w.Head(), w.Sync()
	for name, try := range map[string]func() (uint64, error){
		"slot beyond":    func() (uint64, error) { return w.CommitSlot(10, 1) },
		"negative slot":  func() (uint64, error) { return w.CommitSlot(-1, 1) },
		"too many":       func() (uint64, error) { return w.CommitSlot(8, 109) },
		"index of other": func() (uint64, error) { return w.CommitSlot(arrive(1008, 0, 1)+1, 1) },
		"grain size": func() (uint64, error) {
			le.PutUint32(w.Slot(3)[offGrainSize:], 5)
			le.PutUint64(w.Slot(3)[offGrainIndex:], 1003)
			return w.CommitSlot(3, 1)
		},
		"version": func() (uint64, error) {
			le.PutUint32(w.Slot(4)[offVersion:], 2)
			le.PutUint64(w.Slot(4)[offGrainIndex:], 1004)
			return w.CommitSlot(4, 1)
		},
	} {
		if _, err := try(); !errors.Is(err, ErrInvalidArgument) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if w.Head() != head || w.Sync() != sync {
		t.Error("a refused slot was published")
	}
}

func TestHeaderAndHeadNeverContradict(t *testing.T) {
	d := newDomain(t, 100_000_000)
	w := newGrainWriter(t, d, dataDef(50, 1))
	r := newGrainReader(t, d, w.ID())
	var stop atomic.Bool
	done := make(chan struct{})
	go func() {
		defer close(done)
		for i := uint64(1); !stop.Load(); i++ {
			if _, err := w.OpenGrain(i); err != nil {
				t.Error(err)
				return
			}
			for _, n := range []int{1000, 4096} {
				if err := w.Commit(i, n, 0); err != nil {
					t.Error(err)
					return
				}
			}
		}
	}()
	for range 200_000 {
		i := r.Head()
		h := r.Header(r.SlotOf(i))
		if i != 0 && h.Index < i || h.Index == i && i != 0 && h.ValidSlices == 0 && r.Head() == i {
			t.Errorf("head %d, header %+v", i, h)
			break
		}
	}
	stop.Store(true)
	<-done
}
