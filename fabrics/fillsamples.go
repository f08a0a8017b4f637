package fabrics

import (
	"github.com/mxl-stack/mxl-fabrics-agent/fabrics/ofi"
	"github.com/mxl-stack/mxl-fabrics-agent/mxl"
)

// sendBuffers is memory of ours that is sent from, one buffer for each transfer in
// flight: a bounce-buffer entry, or the header that takes a grain back.
type sendBuffers struct {
	mem    []byte
	region *ofi.Memory
	stride int
}

// open sets the memory up; it stays for the destination's life.
func (b *sendBuffers) open(f *ofi.Fabric, i *ofi.Info, entry uint64) (err error) {
	if b.region != nil {
		return nil
	}
	b.stride = int(entry+63) &^ 63
	if b.mem, err = anonymous(b.stride * maxInFlight); err != nil {
		return err
	}
	if b.region, err = f.Register(i, b.mem, ofi.AccessSource, randomUint64()); err != nil {
		unmap(&b.mem)
	}
	return err
}

func (b *sendBuffers) close() {
	_ = b.region.Close()
	b.region = nil
	unmap(&b.mem)
}

// fillSamples puts into the batch what d may be sent now: one transfer at most.
func (l *sourceLane) fillSamples(d *destination, head uint64, now int64) {
	if d.flying >= d.window || now < d.nextPost || l.writes.Room() == 0 {
		return
	}
	if d.next == undefinedIndex {
		d.next = head
	}
	if d.next > head && d.native {
		l.reconnect(d, now)
		return
	}
	half := l.origin.length / 2
	limit := min(l.shape.samples.entryFrames(d.info.Bounce.EntrySize), half)
	step := nextSamples(d.next, head, half, limit)
	d.next = step.next
	d.numbers.skipped.Add(step.skipped)
	if step.count == 0 {
		return
	}
	l.sendSamples(d, step.next+step.count, step.count, now)
}

// sendSamples puts the count samples before head into the batch, as one write. They
// are copied together first: gathered from the origin's ring they would be read when
// the network gets to them, and a batch that the writer has overtaken by then cannot
// be taken back (MXL Fabrics reference §7.2). More than a few channels would take
// several writes besides, with an acknowledgement each.
func (l *sourceLane) sendSamples(d *destination, head, count uint64, now int64) {
	l.numbers.ageOrigin.observe(ageOf(l.origin.rate, head-count, mxl.Now()), now)

	g := l.shape.samples
	entry := d.entry % uint64(len(d.info.Regions))
	region := d.info.Regions[entry]
	// As few buffers as can be in flight: they stay in the processor's cache.
	offset := d.entry % uint64(d.window) * uint64(d.buffers.stride)
	mem := d.buffers.mem[offset:][:d.buffers.stride]
	putSampleHeader(mem, head, count)
	l.segments = sampleSegments(l.segments[:0], g, head, count)
	if !l.copySamples(mem[sampleHeader:], head, count) {
		return // the next pass starts where samples are left
	}
	length := sampleHeader + count*g.frame()
	from := l.writes.Len()
	l.writes.Add(d.endpoint, d.token(), region.Addr, region.RKey)
	l.writes.Segment(d.buffers.region, offset, length)
	l.writes.Immediate(uint32(entry))
	d.push(transfer{
		index:  head,
		bytes:  count * g.frame(),
		posted: now,
		writes: 1,
		last:   true,
	}, from, l.writes.Len())
	d.entry++
	d.next = head
	if d.pipelined {
		d.nextPost = max(d.nextPost+int64(l.cfg.AudioPass), now+int64(l.cfg.AudioPass)/2)
	}
}

// sentSamples takes the ages of the batches that d's last writes carried into account,
// as they were when these were posted. now is the lane's time.
func (l *sourceLane) sentSamples(d *destination, fresh int, posted, now int64) {
	tai := mxl.Now() - uint64(now-posted)
	for i := d.flying - fresh; i < d.flying; i++ {
		t := &d.transfers[(d.first+i)%maxInFlight]
		l.numbers.ageSent.observe(ageOf(l.origin.rate, t.index-t.bytes/l.shape.samples.frame(), tai), posted)
	}
}

// copySamples puts the window's fragments one after the other and reports whether
// they are still what they were.
func (l *sourceLane) copySamples(dst []byte, head, count uint64) bool {
	r := l.origin.reader.samples
	ring := r.Channels()
	for _, s := range l.segments {
		if !s.header {
			dst = dst[copy(dst, ring[s.offset:s.offset+s.length]):]
		}
	}
	newest := r.Head()
	return newest < head || newest-(head-count) <= l.origin.length/2
}
