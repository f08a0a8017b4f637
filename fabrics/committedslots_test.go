package fabrics

import (
	"encoding/binary"
	"fmt"
	"testing"
	"time"

	"github.com/mxl-stack/mxl-fabrics-agent/mxl"
)

func TestBrokenSlots(t *testing.T) {
	const slot, head, depth = 3, 1005, 10
	header := func(index uint64, slices uint16) mxl.GrainHeader {
		return mxl.GrainHeader{Index: index, TotalSlices: 108, ValidSlices: slices}
	}
	invalid := header(8, 0)
	invalid.Flags = mxl.GrainInvalid
	for _, c := range []struct {
		name string
		have committedSlot
		h    mxl.GrainHeader
		want bool
	}{
		{"as committed", committedSlot{index: 1003, slices: 108}, header(1003, 108), false},
		{"partial as committed", committedSlot{index: 1003, slices: 50}, header(1003, 50), false},
		{"more slices than committed", committedSlot{index: 1003, slices: 50}, header(1003, 108), true},
		{"above the head", committedSlot{index: 1003, slices: 108}, header(1013, 108), true},
		{"above the head, without slices", committedSlot{index: 1003, slices: 108}, header(1013, 0), true},
		{"older than the head and not ours", committedSlot{index: 993, slices: 108}, header(1003, 108), true},
		{"of another slot", committedSlot{index: 993, slices: 108}, header(1002, 108), true},
		{"of another slot, invalid", committedSlot{index: 993}, invalid, true},
		{"never written", committedSlot{}, header(0, 0), false},
		{"discarded", committedSlot{index: undefinedIndex, discarded: true}, header(undefinedIndex, 0), false},
	} {
		if got := c.have.broken(slot, c.h, head, depth); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}

// breakOff sends the header of grain index, which says complete, and half of its
// payload, and ends the connection: what the first half of a transfer leaves.
func breakOff(t *testing.T, target *Target, w *mxl.DiscreteWriter, p *rawPeer, index uint64) {
	t.Helper()
	slot := w.SlotOf(index)
	putGrainHeader(p.mem, w.Slot(slot), index)
	binary.LittleEndian.PutUint16(p.mem[26:], uint16(w.TotalSlices()))
	p.writes.Reset()
	p.writes.Add(p.ep, 1, target.Info().Regions[slot].Addr, target.Info().Regions[slot].RKey)
	p.writes.Segment(p.region, 0, uint64(grainHeader+w.PayloadSize()/2))
	p.writes.Post()
	p.completed(1, patience)
	p.hangUp()
	eventually(t, 5*time.Second, func() string { return fmt.Sprintf("%+v", target.Stats()) }, func() bool { return !target.Stats().Connected })
}

// TestBrokenOffTransfer: a connection that dies in the middle of a grain leaves a
// header that says complete. Later grains must not make it readable; what was
// committed stays.
func TestBrokenOffTransfer(t *testing.T) {
	f := newFlow(t, videoDef("video/v210", smallVideo, smallKeyed, rate50), 200*time.Millisecond, 200*time.Millisecond)
	w := f.grainWriter(t, f.mirror)
	r, err := f.mirror.OpenDiscreteReader(f.id)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	target := openTarget(t, TargetConfig{Discrete: w, FlowID: f.id})
	p := newRawPeer(t, "127.0.0.1", 8192+w.PayloadSize(), false)
	p.connect(target.Info())
	for index := uint64(100); index < 100+w.Depth(); index++ {
		sendGrain(p, target, w, index)
		p.completed(1, patience)
	}
	head := 99 + w.Depth()
	eventually(t, 5*time.Second, func() string { return fmt.Sprintf("%+v", target.Stats()) }, func() bool { return target.Stats().Head == head })
	breakOff(t, target, w, p, head+1)
	eventually(t, 5*time.Second, func() string { return fmt.Sprintf("%+v", target.Stats()) }, func() bool { return target.Stats().Discarded == 1 })
	if _, err := r.Grain(100, mxl.AllSlices); err != mxl.ErrTooLate {
		t.Errorf("the grain that was half overwritten: %v", err)
	}
	p.connect(target.Info())
	sendGrain(p, target, w, head+2)
	p.completed(1, patience)
	eventually(t, 5*time.Second, func() string { return fmt.Sprintf("%+v", target.Stats()) }, func() bool { return target.Stats().Head == head+2 })
	if g, err := r.Grain(head+1, mxl.AllSlices); err == nil {
		t.Errorf("the broken-off grain can be read: %+v", g.GrainHeader)
	}
	for _, index := range []uint64{102, head, head + 2} {
		if _, err := r.Grain(index, mxl.AllSlices); err != nil {
			t.Errorf("grain %d: %v", index, err)
		}
	}
	if st := target.Stats(); st.BadImmediates != 0 || st.Discarded != 1 {
		t.Errorf("%+v", st)
	}
}

// TestAdoptedMirror: what an agent that was killed in the middle of a transfer left
// in the files is invalid before the next one listens; its committed grains stay.
func TestAdoptedMirror(t *testing.T) {
	f := newFlow(t, videoDef("video/v210", smallVideo, smallKeyed, rate50), 200*time.Millisecond, 200*time.Millisecond)
	w := f.grainWriter(t, f.mirror)
	for index := uint64(100); index < 115; index++ {
		writeGrain(t, w, index, 0, w.TotalSlices())
	}
	slot := w.SlotOf(115)
	putGrainHeader(w.Slot(slot), w.Slot(slot), 115) // landed, its immediate did not
	target := openTarget(t, TargetConfig{Discrete: w, FlowID: f.id})
	if h := w.Header(slot); h.Index != mxl.UndefinedIndex || h.ValidSlices != 0 || w.Head() != 114 {
		t.Errorf("the unfinished slot: %+v, head %d", h, w.Head())
	}
	r, err := f.mirror.OpenDiscreteReader(f.id)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	p := newRawPeer(t, "127.0.0.1", 8192+w.PayloadSize(), false)
	p.connect(target.Info())
	sendGrain(p, target, w, 116)
	p.completed(1, patience)
	eventually(t, time.Second, func() string { return fmt.Sprintf("%+v", target.Stats()) }, func() bool { return target.Stats().Head == 116 })
	if g, err := r.Grain(115, mxl.AllSlices); err == nil {
		t.Errorf("grain 115 can be read: %+v", g.GrainHeader)
	}
	if g, err := r.Grain(114, mxl.AllSlices); err != nil {
		t.Errorf("grain 114: %v", err)
	} else {
		checkPattern(t, g.Payload, 114)
	}
	if st := target.Stats(); st.Discarded != 1 {
		t.Errorf("%d slots discarded", st.Discarded)
	}
}

// TestMoreSlicesOfADiscardedGrain: an initiator that goes on with the slices of a
// grain whose beginning was discarded is ignored until the next grain.
func TestMoreSlicesOfADiscardedGrain(t *testing.T) {
	target, w := grainTarget(t)
	p := newRawPeer(t, "127.0.0.1", 8192+w.PayloadSize(), false)
	p.connect(target.Info())
	sendGrain(p, target, w, 100)
	p.completed(1, patience)
	putGrainHeader(p.mem, w.Slot(1), 101)
	p.writes.Reset()
	slot := w.SlotOf(101)
	p.writes.Add(p.ep, 1, 0, target.Info().Regions[slot].RKey)
	p.writes.Segment(p.region, 0, grainHeader) // without an immediate
	p.writes.Post()
	p.completed(1, patience)
	p.hangUp()
	eventually(t, time.Second, func() string { return fmt.Sprintf("%+v", target.Stats()) }, func() bool { return target.Stats().Discarded == 1 })
	p.connect(target.Info())
	p.writes.Reset()
	p.writes.Add(p.ep, 1, grainHeader, target.Info().Regions[slot].RKey)
	p.writes.Segment(p.region, grainHeader, 4096)
	p.writes.Immediate(uint32(newGrainImmediate(slot, w.TotalSlices())))
	p.writes.Post()
	p.completed(1, patience)
	sendGrain(p, target, w, 102)
	p.completed(1, patience)
	eventually(t, time.Second, func() string { return fmt.Sprintf("%+v", target.Stats()) }, func() bool {
		st := target.Stats()
		return st.Head == 102 && st.BadImmediates == 1 && st.Errors == 0 && st.Connected
	})
}
