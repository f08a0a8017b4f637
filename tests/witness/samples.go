package witness

import (
	"context"
	"fmt"
	"time"

	"github.com/mxl-stack/mxl-fabrics-agent/cmd/mxl-pattern/pattern"
	"github.com/mxl-stack/mxl-fabrics-agent/mxl"
)

// samples follows one opening of a continuous mirror. A head is the sample after
// the newest one.
func (w *Witness) samples(ctx context.Context, domain *mxl.Domain, first bool) error {
	ring, err := domain.OpenContinuousReader(w.id)
	if err != nil {
		return err
	}
	defer ring.Close()
	payload := pattern.NewSamples(w.id)
	next := ring.Head()
	if !first {
		next = min(max(w.Seen().LastIndex+1, next-min(next, ring.MaxCount())), next)
	}
	checked := time.Now()
	for ctx.Err() == nil {
		w.looks()
		seen := ring.Sync()
		head := ring.Head()
		switch {
		case head < next:
			w.wentBack()
			next = head
		case next == 0 && head > 0:
			next = head
		}
		// The older half of the ring is overwritten next.
		if oldest := head - min(head, ring.MaxCount()); next < oldest {
			w.passed(oldest-next, 0)
			next = oldest
		}
		if next < head {
			w.window(ring, payload, next, head-next)
			next = head
		}
		if time.Since(checked) > checkEvery {
			if err := ring.Check(); err != nil {
				return err
			}
			checked = time.Now()
		}
		if _, err := ring.WaitSync(seen, longestWait); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// window verifies count samples from number from on.
func (w *Witness) window(ring *mxl.ContinuousReader, payload pattern.Samples, from, count uint64) {
	wrong, err := wrongSamples(ring, payload, from, count)
	if err != nil {
		w.passed(count, 0)
		return
	}
	var good, lost, leftOut uint64
	good = count - uint64(len(wrong))
	if len(wrong) > 0 {
		// What was overwritten while it was compared is not wrong, it is late.
		if _, err := ring.Samples(from+count, count); err != nil {
			w.passed(count, 0)
			return
		}
		origin := w.originLacks(payload, from, count)
		for number, unwritten := range wrong {
			switch {
			case !unwritten:
				w.bad("%s: sample %d is %s; the window is %d samples from %d on", w.Name, number, describe(ring, payload, number), count, from)
			case origin[number]:
				leftOut++
			default:
				lost++
			}
		}
		w.passed(lost, leftOut)
	}
	if good > 0 {
		w.arrived(from+count-1, good, int(good)*ring.ChannelCount()*ring.WordSize())
	}
}

// wrongSamples are the samples that are not as they should be in some channel.
// The value says that they were never written: zero, or of an earlier lap.
func wrongSamples(ring *mxl.ContinuousReader, payload pattern.Samples, from, count uint64) (map[uint64]bool, error) {
	window, err := ring.Samples(from+count, count)
	if err != nil {
		return nil, err
	}
	var wrong map[uint64]bool
	err = mxl.Guard(func() error {
		for channel := range ring.ChannelCount() {
			a, b := ring.Segments(window, channel)
			at := from
			for _, run := range [][]byte{a, b} {
				for i := payload.Check32(run, channel, at, 0); i >= 0; i = payload.Check32(run, channel, at, i+1) {
					if wrong == nil {
						wrong = map[uint64]bool{}
					}
					unwritten, had := wrong[at+uint64(i)]
					wrong[at+uint64(i)] = (unwritten || !had) && neverWritten(ring, payload, run[4*i:4*i+4], channel, at+uint64(i))
				}
				at += uint64(len(run) / 4)
			}
		}
		return nil
	})
	return wrong, err
}

// laps is how many laps of the ring an old sample is looked for in.
const laps = 32

func neverWritten(ring *mxl.ContinuousReader, payload pattern.Samples, one []byte, channel int, number uint64) bool {
	if one[0]|one[1]|one[2]|one[3] == 0 {
		return true
	}
	for range laps {
		if number < ring.BufferLength() {
			return false
		}
		if number -= ring.BufferLength(); payload.Check32(one, channel, number, 0) < 0 {
			return true
		}
	}
	return false
}

// originLacks are the samples of a range that the origin's ring does not have.
func (w *Witness) originLacks(payload pattern.Samples, from, count uint64) map[uint64]bool {
	domain, err := w.openOrigin()
	if err != nil {
		return nil
	}
	ring, err := domain.OpenContinuousReader(w.id)
	if err != nil {
		return nil
	}
	defer ring.Close()
	wrong, _ := wrongSamples(ring, payload, from, count)
	return wrong
}

// describe says which sample of which channel lies where a number should be.
func describe(ring *mxl.ContinuousReader, payload pattern.Samples, number uint64) (text string) {
	window, err := ring.Samples(number+1, 1)
	if err != nil {
		return err.Error()
	}
	for channel := range ring.ChannelCount() {
		one, _ := ring.Segments(window, channel)
		if payload.Check32(one, channel, number, 0) < 0 {
			continue
		}
		text += fmt.Sprintf("channel %d: % x", channel, one)
		for other := range ring.ChannelCount() {
			for distance := -int64(farthest); distance <= farthest; distance++ {
				if payload.Check32(one, other, number+uint64(distance), 0) < 0 {
					text += fmt.Sprintf(", sample %+d of channel %d", distance, other)
				}
			}
		}
		text += " (ring of " + fmt.Sprint(ring.BufferLength()) + ")"
	}
	return text
}

// farthest is how far away a wrong sample is looked for.
const farthest = 2_000_000
