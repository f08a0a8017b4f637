package main

import (
	"context"
	"errors"
	"os"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"github.com/mxl-stack/mxl-fabrics-agent/mxl"
)

// neighbours are the media functions of a lanes measurement without the lanes: the
// comparison programs of audio run beside them, on the same processors. They wake
// thousands of times a second, so that the next batch finds caches as cold as a lane
// does, which costs both a good deal more than an empty machine.
type neighbours struct {
	dir            string
	origin, mirror *mxl.ContinuousWriter
	reader         *samples
	stop           atomic.Bool
	done           chan error
}

// beside measures while the media functions of the phase run.
func (s laneSite) beside(ctx context.Context, what phase, measure func(context.Context, phase) (outcome, error)) (o outcome, err error) {
	n, err := newNeighbours(s.root)
	defer n.close()
	if err != nil {
		return o, err
	}
	var seen watcher
	n.done = make(chan error, 1)
	if what.mode.backToBack() {
		go func() { n.done <- n.backToBack() }()
	} else {
		go func() { n.done <- n.paced() }()
		seen.start(n.reader)
	}
	o, err = measure(ctx, what)
	n.stop.Store(true)
	err = errors.Join(err, <-n.done)
	if seen.done != nil {
		err = errors.Join(err, seen.stop())
	}
	return o, err
}

func newNeighbours(root string) (n *neighbours, err error) {
	n = &neighbours{}
	if n.dir, err = os.MkdirTemp(root, "beside-"); err != nil {
		return n, err
	}
	d, err := mxl.OpenDomain(n.dir)
	if err != nil {
		return n, err
	}
	for _, w := range []**mxl.ContinuousWriter{&n.origin, &n.mirror} {
		if *w, _, err = d.CreateContinuousWriter(definition(audio, uuid.New(), false), mxl.FlowOptions{
			MaxCommitBatchSizeHint: commitSamples, MaxSyncBatchSizeHint: entrySamples}); err != nil {
			return n, err
		}
	}
	n.reader = &samples{origin: n.origin}
	if n.reader.mirror, err = d.OpenContinuousReader(n.mirror.ID()); err != nil {
		return n, err
	}
	n.reader.observed, err = d.OpenContinuousReader(n.mirror.ID())
	return n, err
}

// transferEvery is how many commits of 1 ms a lane takes at once.
const transferEvery = 4

// paced commits as laneWriter does, and moves the mirror's head as a lane would.
func (n *neighbours) paced() error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	head := sampleRate.IndexAt(mxl.Now())
	head -= head % commitSamples
	for i := 1; !n.stop.Load(); i++ {
		head += commitSamples
		sleepUntil(sampleRate.TimeOf(head))
		if err := n.origin.Commit(head, commitSamples); err != nil {
			return err
		}
		if i%transferEvery == 0 {
			if err := n.mirror.Commit(head, transferEvery*commitSamples); err != nil {
				return err
			}
		}
	}
	return nil
}

// backToBack sleeps between looks at the mirror as laneWriter does, and commits as often.
func (n *neighbours) backToBack() error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	head := uint64(entrySamples)
	for i := 1; !n.stop.Load(); i++ {
		if err := n.reader.await(time.Millisecond); err != nil {
			return err
		}
		if i%transferEvery == 0 {
			head += entrySamples
			if err := n.origin.Commit(head, entrySamples); err != nil {
				return err
			}
		}
	}
	return nil
}

func (n *neighbours) close() {
	if n.reader != nil {
		for _, r := range []*mxl.ContinuousReader{n.reader.mirror, n.reader.observed} {
			if r != nil {
				_ = r.Close()
			}
		}
	}
	for _, w := range []*mxl.ContinuousWriter{n.origin, n.mirror} {
		if w != nil {
			_ = w.Close()
		}
	}
	if n.dir != "" {
		_ = os.RemoveAll(n.dir)
	}
}
