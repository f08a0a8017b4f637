package pattern

import (
	"bytes"
	"encoding/binary"
	"math"
	"testing"

	"github.com/google/uuid"
)

var (
	flowA = uuid.MustParse("5fbec3b1-1b0f-417d-9059-8b94a47197ed")
	flowB = uuid.MustParse("5fbec3b1-1b0f-417d-9059-8b94a47197ee")
)

func TestFillIsTheSameInPieces(t *testing.T) {
	for _, mask := range []uint64{V210Mask, ^uint64(0)} {
		g := NewGrains(flowA, mask)
		whole := make([]byte, 1000)
		g.Fill(whole, 88_000_000_001, 0)
		for _, cuts := range [][]int{{8}, {16}, {1, 2, 3}, {100, 164, 700}, {999}, {4, 12, 20}, {7, 71, 135}} {
			pieces := make([]byte, len(whole))
			from := 0
			for _, to := range append(cuts, len(whole)) {
				g.Fill(pieces[from:to], 88_000_000_001, from)
				if at := g.Check(whole[from:to], 88_000_000_001, from); at != -1 {
					t.Errorf("cuts %v: piece at %d differs at %d", cuts, from, at)
				}
				from = to
			}
			if !bytes.Equal(whole, pieces) {
				t.Errorf("cuts %v: pieces differ from the whole", cuts)
			}
		}
	}
}

func TestCheckFindsEveryFlippedByte(t *testing.T) {
	g := NewGrains(flowA, V210Mask)
	buf := make([]byte, 301)
	g.Fill(buf, 7, 0)
	for i := range buf {
		buf[i] ^= 0x40
		if at := g.Check(buf, 7, 0); at != i {
			t.Fatalf("byte %d flipped, Check says %d", i, at)
		}
		buf[i] ^= 0x40
	}
	if at := g.Check(buf, 7, 0); at != -1 {
		t.Fatalf("intact payload differs at %d", at)
	}
}

func TestPayloadTellsIndexFlowAndOffsetApart(t *testing.T) {
	g := NewGrains(flowA, V210Mask)
	line := func(p Grains, index uint64, offset int) []byte {
		b := make([]byte, 512)
		p.Fill(b, index, offset)
		return b
	}
	ours := line(g, 5, 5120)
	for name, other := range map[string][]byte{
		"next index":    line(g, 6, 5120),
		"previous ring": line(g, 5-5, 5120),
		"next line":     line(g, 5, 10240),
		"other flow":    line(NewGrains(flowB, V210Mask), 5, 5120),
		"zeroes":        make([]byte, 512),
	} {
		if bytes.Equal(ours, other) {
			t.Errorf("%s: equal payload", name)
		}
		if g.Check(other, 5, 5120) != 0 {
			t.Errorf("%s: the first word does not tell", name)
		}
	}
	for i := 0; i < len(ours); i += 4 {
		if w := binary.LittleEndian.Uint32(ours[i:]); w>>30 != 0 {
			t.Fatalf("word %d is %#x: v210 leaves the top two bits clear", i/4, w)
		}
	}
}

func TestStamp(t *testing.T) {
	g := NewGrains(flowA, V210Mask)
	buf := make([]byte, 64)
	g.Fill(buf, 123456789012, 0)
	if index, ours, ok := g.Stamp(buf); index != 123456789012 || !ours || !ok {
		t.Errorf("Stamp = %d %v %v", index, ours, ok)
	}
	if _, ours, ok := NewGrains(flowB, V210Mask).Stamp(buf); ours || !ok {
		t.Errorf("another flow's stamp: ours %v ok %v", ours, ok)
	}
	if _, _, ok := g.Stamp(buf[:15]); ok {
		t.Error("15 bytes have a stamp")
	}
}

func TestSamples(t *testing.T) {
	s := NewSamples(flowA)
	const first = 80_000_000_000_000
	f32, f64 := make([]byte, 4*480), make([]byte, 8*480)
	for channel := range 3 {
		s.Fill32(f32, channel, first)
		s.Fill64(f64, channel, first)
		for i := range 480 {
			want := s.Value(channel, first+uint64(i))
			if want < -1 || want >= 1 {
				t.Fatalf("sample %v out of range", want)
			}
			if got := math.Float32frombits(binary.LittleEndian.Uint32(f32[4*i:])); got != want {
				t.Fatalf("f32 %d is %v, want %v", i, got, want)
			}
			if got := math.Float64frombits(binary.LittleEndian.Uint64(f64[8*i:])); got != float64(want) {
				t.Fatalf("f64 %d is %v, want %v", i, got, want)
			}
		}
		if s.Check32(f32, channel, first, 0) != -1 || s.Check64(f64, channel, first, 0) != -1 {
			t.Error("intact samples fail")
		}
		if s.Check32(f32, channel+1, first, 0) == -1 || s.Check32(f32, channel, first+1, 0) == -1 {
			t.Error("another channel or number passes")
		}
		f32[4*77] ^= 1
		f64[8*78+3] ^= 1
		if at := s.Check32(f32, channel, first, 0); at != 77 {
			t.Errorf("Check32 says %d, want 77", at)
		}
		if at := s.Check32(f32, channel, first, 78); at != -1 {
			t.Errorf("Check32 from 78 says %d, want -1", at)
		}
		if at := s.Check64(f64, channel, first, 0); at != 78 {
			t.Errorf("Check64 says %d, want 78", at)
		}
	}
}

func FuzzGrainsCheckAgreesWithFill(f *testing.F) {
	f.Add(uint64(1), uint16(0), uint16(100), uint16(3))
	f.Add(uint64(1)<<60, uint16(13), uint16(65), uint16(64))
	f.Fuzz(func(t *testing.T, index uint64, offset, size, flip uint16) {
		g := NewGrains(flowA, V210Mask)
		buf := make([]byte, size)
		g.Fill(buf, index, int(offset))
		if at := g.Check(buf, index, int(offset)); at != -1 {
			t.Fatalf("differs at %d", at)
		}
		if int(flip) < len(buf) {
			buf[flip] ^= 0x80
			if at := g.Check(buf, index, int(offset)); at != int(flip) {
				t.Fatalf("flipped %d, found %d", flip, at)
			}
		}
	})
}

const grain1080 = 5529600

func BenchmarkFill1080(b *testing.B) {
	buf := make([]byte, grain1080)
	g := NewGrains(flowA, V210Mask)
	b.SetBytes(grain1080)
	for i := 0; b.Loop(); i++ {
		g.Fill(buf, uint64(i), 0)
	}
}

func BenchmarkCheck1080(b *testing.B) {
	buf := make([]byte, grain1080)
	g := NewGrains(flowA, V210Mask)
	g.Fill(buf, 1, 0)
	b.SetBytes(grain1080)
	for b.Loop() {
		if g.Check(buf, 1, 0) != -1 {
			b.Fatal("differs")
		}
	}
}

func BenchmarkCheckSamples(b *testing.B) {
	buf := make([]byte, 4*480)
	s := NewSamples(flowA)
	s.Fill32(buf, 0, 1)
	b.SetBytes(4 * 480)
	for b.Loop() {
		if s.Check32(buf, 0, 1, 0) != -1 {
			b.Fatal("differs")
		}
	}
}
