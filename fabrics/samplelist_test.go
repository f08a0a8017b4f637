package fabrics

import (
	"fmt"
	"testing"
)

// Test10SampleLists: number of writes, consecutive offsets, immediate on the last
// alone, and the samples in the documented order (MXL Fabrics reference §13.10).
func Test10SampleLists(t *testing.T) {
	const length, limit = 1024, 4
	for _, channels := range []int{1, 2, 8, 16, 64} {
		for _, c := range []struct{ head, count uint64 }{
			{480, 480}, {1 << 40, 480}, {length * 7, length / 2}, {length + 100, 200}, {length, length}, {5, 1}, {length*3 + 1, 2},
		} {
			t.Run(fmt.Sprintf("%d channels, %d before %d", channels, c.count, c.head), func(t *testing.T) {
				g := sampleGeometry{channels, 4, length}
				segments := sampleSegments(nil, g, c.head, c.count)
				fragments := 1
				if start := (c.head - c.count) % length; start+c.count > length {
					fragments = 2
				}
				if want := 1 + channels*fragments; len(segments) != want {
					t.Fatalf("%d segments, want %d", len(segments), want)
				}
				writes := sampleWrites(nil, segments, limit)
				if want := (len(segments) + limit - 1) / limit; len(writes) != want {
					t.Errorf("%d writes, want %d", len(writes), want)
				}
				var remote uint64
				next := 0
				for i, w := range writes {
					if w.from != next || w.remote != remote || w.immediate != (i == len(writes)-1) || w.to-w.from > limit {
						t.Fatalf("write %d: %+v at %d", i, w, remote)
					}
					for _, s := range segments[w.from:w.to] {
						remote += s.length
					}
					next = w.to
				}
				if next != len(segments) || remote != sampleHeader+c.count*g.frame() {
					t.Errorf("%d of %d segments, %d bytes", next, len(segments), remote)
				}
				// Follow every sample: channel by channel, in order.
				at := segments[1:]
				for channel := range uint64(channels) {
					n := c.head - c.count
					for n < c.head {
						for off := at[0].offset; off < at[0].offset+at[0].length; off += 4 {
							if want := (channel*length + n%length) * 4; off != want {
								t.Fatalf("sample %d of channel %d is taken from %d, want %d", n, channel, off, want)
							}
							n++
						}
						at = at[1:]
					}
				}
			})
		}
	}
}

// Test11BounceBuffer: sizes of MXL Fabrics reference §7.1; the hint itself fits, one
// sample more does not (§13.11).
func Test11BounceBuffer(t *testing.T) {
	for _, c := range []struct {
		channels int
		length   uint64
		batch    uint64
		want     Bounce
	}{
		{2, 19456, 480, Bounce{41, 3856}},
		{16, 19456, 480, Bounce{41, 30736}},
		{64, 19456, 480, Bounce{41, 122896}},
		{8, 38912, 960, Bounce{41, 30736}},
		{2, 19456, 0, Bounce{19456, 24}},
	} {
		g := sampleGeometry{c.channels, 4, c.length}
		if got := g.bounceOf(c.batch); got != c.want {
			t.Errorf("%+v: %+v, want %+v", c, got, c.want)
		}
		if n := g.entryFrames(c.want.EntrySize); n != max(c.batch, 1) {
			t.Errorf("%+v: %d samples fit", c, n)
		}
	}
	g := sampleGeometry{2, 4, 19456}
	if err := g.checkEntry(3856, 10000, 480, 9000); err != nil {
		t.Error(err)
	}
	if err := g.checkEntry(3856, 10000, 481, 9000); err == nil {
		t.Error("481 samples are taken")
	}
	if n := g.entryFrames(15); n != 0 {
		t.Errorf("%d samples fit 15 bytes", n)
	}
}

// FuzzEntry: whatever stands in an entry, what is accepted fits entry and ring.
func FuzzEntry(f *testing.F) {
	f.Add(uint64(480), uint64(480), uint64(0), uint64(3856))
	f.Add(^uint64(0), ^uint64(0), uint64(1), uint64(16))
	f.Fuzz(func(t *testing.T, head, count, previous, size uint64) {
		g := sampleGeometry{2, 4, 19456}
		if g.checkEntry(size, head, count, previous) != nil {
			return
		}
		if count == 0 || count > g.length/2 || head < previous || size < sampleHeader || (size-sampleHeader)/8 < count {
			t.Errorf("head %d, count %d after %d in %d bytes is accepted", head, count, previous, size)
		}
	})
}
