package fabrics

import (
	"encoding/binary"
	"fmt"
)

// sampleHeader is the length of a bounce-buffer entry's header: u64 head index,
// u64 count, little-endian (MXL Fabrics reference §7.1).
const sampleHeader = 16

// sampleGeometry is the shape of a continuous flow's ring.
type sampleGeometry struct {
	channels int
	word     int    // bytes of one sample
	length   uint64 // samples of one channel's ring
}

// frame is the bytes of one sample of all channels.
func (g sampleGeometry) frame() uint64 { return uint64(g.channels) * uint64(g.word) }

// entryFrames is how many samples per channel fit an entry of entrySize bytes.
func (g sampleGeometry) entryFrames(entrySize uint64) uint64 {
	if entrySize <= sampleHeader {
		return 0
	}
	return (entrySize - sampleHeader) / g.frame()
}

// bounceOf is the bounce buffer of a target flow whose sync batch hint is batch
// samples (MXL Fabrics reference §7.1).
func (g sampleGeometry) bounceOf(batch uint64) Bounce {
	batch = max(batch, 1)
	return Bounce{
		EntryCount: (g.length + batch - 1) / batch,
		EntrySize:  g.frame()*batch + sampleHeader,
	}
}

func putSampleHeader(b []byte, head, count uint64) {
	binary.LittleEndian.PutUint64(b, head)
	binary.LittleEndian.PutUint64(b[8:], count)
}

func readSampleHeader(b []byte) (head, count uint64) {
	return binary.LittleEndian.Uint64(b), binary.LittleEndian.Uint64(b[8:])
}

// sampleSegment is one local piece of an entry: the header, or a fragment of one
// channel at offset in the ring.
type sampleSegment struct {
	header         bool
	offset, length uint64
}

// sampleSegments appends the pieces of the entry for the count samples before
// head, channel by channel: header, channel 0's one or two fragments, channel 1's
// and so on (MXL Fabrics reference §7.2).
func sampleSegments(dst []sampleSegment, g sampleGeometry, head, count uint64) []sampleSegment {
	dst = append(dst, sampleSegment{header: true, length: sampleHeader})
	start := (head + g.length - count%g.length) % g.length
	first := min(count, g.length-start)
	word := uint64(g.word)
	for c := range uint64(g.channels) {
		base := c * g.length * word
		dst = append(dst, sampleSegment{offset: base + start*word, length: first * word})
		if first < count {
			dst = append(dst, sampleSegment{offset: base, length: (count - first) * word})
		}
	}
	return dst
}

// checkEntry judges what arrived in a bounce-buffer entry before it is copied.
// previous is the head of the connection's last batch, 0 before the first.
func (g sampleGeometry) checkEntry(entrySize, head, count, previous uint64) error {
	switch limit := g.entryFrames(entrySize); {
	case count == 0:
		return fmt.Errorf("batch of no samples at index %d", head)
	case count > limit:
		return fmt.Errorf("batch of %d samples, an entry holds %d", count, limit)
	case count > g.length/2:
		return fmt.Errorf("batch of %d samples, the ring takes %d at once", count, g.length/2)
	case head == undefinedIndex:
		return fmt.Errorf("batch before the undefined index")
	case head < previous:
		return fmt.Errorf("index %d after %d", head, previous)
	}
	return nil
}
