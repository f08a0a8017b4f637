package fabrics

import "github.com/mxl-stack/mxl-fabrics-agent/mxl"

// fillLimit bounds the decisions about one destination in one pass.
const fillLimit = 64

// fillGrains puts into the batch what d may be sent now.
func (l *sourceLane) fillGrains(d *destination, head uint64, now int64) {
	l.fillRetractions(d, now)
	r := l.origin.reader.grains
	spare := uint64((d.slowest + l.origin.period - 1) / l.origin.period)
	for range fillLimit {
		if d.flying >= d.window || l.writes.Room() < maxGrainWrites {
			return
		}
		v := grainView{head: head, depth: l.origin.length, spare: spare}
		if d.cursor.index != undefinedIndex {
			h := r.Header(r.SlotOf(d.cursor.index))
			v.index, v.invalid = h.Index, h.Invalid()
			v.valid, v.total = int(h.ValidSlices), l.shape.grains.total
		}
		step := nextGrain(d.cursor, v, d.native)
		switch step.action {
		case grainWait:
			return
		case grainJump:
			if !l.jump(d, head, usableDepth(v.depth, spare), now) {
				return
			}
		case grainSkip:
			l.gaps(d.cursor.index, 1)
			d.cursor = grainCursor{index: d.cursor.index + 1}
		case grainFinish:
			d.cursor = grainCursor{index: d.cursor.index + 1}
		case grainSend:
			l.sendGrain(d, step, now)
		}
	}
}

// jump moves a destination that is outside the ring and reports whether it can go
// on in this pass.
func (l *sourceLane) jump(d *destination, head, usable uint64, now int64) bool {
	at := d.cursor.index
	r := l.origin.reader.grains
	d.cursor = grainCursor{index: head}
	switch {
	case at == undefinedIndex: // just connected
	case at > head:
		// The origin went back. Targets of ours take a lower index as the start of a
		// new connection only.
		if d.native {
			l.reconnect(d, now)
			return false
		}
		l.gapSeen = 0
	case r.Header(r.SlotOf(head-1)).Index < at:
		// The index before the head was not written: the origin jumped, nothing was
		// lost. (A writer that only was fast has written it.)
		d.cursor.index = max(at, head-usable+1)
		l.gaps(d.cursor.index-1, d.cursor.index-at)
	default:
		d.numbers.skipped.Add(head - at)
	}
	return true
}

// gaps counts unwritten indexes, the last of which is given, once for all
// destinations.
func (l *sourceLane) gaps(last, count uint64) {
	if last <= l.gapSeen {
		return
	}
	l.numbers.gaps.Add(min(count, last-l.gapSeen))
	l.gapSeen = last
}

// sendGrain puts one transfer into the batch.
func (l *sourceLane) sendGrain(d *destination, s grainStep, now int64) {
	index := d.cursor.index
	list, err := grainWrites(l.grainList[:0], l.shape.grains, s.start, s.end)
	if err != nil {
		// nextGrain never asks for slices outside the grain.
		panic(err)
	}
	memory := l.origin.memory.regions[index%l.origin.length]
	slot := int(index % uint64(len(d.info.Regions)))
	region := d.info.Regions[slot]
	from := l.writes.Len()
	for _, w := range list {
		l.writes.Add(d.endpoint, d.token(), region.Addr+w.offset, region.RKey)
		l.writes.Segment(memory, w.offset, w.length)
		if w.immediate {
			l.writes.Immediate(d.grainImmediate(slot, s.end, index))
		}
	}
	d.push(transfer{
		index:  index,
		bytes:  l.shape.grains.payloadBytes(s.start, s.end),
		posted: now,
		writes: len(list),
		last:   s.last,
	}, from, l.writes.Len())
	d.sent = index
	l.numbers.ageSent.observe(ageOf(l.origin.rate, index, mxl.Now()), now)
	d.cursor.slices = s.end
	if s.last {
		d.cursor = grainCursor{index: index + 1}
	}
}
