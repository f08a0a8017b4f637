package fabrics

import (
	"encoding/json"
	"math/rand/v2"
	"os"
	"slices"
	"testing"
)

var (
	v210Full  = grainGeometry{1080 * 5120, 1080, [4]uint32{5120}}
	v210aFull = grainGeometry{1080 * (5120 + 2560), 1080, [4]uint32{5120, 2560}}
	ancillary = grainGeometry{4096, 4096, [4]uint32{1}}
)

// Test06GrainImmediate (MXL Fabrics reference §13.6).
func Test06GrainImmediate(t *testing.T) {
	if got := newGrainImmediate(3, 1080); got != 0x04380003 {
		t.Errorf("%#08x", uint32(got))
	}
	for slot := 0; slot < 1<<16; slot++ {
		for _, n := range []int{0, 1, 539, 1080, 65535, slot} {
			if i := newGrainImmediate(slot, n); i.slot() != slot || i.slices() != n {
				t.Fatalf("slot %d, slices %d: %d, %d", slot, n, i.slot(), i.slices())
			}
		}
	}
	for n := range 1 << 16 {
		if i := newGrainImmediate(65535-n, n); i.slot() != 65535-n || i.slices() != n {
			t.Fatalf("%d: %d, %d", n, i.slot(), i.slices())
		}
	}
}

// Test07GrainWrites: the lists of MXL Fabrics reference §6.2 (§13.7).
func Test07GrainWrites(t *testing.T) {
	const H = 8192
	for _, c := range []struct {
		name       string
		g          grainGeometry
		start, end int
		want       []grainWrite
	}{
		{"v210 whole", v210Full, 0, 1080, []grainWrite{{0, H + 1080*5120, true}}},
		{"v210 header", v210Full, 0, 0, []grainWrite{{0, H, true}}},
		{"v210 first", v210Full, 0, 540, []grainWrite{{0, H + 540*5120, true}}},
		{"v210 middle", v210Full, 100, 101, []grainWrite{{H + 100*5120, 5120, true}}},
		{"v210 last", v210Full, 540, 1080, []grainWrite{{H + 540*5120, 540 * 5120, true}}},
		{"v210a whole", v210aFull, 0, 1080, []grainWrite{{0, H + 1080*7680, true}}},
		{"v210a header", v210aFull, 0, 0, []grainWrite{{0, H, false}, {H + 1080*5120, 0, true}}},
		{"v210a first", v210aFull, 0, 540, []grainWrite{{0, H + 540*5120, false}, {H + 1080*5120, 540 * 2560, true}}},
		{"v210a last", v210aFull, 540, 1080, []grainWrite{{H + 540*5120, 540 * 5120, false}, {H + 1080*5120 + 540*2560, 540 * 2560, true}}},
		{"smpte291 whole", ancillary, 0, 4096, []grainWrite{{0, H + 4096, true}}},
		{"smpte291 header", ancillary, 0, 0, []grainWrite{{0, H, true}}},
		{"smpte291 middle", ancillary, 10, 20, []grainWrite{{H + 10, 10, true}}},
	} {
		got, err := grainWrites(nil, c.g, c.start, c.end)
		if err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%s: %+v, %v; want %+v", c.name, got, err, c.want)
		}
	}
}

// Test07PartitionsCoverTheGrain: whatever ranges a grain is sent in, every byte of
// its file is sent once.
func Test07PartitionsCoverTheGrain(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		g := grainGeometry{total: 1 + r.IntN(40)}
		for p := range 1 + r.IntN(4) {
			g.slices[p] = 1 + uint32(r.IntN(50))
			g.payload += uint64(g.slices[p]) * uint64(g.total)
		}
		seen := make([]byte, g.regionLen())
		bytes, start := uint64(0), 0
		for start < g.total {
			end := start + 1 + r.IntN(g.total-start)
			list, err := grainWrites(nil, g, start, end)
			if err != nil {
				t.Fatal(err)
			}
			for i, w := range list {
				if w.immediate != (i == len(list)-1) {
					t.Fatalf("%+v: immediate not on the last of %+v", g, list)
				}
				for at := w.offset; at < w.offset+w.length; at++ {
					seen[at]++
				}
			}
			bytes += g.payloadBytes(start, end)
			start = end
		}
		if slices.Min(seen) != 1 || slices.Max(seen) != 1 || bytes != g.payload {
			t.Fatalf("%+v: bytes are sent between %d and %d times, %d counted", g, slices.Min(seen), slices.Max(seen), bytes)
		}
	}
}

