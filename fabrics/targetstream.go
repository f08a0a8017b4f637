package fabrics

import (
	"fmt"
	"time"

	"github.com/mxl-stack/mxl-fabrics-agent/fabrics/ofi"
)

const (
	// streamFor is how long a lane of samples stays out of Go at most while they run:
	// its histograms, and what a source says of its origin's head, are so late.
	streamFor = 500 * time.Millisecond
	// streamPause is how long nothing may have come for the flow to count as running.
	streamPause = int64(100 * time.Millisecond)
)

// openSink describes the bounce buffer and the mirror's ring to package ofi.
func (l *targetLane) openSink() (err error) {
	w := l.cfg.Continuous
	ring := ofi.SampleRing{
		Channels: w.Channels(), Length: l.samples.length, Count: l.samples.channels, Word: l.samples.word,
		Head: w.HeadWord(), Sync: w.SyncWord(),
	}
	l.sink, err = ofi.NewSampleSink(ring, l.bounce, l.entry.EntrySize, int(l.entry.EntryCount), l.stride)
	return err
}

// streams tells whether batches come one after the other, so that most need no
// decision.
func (l *targetLane) streams(now int64) bool {
	c := &l.connection
	return l.cfg.Continuous != nil && c.state == connectionUp && c.head != undefinedIndex &&
		State(l.numbers.state.Load()) == StateActive && now-l.lastCommit < streamPause && l.cfg.Continuous.Head() == c.head
}

// stream waits like Poll and publishes batches that need no decision. The pass goes on
// with the last cycle of it.
func (l *targetLane) stream(start int64, wait time.Duration) (int, error) {
	w := l.cfg.Continuous
	var rule ofi.WakeRule
	var woken *uint64
	rule.Batch, rule.Early, woken = w.WakeRule()
	rule.Woken = *woken
	if l.recvMR != nil {
		l.sink.Renew(l.connection.endpoint, l.recvMR)
	}
	run := l.sink.Run()
	l.stalls.starved.lend(run)
	n, err := l.poller.ReceiveSamples(l.sink, &l.numbers.moved, &rule, start, wait, streamFor)
	*woken = rule.Woken
	l.stalls.starved.take(run)
	for i := range run.Len() {
		b := run.Batch(i)
		l.connection.head = b.Head
		l.spaced(b.Ended)
		l.numbers.age.observe(ageOf(w.Rate(), b.Head-b.Count, b.TAI), b.Ended)
	}
	last := run.Last()
	l.busy = n > 0 || run.Len() > 0 && run.Batch(run.Len()-1).Began >= last.Woke
	l.stalls.resume(last.Began)
	l.stalls.waited(last.Allowed, last.Woke)
	if err == nil && l.sink.Unposted() > 0 {
		l.lose(fmt.Errorf("post receives: %w", errShort))
		return 0, nil
	}
	return n, err
}
