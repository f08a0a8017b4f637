package main

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/mxl-stack/mxl-fabrics-agent/cmd/mxl-pattern/pattern"
	"github.com/mxl-stack/mxl-fabrics-agent/mxl"
)

// samples follows one opening of a continuous flow. It ends with ErrFlowInvalid when the flow was replaced.
func (r *reader) samples(ctx context.Context) error {
	ring, err := r.domain.OpenContinuousReader(r.options.flow)
	if err != nil {
		return reopenable(err)
	}
	defer ring.Close()
	var (
		payload = pattern.NewSamples(r.options.flow)
		poll    = commitPeriod(ring.Info())
		marks   = make([]sampleState, ring.MaxCount())
		next    uint64 // the first sample that was not read
	)
	r.lastHead, r.headSeen = 0, 0
	for {
		if err := r.goOn(ctx); err != nil {
			return err
		}
		seen := ring.Sync()
		head := ring.Head()
		last := r.lastHead
		next = r.look(head, next, ring.MaxCount())
		if head != last && last != 0 {
			r.totals.Batches++
			r.latency.add(mxl.Now(), r.def.Rate.TimeOf(head))
		}
		if next == 0 || head <= next+r.options.behind {
			if err := r.stillThere(ring.Check); err != nil {
				return err
			}
			// A writer wakes once a sync batch and commits more often.
			if _, err := ring.WaitSync(seen, poll); err != nil {
				return err
			}
			continue
		}
		r.started(next)
		count := min(head-r.options.behind-next, ring.MaxCount()/2)
		if err := r.window(ring, payload, next, count, marks[:count]); err != nil {
			if !errors.Is(err, mxl.ErrTooLate) {
				return reopenable(err)
			}
			// Leave the writer some room: what is oldest now is overwritten next.
			oldest := ring.Head() - ring.MaxCount()*3/4
			r.late(oldest - next)
			next = oldest
			continue
		}
		next += count
		r.took(next - 1)
	}
}

// commitPeriod is how long one commit of a flow lasts, between 1 ms and longestWait.
func commitPeriod(info mxl.FlowInfo) time.Duration {
	rate := info.Rate.Float()
	if rate <= 0 {
		return time.Millisecond
	}
	d := time.Duration(float64(info.MaxCommitBatchSizeHint) / rate * float64(time.Second))
	return min(max(d, time.Millisecond), longestWait)
}

// sampleState says what is wrong with a sample in any channel.
type sampleState uint8

const (
	sampleGood  sampleState = iota
	sampleStale             // zero, or of an earlier lap: never written
	sampleBad
)

// window verifies count samples from number from on; ErrTooLate when they were overwritten.
func (r *reader) window(ring *mxl.ContinuousReader, payload pattern.Samples, from, count uint64, marks []sampleState) error {
	w, err := ring.Samples(from+count, count)
	if err != nil {
		return err
	}
	clear(marks)
	faulty := false
	err = mxl.Guard(func() error {
		for channel := range ring.ChannelCount() {
			first, second := windowBytes(ring, w, channel)
			faulty = markSamples(ring, payload, first, channel, from, marks[:w.First]) || faulty
			faulty = markSamples(ring, payload, second, channel, from+w.First, marks[w.First:]) || faulty
		}
		return nil
	})
	if err != nil {
		return err
	}
	r.totals.Bytes += count * uint64(ring.ChannelCount()*ring.WordSize())
	if !faulty {
		r.totals.Samples += count
		return nil
	}
	if err := stillReadable(ring, from, count, slices.Contains(marks, sampleBad)); err != nil {
		r.totals.Overwritten += count
		return err
	}
	for i, m := range marks {
		switch m {
		case sampleGood:
			r.totals.Samples++
		case sampleStale:
			r.gap(1)
		case sampleBad:
			r.bad("sample %d", from+uint64(i))
			r.totals.BadSamples++
		}
	}
	return nil
}

// jumpPatience is how long a writer may take from its first byte to its commit.
const jumpPatience = time.Second

// stillReadable says ErrTooLate when a window that was compared may have been
// overwritten. A writer that jumps by more than half the ring changes samples that the
// head still offers, and may lose its processor before it commits: samples of another
// time are bad only when the next commit leaves them readable.
func stillReadable(ring *mxl.ContinuousReader, from, count uint64, bad bool) error {
	head := ring.Head()
	if _, err := ring.Samples(from+count, count); err != nil || !bad {
		return err
	}
	for deadline := time.Now().Add(jumpPatience); ring.Head() == head && time.Now().Before(deadline); {
		if _, err := ring.WaitSync(ring.Sync(), time.Millisecond); err != nil {
			return err
		}
	}
	_, err := ring.Samples(from+count, count)
	return err
}

// markSamples compares one run of one channel and marks what is wrong.
func markSamples(ring sampleRing, payload pattern.Samples, run []byte, channel int, from uint64, marks []sampleState) (faulty bool) {
	check, size := payload.Check32, 4
	if ring.WordSize() == 8 {
		check, size = payload.Check64, 8
	}
	for i := check(run, channel, from, 0); i >= 0; i = check(run, channel, from, i+1) {
		faulty = true
		number, one := from+uint64(i), run[i*size:(i+1)*size]
		state := sampleBad
		if allZero(one) || ofEarlierLap(ring, check, one, channel, number) {
			state = sampleStale
		}
		marks[i] = max(marks[i], state)
	}
	return faulty
}

// laps is how many laps of the ring an old sample is looked for in: where a mirror's agent was away again and again,
// several laps can pass a place by.
const laps = 32

func ofEarlierLap(ring sampleRing, check func([]byte, int, uint64, int) int, one []byte, channel int, number uint64) bool {
	for range laps {
		if number < ring.BufferLength() {
			return false
		}
		if number -= ring.BufferLength(); check(one, channel, number, 0) < 0 {
			return true
		}
	}
	return false
}

func allZero(b []byte) bool {
	for _, v := range b {
		if v != 0 {
			return false
		}
	}
	return true
}
