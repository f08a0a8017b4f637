package fabrics

import (
	"encoding/binary"

	"github.com/mxl-stack/mxl-fabrics-agent/mxl"
)

// maxRetractions is how many torn grains of one destination wait to be taken back;
// no more transfers can be in flight, so no more can be torn.
const maxRetractions = maxInFlight

// retractions are the grains of a destination that claim to be complete there and
// are a mixture: the origin's writer came round to the slot while the transfer was
// in flight. Each is taken back by a transfer of a header alone, flagged invalid,
// from memory of ours (MXL Fabrics reference §6.2, §6.3). A batch of samples cannot
// be taken back, so it is never sent from memory that somebody writes.
type retractions struct {
	indexes [maxRetractions]uint64
	count   int
}

func (r *retractions) add(index uint64) {
	if r.count < len(r.indexes) {
		r.indexes[r.count] = index
		r.count++
	}
}

// take returns the oldest.
func (r *retractions) take() uint64 {
	index := r.indexes[0]
	r.count--
	copy(r.indexes[:], r.indexes[1:])
	return index
}

// retractable tells whether the slot of index at a target of depth slots is still
// that grain's, given the last index that was sent there. Once a later grain was sent
// to the slot, a header would spoil that one; readers then see another index.
func retractable(index, sent, depth uint64) bool { return sent-index < depth }

// Grain header (MXL format reference §4.2).
const (
	grainVersion  = 1
	grainInfoSize = 4096
)

// putInvalidHeader writes the header of an invalid grain without slices.
func putInvalidHeader(b []byte, g grainGeometry, index uint64) {
	le := binary.LittleEndian
	le.PutUint32(b[0:], grainVersion)
	le.PutUint32(b[4:], grainInfoSize)
	le.PutUint64(b[8:], index)
	le.PutUint32(b[16:], mxl.GrainInvalid)
	le.PutUint32(b[20:], uint32(g.payload))
	le.PutUint16(b[24:], uint16(g.total))
	le.PutUint16(b[26:], 0)
}

// fillRetractions puts what has to be taken back into the batch, ahead of anything
// new.
func (l *sourceLane) fillRetractions(d *destination, now int64) {
	for d.retractions.count > 0 && d.flying < d.window && l.writes.Room() >= maxGrainWrites {
		index := d.retractions.take()
		if retractable(index, d.sent, uint64(len(d.info.Regions))) {
			l.sendRetraction(d, index, now)
		}
	}
}

func (l *sourceLane) sendRetraction(d *destination, index uint64, now int64) {
	list, err := grainWrites(l.grainList[:0], l.shape.grains, 0, 0)
	if err != nil {
		panic(err) // no slices are slices of every grain
	}
	slot := int(index % uint64(len(d.info.Regions)))
	region := d.info.Regions[slot]
	// One buffer for each transfer in flight: this one is free.
	offset := uint64((d.first + d.flying) % maxInFlight * d.buffers.stride)
	putInvalidHeader(d.buffers.mem[offset:], l.shape.grains, index)
	from := l.writes.Len()
	for _, w := range list {
		l.writes.Add(d.endpoint, d.token(), region.Addr+w.offset, region.RKey)
		l.writes.Segment(d.buffers.region, offset, w.length)
		if w.immediate {
			l.writes.Immediate(d.grainImmediate(slot, 0, index))
		}
	}
	d.push(transfer{index: index, posted: now, writes: len(list), retraction: true}, from, l.writes.Len())
}
