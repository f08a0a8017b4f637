package fabrics

import (
	"testing"
	"time"

	"github.com/mxl-stack/mxl-fabrics-agent/mxl"
)

// FuzzGrainImmediate: whatever immediate and header arrive, what is published is an
// existing slot that holds its own index, and nothing else happens.
func FuzzGrainImmediate(f *testing.F) {
	flow := newFlow(f, videoDef("video/v210", 192, 108, rate50), 200*time.Millisecond, 200*time.Millisecond)
	w := flow.grainWriter(f, flow.mirror)
	l := &targetLane{cfg: TargetConfig{Discrete: w, FlowID: flow.id}}
	l.epoch = time.Now()
	l.grains = grainGeometry{uint64(w.PayloadSize()), w.TotalSlices(), w.SliceSizes()}
	l.slots = adoptedSlots(w)
	clean := append([]byte(nil), w.Slot(0)[:grainHeader]...)
	f.Add(uint32(0x006c0003), uint64(1003), uint64(1000), []byte{})
	f.Add(uint32(0xffffffff), ^uint64(0), uint64(0), []byte{9, 9, 9})
	f.Add(uint32(0x006c000a), uint64(1010), ^uint64(0), []byte{1})
	f.Fuzz(func(t *testing.T, immediate uint32, index, head uint64, header []byte) {
		imm := grainImmediate(immediate)
		l.connection = targetConnection{state: connectionUp, head: head}
		slot := imm.slot() % int(w.Depth())
		mem := w.Slot(slot)
		putGrainHeader(mem, clean, index)
		copy(mem[16:grainHeader], header)
		before := w.Head()
		if l.commitGrain(imm) != nil {
			if w.Head() != before {
				t.Errorf("a refused immediate moved the head from %d to %d", before, w.Head())
			}
			return
		}
		if imm.slot() >= int(w.Depth()) || imm.slices() > w.TotalSlices() || index == mxl.UndefinedIndex ||
			w.SlotOf(index) != imm.slot() || head != undefinedIndex && index < head || w.Head() != index {
			t.Errorf("immediate %#x with index %d after %d is published as %d", immediate, index, head, w.Head())
		}
		if got := w.Header(imm.slot()); int(got.ValidSlices) != imm.slices() {
			t.Errorf("%d slices published, immediate %#x", got.ValidSlices, immediate)
		}
	})
}

// FuzzSampleEntry: the same for audio.
func FuzzSampleEntry(f *testing.F) {
	flow := newFlow(f, audioDef(2), 200*time.Millisecond, 200*time.Millisecond)
	w := flow.sampleWriter(f, flow.mirror)
	l := &targetLane{cfg: TargetConfig{Continuous: w, FlowID: flow.id}}
	l.epoch = time.Now()
	l.samples = sampleGeometry{w.ChannelCount(), w.WordSize(), w.BufferLength()}
	l.entry = l.samples.bounceOf(uint64(w.Info().MaxSyncBatchSizeHint))
	l.stride = int(l.entry.EntrySize+63) &^ 63
	l.bounce = make([]byte, l.stride*int(l.entry.EntryCount))
	f.Add(uint32(0), uint64(480), uint64(480), uint64(0))
	f.Add(uint32(41), uint64(1), uint64(1), uint64(1))
	f.Add(uint32(40), ^uint64(0), ^uint64(0), ^uint64(0))
	f.Fuzz(func(t *testing.T, entry uint32, head, count, previous uint64) {
		l.connection = targetConnection{state: connectionUp, head: previous}
		putSampleHeader(l.bounceEntry(int(uint64(entry)%l.entry.EntryCount)), head, count)
		before := w.Head()
		if l.commitSamples(entry) != nil {
			if w.Head() != before {
				t.Errorf("a refused entry moved the head from %d to %d", before, w.Head())
			}
			return
		}
		if uint64(entry) >= l.entry.EntryCount || count == 0 || count > 480 || previous != undefinedIndex && head < previous || w.Head() != head {
			t.Errorf("entry %d, %d samples before %d after %d, published %d", entry, count, head, previous, w.Head())
		}
	})
}