// Test08BadRangesAreRefused (MXL Fabrics reference §13.8).
func Test08BadRangesAreRefused(t *testing.T) {
	for _, c := range [][2]int{{2, 1}, {0, 1081}, {1080, 1081}, {-1, 5}, {5, -1}} {
		if list, err := grainWrites(nil, v210Full, c[0], c[1]); err == nil || len(list) != 0 {
			t.Errorf("%v: %+v, %v", c, list, err)
		}
	}
}

// wireCases are the SDK's own transfers, recorded (fixture wire-tcp.json).
type wireCases struct {
	Cases []struct {
		Case   string
		Events []struct {
			Write *struct {
				IovBytes []uint64
				Fields   struct {
					Size, HeaderSize uint64
					CQData           *uint64
					Addr, Len        uint64
					RegionNumber     int
				}
			}
		}
		TargetInfo struct{ RegionCount int }
	}
}

// TestWritesAreTheSDKs: lists, offsets and immediates equal those the SDK sent.
func TestWritesAreTheSDKs(t *testing.T) {
	raw, err := os.ReadFile(fixtures + "wire-tcp.json")
	if err != nil {
		t.Fatal(err)
	}
	var file wireCases
	if err := json.Unmarshal(raw, &file); err != nil {
		t.Fatal(err)
	}
	geometry := map[string]grainGeometry{
		"v210 full": {108 * 512, 108, [4]uint32{512}}, "v210 4 parts": {108 * 512, 108, [4]uint32{512}},
		"v210 invalid every 3": {108 * 512, 108, [4]uint32{512}},
		"v210a full":           {108 * 768, 108, [4]uint32{512, 256}}, "v210a 4 parts": {108 * 768, 108, [4]uint32{512, 256}},
		"data": ancillary,
	}
	checked := 0
	for _, c := range file.Cases {
		g, ok := geometry[c.Case]
		if !ok {
			continue
		}
		start := map[int]int{} // slices sent so far, by slot
		var got []grainWrite
		for _, e := range c.Events {
			if e.Write == nil {
				continue
			}
			f := e.Write.Fields
			got = append(got, grainWrite{f.Addr, f.Len, f.CQData != nil})
			if f.CQData == nil {
				continue
			}
			imm := grainImmediate(*f.CQData)
			if imm.slot() != f.RegionNumber {
				t.Errorf("%s: slot %d in region %d", c.Case, imm.slot(), f.RegionNumber)
			}
			from := start[imm.slot()]
			if from >= imm.slices() {
				from = 0
			}
			want, err := grainWrites(nil, g, from, imm.slices())
			if err != nil || !slices.Equal(got, want) {
				t.Errorf("%s, slices %d to %d: the SDK sent %+v, we would send %+v, %v", c.Case, from, imm.slices(), got, want, err)
			}
			if start[imm.slot()] = imm.slices(); imm.slices() == g.total {
				start[imm.slot()] = 0
			}
			got = got[:0]
			checked++
		}
	}
	if checked < 50 {
		t.Errorf("only %d transfers compared", checked)
	}
	for _, c := range file.Cases {
		channels := map[string]int{"audio 2ch": 2, "audio 16ch": 16}[c.Case]
		if channels == 0 {
			continue
		}
		g := sampleGeometry{channels, 4, 19456}
		segments := sampleSegments(nil, g, 480, 480) // does not wrap, as none recorded does
		writes := sampleWrites(nil, segments, 4)
		at := 0
		for _, e := range c.Events {
			if e.Write == nil {
				continue
			}
			w := writes[at%len(writes)]
			var lengths []uint64
			for _, s := range segments[w.from:w.to] {
				lengths = append(lengths, s.length)
			}
			if !slices.Equal(lengths, e.Write.IovBytes) || w.remote != e.Write.Fields.Addr || w.immediate != (e.Write.Fields.CQData != nil) {
				t.Errorf("%s, write %d: the SDK sent %v at %d, we would send %v at %d", c.Case, at, e.Write.IovBytes, e.Write.Fields.Addr, lengths, w.remote)
			}
			at++
		}
		if at < 10 {
			t.Errorf("%s: only %d writes compared", c.Case, at)
		}
	}
}
