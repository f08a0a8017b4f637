package fabrics

import (
	"fmt"
	"testing"
	"time"

	"github.com/mxl-stack/mxl-fabrics-agent/mxl"
)

// TestRoundOfImmediate: an immediate with a round names the same slot and slices, and
// another round for every other index of the slot, as far as 16 bits go.
func TestRoundOfImmediate(t *testing.T) {
	for _, depth := range []uint64{1, 2, 7, 10, 240, 4095, 32768, 32769, 65535, 65536} {
		rounds := maxRegions / depth
		for _, index := range []uint64{0, 1, depth - 1, depth, 1_234_567_890_123, undefinedIndex - 1} {
			for _, slices := range []int{0, 1, 1080, 65535} {
				plain := newGrainImmediate(int(index%depth), slices)
				got, round := plain.inRound(index, depth).outOfRound(depth)
				if got != plain || round != roundOf(index, depth) {
					t.Fatalf("depth %d, index %d: %#08x comes back as %#08x in round %d", depth, index, plain, got, round)
				}
				for k := uint64(1); k < min(rounds, 5) && index >= k*depth; k++ {
					if roundOf(index-k*depth, depth) == round {
						t.Fatalf("depth %d: indexes %d and %d are of one round", depth, index, index-k*depth)
					}
				}
			}
		}
	}
}

// TestGrainOfAnotherRound: packets of a grain that are sent again when its slot was
// opened for a later one carry that one's header over mixed bytes. It is not
// published, the grains that follow are, and so is the later one when it is whole.
func TestGrainOfAnotherRound(t *testing.T) {
	target, w := grainTarget(t)
	p := newRawPeer(t, "127.0.0.1", 8192+w.PayloadSize(), false)
	p.data = signature{receives: nativeReceives, instance: 7, secret: target.Info().Secret, rounds: true}.bytes()
	p.connect(target.Info())
	depth := w.Depth()
	for _, g := range []struct{ meant, header uint64 }{{200, 200}, {201, 201 + depth}, {202, 202}, {201 + depth, 201 + depth}} {
		slot := w.SlotOf(g.meant)
		putGrainHeader(p.mem, w.Slot(slot), g.header)
		imm := newGrainImmediate(slot, w.TotalSlices()).inRound(g.meant, depth)
		p.write(target.Info().Regions[slot], uint64(len(w.Slot(slot))), uint32(imm))
		p.completed(1, time.Second)
		want := g.meant
		if g.header != g.meant {
			want = 200
		}
		eventually(t, time.Second, func() string { return fmt.Sprintf("%+v: %+v", g, target.Stats()) }, func() bool {
			st := target.Stats()
			return st.Head == want && w.Head() == want && st.Commits+st.BadImmediates == map[uint64]uint64{200: 1, 201: 2, 202: 3, 201 + depth: 4}[g.meant]
		})
	}
	if st := target.Stats(); st.Commits != 3 || st.BadImmediates != 1 || !st.Connected || st.Errors != 0 {
		t.Errorf("%+v", st)
	}
}

// TestPairOfOursCountsRounds: both ends say that they know rounds, over several
// fillings of the ring.
func TestPairOfOursCountsRounds(t *testing.T) {
	p := newPair(t, videoDef("video/v210", smallVideo, smallKeyed, rate50), 160*time.Millisecond, 300*time.Millisecond)
	connect(t, p.source, "b", p.target)
	said := make(chan [2]bool)
	p.source.lane.do(func() {
		d := p.source.lane.destinations[0]
		p.target.lane.do(func() { said <- [2]bool{d.rounds, p.target.lane.connection.rounds} })
	})
	if got := <-said; got != [2]bool{true, true} {
		t.Fatalf("source and target: %v", got)
	}
	first := 10 * maxRegions / p.mirror.Depth() * p.mirror.Depth()
	for index := first - 8; index < first+3*p.mirror.Depth(); index++ {
		writeGrain(t, p.w, index, 0, p.w.TotalSlices())
		p.arrives(t, index, mxl.AllSlices)
	}
	if st := p.target.Stats(); st.BadImmediates != 0 || st.Errors != 0 {
		t.Errorf("%+v", st)
	}
}
