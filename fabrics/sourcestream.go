package fabrics

import (
	"fmt"

	"github.com/mxl-stack/mxl-fabrics-agent/fabrics/ofi"
)

// openFeed describes a destination's send buffers and entries to package ofi.
func (d *destination) openFeed() (err error) {
	if d.feed != nil {
		return nil
	}
	entries := make([]ofi.SampleEntry, len(d.info.Regions))
	for i, r := range d.info.Regions {
		entries[i] = ofi.SampleEntry{Address: r.Addr, Key: r.RKey}
	}
	d.feed, err = ofi.NewSampleFeed(d.buffers.region, 1, d.buffers.stride, entries)
	return err
}

// streams returns the one destination of a lane of samples when nothing but its next
// batches is to be done: they run, and one follows the other.
func (l *sourceLane) streams(now int64) *destination {
	if l.shape.discrete || l.closing || l.origin.state != originOpen || len(l.destinations) != 1 {
		return nil
	}
	d := l.destinations[0]
	if d.phase != phaseUp || d.window != 1 || d.pipelined || d.flying != 0 || d.next == undefinedIndex || now-l.origin.moved > streamPause {
		return nil
	}
	return d
}

// stream sends batches that need no decision, for about streamFor. What came besides
// their completions is dealt with as after any wait; done is false when there was
// nothing at all, so that the pass has to look why.
func (l *sourceLane) stream(d *destination, now int64) (done bool, err error) {
	r := l.origin.reader.samples
	g := l.shape.samples
	task := ofi.SampleTask{
		Ring: ofi.SampleRing{
			Channels: r.Channels(), Length: l.origin.length, Count: g.channels, Word: g.word,
			Head: r.HeadWord(), Sync: r.SyncWord(),
		},
		Endpoint: d.endpoint, Token: d.token(), Entry: d.entry, Next: d.next,
		Limit:    min(g.entryFrames(d.info.Bounce.EntrySize), l.origin.length/2),
		NextPost: d.nextPost, Pass: l.cfg.AudioPass, Gap: max(l.cfg.AudioPass, minSampleGap),
	}
	run := d.feed.Run()
	l.stalls.starved.lend(run)
	n, err := l.poller.SendSamples(d.feed, &d.numbers.moved, &task, now, min(now+int64(streamFor), l.origin.nextLook()))
	l.stalls.starved.take(run)
	for i := range run.Len() {
		l.streamed(d, run.Batch(i))
	}
	last, now := run.Last(), l.now()
	l.stalls.resume(last.Began)
	l.stalls.waited(last.Allowed, last.Woke)
	l.stalls.lap(taskPost, last.Posted)
	l.stalls.waited(int64(longWait), now)
	if refused := d.feed.Refused(); refused != nil {
		l.disconnect(d, fmt.Errorf("post transfer: %w", refused), now)
	}
	if err == nil && l.poller.WordError() == nil {
		l.numbers.head.Store(l.origin.look(now))
	}
	// A wait for the origin does not see the wake-up.
	done = n > 0 || run.Len() > 0 || l.poller.Woken() || d.phase != phaseUp || l.pending.waiting()
	return done, l.settle(n, err, now, now)
}

// streamed takes a batch into account that a run has sent.
func (l *sourceLane) streamed(d *destination, b ofi.SampleBatch) {
	age := ageOf(l.origin.rate, b.Head-b.Count, b.TAI)
	l.numbers.ageOrigin.observe(age, b.Began)
	l.numbers.ageSent.observe(age+b.Posted-b.Began, b.Posted)
	d.push(transfer{index: b.Head, bytes: b.Count * l.shape.samples.frame(), posted: b.Began, writes: 1, last: true}, 0, 0)
	d.fresh = 0
	d.entry++
	d.next = b.Head
	if b.Ended != 0 {
		l.finish(d, b.Ended, false)
	}
}
