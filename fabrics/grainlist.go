package fabrics

import "fmt"

// grainHeader is the length of a grain file's header, which travels as part of
// plane 0 whenever a transfer starts at slice 0 (MXL Fabrics reference §6.2).
const grainHeader = 8192

// Immediate data of a discrete transfer: the slot, and how many slices are valid
// after it (MXL Fabrics reference §6.1).
type grainImmediate uint32

func newGrainImmediate(slot, slices int) grainImmediate {
	return grainImmediate(uint32(slot)&0xffff | uint32(slices)<<16)
}

// inRound gives an immediate between two of ours, of a ring of depth slots, the round
// of index besides: how often the ring was full before, as far as slots leave room.
// It tells the grain that was meant from the one whose header landed in its place,
// because the writer came round before the packets were sent again. Without room it
// is the plain one.
func (i grainImmediate) inRound(index, depth uint64) grainImmediate {
	return newGrainImmediate(int(uint64(i.slot())+depth*roundOf(index, depth)), i.slices())
}

// outOfRound takes it apart again.
func (i grainImmediate) outOfRound(depth uint64) (plain grainImmediate, round uint64) {
	return newGrainImmediate(i.slot()%int(depth), i.slices()), uint64(i.slot()) / depth
}

func roundOf(index, depth uint64) uint64 { return index / depth % (maxRegions / depth) }

func (i grainImmediate) slot() int   { return int(i & 0xffff) }
func (i grainImmediate) slices() int { return int(i >> 16) }

// grainGeometry is the shape of one grain: payload bytes, slices, and per plane
// the bytes of one slice (0 for planes that are not there).
type grainGeometry struct {
	payload uint64
	total   int
	slices  [4]uint32
}

// regionLen is the length of a grain's region.
func (g grainGeometry) regionLen() uint64 { return grainHeader + g.payload }

func (g grainGeometry) planes() int {
	n := 0
	for n < len(g.slices) && g.slices[n] != 0 {
		n++
	}
	return n
}

// payloadBytes is the payload that slices [start, end) hold.
func (g grainGeometry) payloadBytes(start, end int) uint64 {
	if start == 0 && end == g.total {
		return g.payload
	}
	var sum uint64
	for _, s := range g.slices {
		sum += uint64(s) * uint64(end-start)
	}
	return sum
}

// grainWrite is one write of a discrete transfer. Offsets are the same in the
// local and the remote region.
type grainWrite struct {
	offset, length uint64
	immediate      bool
}

// maxGrainWrites is the most writes a discrete transfer has: one a plane.
const maxGrainWrites = 4

// grainWrites appends the writes that move slices [start, end) to dst, in the
// order they must be posted (MXL Fabrics reference §6.2). start = end = 0 moves the
// header alone. Stricter than the SDK, which refuses only start > end.
func grainWrites(dst []grainWrite, g grainGeometry, start, end int) ([]grainWrite, error) {
	if start < 0 || start > end || end > g.total {
		return dst, fmt.Errorf("slices %d to %d of %d", start, end, g.total)
	}
	if start == 0 && end == g.total {
		return append(dst, grainWrite{0, g.regionLen(), true}), nil
	}
	planes := g.planes()
	base := uint64(grainHeader)
	for p := range planes {
		size := uint64(g.slices[p])
		w := grainWrite{
			offset:    base + uint64(start)*size,
			length:    uint64(end-start) * size,
			immediate: p == planes-1,
		}
		if p == 0 && start == 0 {
			w.offset, w.length = 0, grainHeader+uint64(end)*size
		}
		dst = append(dst, w)
		base += size * uint64(g.total)
	}
	return dst, nil
}
