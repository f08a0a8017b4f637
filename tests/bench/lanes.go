package main

import (
	"context"
	"fmt"
	"runtime"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mxl-stack/mxl-fabrics-agent/mxl"
)

// warm is how many messages at least go before the measured span, as in
// raw/measure.h.
const warm = 32

// arrivalLimit is how long the last commit may take to arrive.
const arrivalLimit = 3 * time.Second

// medium is how one kind of flow is written and watched.
type medium interface {
	// commit makes the message of index ready; it returns when the commit began.
	commit(index uint64) (ns uint64, err error)
	// mirrorHead is how far the mirror is; await sleeps until it may have changed.
	mirrorHead() uint64
	await(limit time.Duration) error
	// watch collects the mirror's commits until w is stopped.
	watch(w *watcher) error
	// step is what a message adds to the index; lead how far back to back the
	// origin may be ahead of the mirror.
	step(m mode) uint64
	lead() uint64
	close()
}

// run measures the lanes in one phase.
func (s laneSite) run(ctx context.Context, what phase) (o outcome, err error) {
	pair, err := s.open(ctx, what.media, 1, false)
	if err != nil {
		return o, err
	}
	defer pair.kill()
	var m medium
	if what.media == audio {
		m, err = newSamples(pair)
	} else {
		m, err = newGrains(pair)
	}
	if err != nil {
		return o, err
	}
	defer m.close()
	if err := pair.awaitConnections(ctx); err != nil {
		return o, err
	}
	// The timers of this thread are the origin's; nothing else may delay them.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()

	rate := what.media.rate()
	w := laneWriter{medium: m, rate: rate}
	if err := w.catchUp(ctx); err != nil {
		return o, fmt.Errorf("warm-up: %w", err)
	}
	source, target, err := w.settle(pair, what.media)
	if err != nil {
		return o, err
	}
	w.ready = nil
	began := mxl.Now()
	var seen watcher
	if what.mode == flat {
		end := time.Now().Add(what.span)
		err = w.flat(ctx, func() bool { return time.Now().After(end) })
	} else {
		seen.start(m)
		err = w.paced(ctx, began+uint64(what.span))
		if stopped := seen.stop(); err == nil {
			err = stopped
		}
	}
	o.elapsed = time.Duration(mxl.Now() - began)
	if err != nil {
		return o, err
	}
	sourceEnd, targetEnd, err := w.settle(pair, what.media)
	if err != nil {
		return o, err
	}
	source, target = sourceEnd.since(source), targetEnd.since(target)
	o.cpu = [2]time.Duration{source.cpu(), target.cpu()}
	o.messages = target.Commits
	o.bytes = target.Grains * grainBytes
	if what.media == audio { // with message headers, as the comparison programs count
		o.bytes = target.Samples*channelCount*wordSize + target.Commits*entryHeader
	}
	// Grains that the source found overwritten before it knew of their completion had
	// arrived: the writer waits for the mirror.
	if target.Errors+source.Errors+source.Skipped != 0 {
		return o, fmt.Errorf("%w: %d skipped, errors %d and %d: %s %s", errIncomplete, source.Skipped, source.Errors,
			target.Errors, source.LastError, target.LastError)
	}
	if what.mode != flat {
		if err := seen.measure(rate, w.ready, &o); err != nil {
			return o, err
		}
	}
	return o, pair.end()
}

// laneWriter is the origin's writer.
type laneWriter struct {
	medium
	rate    mxl.Rational
	head    uint64 // index of the last message
	ready   []moment
	written uint64 // grains, or samples of a channel, since the lanes connected
}

func (w *laneWriter) put(step uint64) error {
	ns, err := w.commit(w.head + step)
	if err != nil {
		return err
	}
	w.head += step
	w.ready = append(w.ready, moment{w.head, ns})
	w.written += step
	return nil
}

// catchUp warms up: it begins some messages in the past, back to back, and ends when
// the next index is due in the future, so that pacing can go on without a gap.
func (w *laneWriter) catchUp(ctx context.Context) error {
	step := w.step(flat)
	now := w.rate.IndexAt(mxl.Now())
	w.head = now - now%step - warm*step
	// Lanes begin at the head they find when they connect.
	if err := w.put(step); err != nil {
		return err
	}
	if err := w.arrival(w.head); err != nil {
		return err
	}
	limit := time.Now().Add(15 * time.Second)
	return w.flat(ctx, func() bool {
		return w.head >= w.rate.IndexAt(mxl.Now()) || time.Now().After(limit)
	})
}

// flat commits back to back, never more than the lead ahead of the mirror, until
// enough says so; then it waits for the last.
func (w *laneWriter) flat(ctx context.Context, enough func() bool) error {
	step := w.step(flat)
	for ctx.Err() == nil && !enough() {
		if err := w.arrival(w.head + step - w.lead()); err != nil {
			return err
		}
		if err := w.put(step); err != nil {
			return err
		}
		w.ready = w.ready[:0] // of no interest back to back
	}
	return w.arrival(w.head)
}

// arrival waits until the mirror has index.
func (w *laneWriter) arrival(index uint64) error {
	deadline := time.Now().Add(arrivalLimit)
	for w.mirrorHead() < index {
		if err := w.await(5 * time.Millisecond); err != nil {
			return err
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%w: mirror stays at %d, origin is at %d", errIncomplete, w.mirrorHead(), index)
		}
	}
	return nil
}

// paced commits every index when it is due.
func (w *laneWriter) paced(ctx context.Context, end uint64) error {
	step := w.step(paced)
	for ctx.Err() == nil {
		due := w.rate.TimeOf(w.head + step)
		if due >= end {
			break
		}
		sleepUntil(due)
		if err := w.put(step); err != nil {
			return err
		}
	}
	return w.arrival(w.head)
}

// settle reads both processes' numbers at once and then, where the lanes are still
// counting, until everything that was written is counted as committed.
func (w *laneWriter) settle(p *lanePair, m media) (source, target laneReport, err error) {
	source, target, err = p.report()
	limit := time.Now().Add(time.Second)
	for err == nil {
		got := target.Grains
		if m == audio {
			got = target.Samples
		}
		if got == w.written && source.Transfers == target.Commits {
			return source, target, nil
		}
		if time.Now().After(limit) {
			return source, target, fmt.Errorf("%w: %d written, %d arrived in %d commits of %d transfers over %d connections, %d skipped: %s %s",
				errIncomplete, w.written, got, target.Commits, source.Transfers, target.Connections, source.Skipped,
				source.LastError, target.LastError)
		}
		time.Sleep(time.Millisecond)
		cpu := [2]int64{source.CPUNS, target.CPUNS}
		source, target, err = p.report()
		source.CPUNS, target.CPUNS = cpu[0], cpu[1]
	}
	return source, target, err
}

func sleepUntil(tai uint64) {
	at := unix.NsecToTimespec(int64(tai))
	for unix.ClockNanosleep(unix.CLOCK_TAI, unix.TIMER_ABSTIME, &at, nil) == unix.EINTR {
	}
}
