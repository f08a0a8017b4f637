package main

import (
	"context"
	"fmt"

	"github.com/mxl-stack/mxl-fabrics-agent/cmd/mxl-pattern/pattern"
	"github.com/mxl-stack/mxl-fabrics-agent/mxl"
)

// samples writes a continuous flow in batches, each committed at the time of the index after its last sample.
func (w *writer) samples(ctx context.Context) (err error) {
	o, rate := w.options, w.parsed.Rate
	ring, err := w.openSamples()
	if err != nil {
		return err
	}
	defer func() { err = w.leave(ring.Close, ring.Release, err) }()
	if o.batch > ring.MaxCount() {
		return fmt.Errorf("%w: batch of %d samples, the ring takes %d", errUsage, o.batch, ring.MaxCount())
	}
	var (
		pace     = newPacer(o.fast)
		payload  = pattern.NewSamples(w.parsed.ID)
		recreate = mxl.Now() + uint64(o.recreateAfter)
		offset   uint64 // two's complement, of --jump-by
		due      = rate.IndexAt(mxl.Now())
	)
	due -= due % o.batch
	for n := uint64(0); ; n++ {
		if o.count > 0 && w.totals.Samples >= o.count {
			return nil
		}
		due += o.batch
		if o.skipEvery > 0 && n%(o.skipEvery+o.skipLength) >= o.skipEvery {
			w.totals.Skipped++
			continue
		}
		if o.jumpAt > 0 && w.totals.Jumps == 0 && w.totals.Commits >= o.jumpAt {
			offset, w.totals.Jumps = uint64(o.jumpBy), 1
		}
		if !pace.until(ctx, rate.TimeOf(due)) {
			return nil
		}
		if now := rate.IndexAt(mxl.Now()); !o.fast && now > due+o.batch {
			w.totals.Late++
			if behind := now - due; behind > ring.BufferLength()/4 {
				behind -= behind % o.batch
				w.totals.LateSkipped += behind
				due += behind
			}
		}
		if o.recreateAfter > 0 && w.totals.Recreated == 0 && mxl.Now() >= recreate {
			if err := w.recreated(ring.Release); err != nil {
				return err
			}
			again, err := w.openSamples()
			if err != nil {
				return err
			}
			ring = again
		}
		if err := w.batch(ring, payload, due+offset); err != nil {
			return err
		}
	}
}

// batch writes the samples before index.
func (w *writer) batch(ring *mxl.ContinuousWriter, payload pattern.Samples, index uint64) error {
	count := w.options.batch
	if begin := index - count; headFirst(ring.Head(), begin, ring.MaxCount()) {
		if err := ring.Commit(begin, 0); err != nil {
			return fmt.Errorf("move the head to %d: %w", begin, err)
		}
	}
	window, err := ring.OpenSamples(index, count)
	if err != nil {
		return fmt.Errorf("open samples before %d: %w", index, err)
	}
	err = mxl.Guard(func() error { fillWindow(ring, payload, window, index-count); return nil })
	if err != nil {
		return fmt.Errorf("fill samples before %d: %w", index, err)
	}
	if err := ring.Commit(index, count); err != nil {
		return fmt.Errorf("commit samples before %d: %w", index, err)
	}
	w.totals.Commits++
	w.totals.Samples += count
	w.totals.Bytes += count * uint64(ring.WordSize()*ring.ChannelCount())
	w.note(index)
	return nil
}

// headFirst tells whether a batch that begins at begin would change what is being read
// before the head tells: readers may have half a ring before the head, and the batch is
// beyond the other half.
func headFirst(head, begin, half uint64) bool {
	return head != 0 && begin > head && begin-head >= half
}

// fillWindow writes the samples from number first on into a window of every channel.
func fillWindow(ring *mxl.ContinuousWriter, payload pattern.Samples, window mxl.Window, first uint64) {
	fill := payload.Fill32
	if ring.WordSize() == 8 {
		fill = payload.Fill64
	}
	for channel := range ring.ChannelCount() {
		a, b := windowBytes(ring, window, channel)
		fill(a, channel, first)
		fill(b, channel, first+window.First)
	}
}

// sampleRing is the geometry that readers and writers of samples share.
type sampleRing interface {
	Channels() []byte
	BufferLength() uint64
	WordSize() int
}

// windowBytes are the two runs of a window in one channel.
func windowBytes(r sampleRing, w mxl.Window, channel int) (first, second []byte) {
	word := uint64(r.WordSize())
	base := uint64(channel) * r.BufferLength() * word
	start := base + w.Start*word
	return r.Channels()[start : start+w.First*word], r.Channels()[base : base+w.Second*word]
}

func (w *writer) openSamples() (*mxl.ContinuousWriter, error) {
	ring, created, err := w.domain.CreateContinuousWriter(w.def, w.options.hints)
	if err != nil {
		return nil, err
	}
	w.opened(ring.Inode(), created, ring.BufferLength())
	return ring, nil
}
