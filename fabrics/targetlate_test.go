package fabrics

import (
	"fmt"
	"testing"
	"time"
)

// TestLateIndexIsIgnored: what an initiator that was lapped sends is passed over and
// the connection stays.
func TestLateIndexIsIgnored(t *testing.T) {
	target, w := grainTarget(t)
	p := newRawPeer(t, "127.0.0.1", 8192+w.PayloadSize(), false)
	p.connect(target.Info())
	for _, index := range []uint64{200, 192, 199, 101, 201} { // 101: its ring may be longer than ours
		sendGrain(p, target, w, index)
		p.completed(1, time.Second)
	}
	eventually(t, time.Second, func() string { return fmt.Sprintf("%+v", target.Stats()) }, func() bool {
		st := target.Stats()
		return st.Head == 201 && st.Commits == 2 && st.BadImmediates == 3 && st.Connected && st.Errors == 0
	})
}

// TestLappedHeaderIsIgnored: where the rings differ in depth, the header that a
// lapped initiator sends belongs to another slot of ours. Nothing is published and
// the connection stays, which an SDK initiator would not make again.
func TestLappedHeaderIsIgnored(t *testing.T) {
	target, w := grainTarget(t)
	p := newRawPeer(t, "127.0.0.1", 8192+w.PayloadSize(), false)
	p.connect(target.Info())
	sendGrain(p, target, w, 200)
	p.completed(1, time.Second)
	slot := w.SlotOf(201)
	putGrainHeader(p.mem, w.Slot(slot), 206)
	p.write(target.Info().Regions[slot], uint64(len(w.Slot(slot))), uint32(newGrainImmediate(slot, w.TotalSlices())))
	p.completed(1, time.Second)
	sendGrain(p, target, w, 202)
	p.completed(1, time.Second)
	eventually(t, time.Second, func() string { return fmt.Sprintf("%+v", target.Stats()) }, func() bool {
		st := target.Stats()
		return st.Head == 202 && st.Commits == 2 && st.BadImmediates == 1 && st.Connected && st.Errors == 0
	})
}

// TestOverwrittenEntriesAreIgnored: an initiator that was a whole bounce buffer ahead
// leaves entries that go back by that much once we have read its newest.
func TestOverwrittenEntriesAreIgnored(t *testing.T) {
	f := newFlow(t, audioDef(2), 200*time.Millisecond, 200*time.Millisecond)
	target := openTarget(t, TargetConfig{Continuous: f.sampleWriter(t, f.mirror), FlowID: f.id})
	info := target.Info()
	p := newRawPeer(t, "127.0.0.1", int(info.Bounce.EntrySize), false)
	p.connect(info)
	newest := 1000 * uint64(480)
	heads := []uint64{newest, newest - (info.Bounce.EntryCount-1)*480, newest + 480}
	for i, head := range heads {
		putSampleHeader(p.mem, head, 480)
		p.write(info.Regions[i], info.Bounce.EntrySize, uint32(i))
		p.completed(1, time.Second)
	}
	eventually(t, time.Second, func() string { return fmt.Sprintf("%+v", target.Stats()) }, func() bool {
		st := target.Stats()
		return st.Head == newest+480 && st.Commits == 2 && st.BadImmediates == 1 && st.Connected && st.Errors == 0
	})
}
