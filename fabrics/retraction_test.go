package fabrics

import (
	"errors"
	"testing"
	"time"

	"github.com/mxl-stack/mxl-fabrics-agent/mxl"
)

// TestTornGrainIsTakenBack: the writer comes round to a slot while its grain is in
// flight. The mirror must not keep a complete grain of mixed bytes, at our own targets
// (which have later grains by then) and at others; nothing else suffers.
func TestTornGrainIsTakenBack(t *testing.T) {
	for _, c := range []struct {
		name, media string
		native      bool
	}{
		{"native", "video/v210", true},
		{"native, two planes", "video/v210a", true},
		{"foreign", "video/v210", false},
		{"foreign, two planes", "video/v210a", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := newPair(t, videoDef(c.media, smallVideo, smallKeyed, rate50), 160*time.Millisecond, 300*time.Millisecond)
			depth := p.w.Depth()
			const first = 1000
			writeGrain(t, p.w, first, 0, p.w.TotalSlices())
			info := p.target.Info()
			if !c.native {
				info.Native = 0
			}
			if err := p.source.SetTarget("b", info); err != nil {
				t.Fatal(err)
			}
			p.arrives(t, first, mxl.AllSlices)
			eventually(t, 5*time.Second, p.describe, func() bool { return targetOf(p.source, "b").Transfers == 1 })

			held, release := make(chan struct{}), make(chan struct{})
			p.target.lane.do(func() { close(held); <-release })
			<-held
			const torn = first + 1
			writeGrain(t, p.w, torn, 0, p.w.TotalSlices())
			flying := make(chan int)
			eventually(t, 5*time.Second, p.describe, func() bool {
				p.source.lane.do(func() { flying <- p.source.lane.destinations[0].flying })
				return <-flying > 0
			})
			for index := uint64(torn + 1); index < torn+depth; index++ {
				writeGrain(t, p.w, index, 0, p.w.TotalSlices())
			}
			payload, err := p.w.OpenGrain(torn + depth)
			if err != nil {
				t.Fatal(err)
			}
			pattern(payload, torn+depth)
			close(release)

			newest := torn + depth - 1
			p.arrives(t, newest, mxl.AllSlices)
			eventually(t, 5*time.Second, p.describe, func() bool { return targetOf(p.source, "b").Retracted == 1 })
			g, err := p.r.Grain(torn, mxl.AllSlices)
			if err != nil || !g.Invalid() || g.ValidSlices != 0 {
				t.Errorf("the torn grain: %+v, %v", g.GrainHeader, err)
			}
			eventually(t, 5*time.Second, p.describe, func() bool {
				st := p.target.Stats()
				return st.Retracted == 1 && st.Head == newest && p.r.Head() == newest
			})
			seen := 0
			for index := uint64(torn + 1); index <= newest; index++ {
				g, err := p.r.Grain(index, mxl.AllSlices)
				if errors.Is(err, mxl.ErrSkipped) {
					continue // passed over: the origin was far ahead
				}
				if err != nil || g.Invalid() {
					t.Errorf("grain %d: %+v, %v", index, g.GrainHeader, err)
					continue
				}
				checkPattern(t, g.Payload, index)
				seen++
			}
			src, st := targetOf(p.source, "b"), p.target.Stats()
			if seen == 0 || src.Torn != 1 || src.Errors+st.Errors+st.BadImmediates != 0 || src.Connections != 1 {
				t.Errorf("%d grains seen, source %+v, target %d errors, %d bad immediates", seen, src, st.Errors, st.BadImmediates)
			}
		})
	}
}

func TestRetractable(t *testing.T) {
	for _, c := range []struct {
		index, sent, depth uint64
		want               bool
	}{
		{100, 100, 10, true},
		{100, 109, 10, true},
		{100, 110, 10, false}, // its slot has a later grain
		{100, 5000, 10, false},
		{100, 50, 10, false}, // the origin went back
	} {
		if got := retractable(c.index, c.sent, c.depth); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
}

// TestRetractionOfAnOlderGrain: an SDK initiator may flag a grain invalid after later
// ones; the head does not go back for it, and a bare header of another kind is no
// retraction.
func TestRetractionOfAnOlderGrain(t *testing.T) {
	target, w := grainTarget(t)
	p := newRawPeer(t, "127.0.0.1", 8192+w.PayloadSize(), false)
	p.connect(target.Info())
	for _, index := range []uint64{200, 201, 202} {
		sendGrain(p, target, w, index)
		p.completed(1, patience)
	}
	bare := func(index uint64, flags byte) {
		t.Helper()
		slot := w.SlotOf(index)
		putGrainHeader(p.mem, w.Slot(slot), index)
		p.mem[16] = flags
		p.write(target.Info().Regions[slot], grainHeader, uint32(newGrainImmediate(slot, 0)))
		p.completed(1, patience)
	}
	bare(201, byte(mxl.GrainInvalid))
	bare(200, 0)
	sendGrain(p, target, w, 203)
	p.completed(1, patience)
	eventually(t, time.Second, func() string { return target.Stats().LastError }, func() bool {
		st := target.Stats()
		return st.Head == 203 && w.Head() == 203 && st.Commits == 4 && st.Retracted == 1 && st.BadImmediates == 1 && st.Connected
	})
	if h := w.Header(w.SlotOf(201)); h.Index != 201 || !h.Invalid() || h.ValidSlices != 0 {
		t.Errorf("taken back: %+v", h)
	}
	if h := w.Header(w.SlotOf(202)); h.Index != 202 || h.Invalid() || int(h.ValidSlices) != w.TotalSlices() {
		t.Errorf("its neighbour: %+v", h)
	}
}
