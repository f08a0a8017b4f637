package main

import (
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mxl-stack/mxl-fabrics-agent/mxl"
)

// grains is 1080p50 video.
type grains struct {
	origin           *mxl.DiscreteWriter
	mirror, observed *mxl.DiscreteReader // for the writer's thread and the watcher's
}

func newGrains(p *lanePair) (medium, error) {
	w, ok := p.writers[0].(*mxl.DiscreteWriter)
	if !ok {
		return nil, fmt.Errorf("flow %v is not discrete", p.flows[0])
	}
	mirror, err := p.mirror.OpenDiscreteReader(p.flows[0])
	if err != nil {
		return nil, err
	}
	observed, err := p.mirror.OpenDiscreteReader(p.flows[0])
	if err != nil {
		return nil, errors.Join(err, mirror.Close())
	}
	return &grains{w, mirror, observed}, nil
}

// commit opens the grain and commits all of it; the payload stays as it is.
func (g *grains) commit(index uint64) (uint64, error) {
	if _, err := g.origin.OpenGrain(index); err != nil {
		return 0, err
	}
	ns := mxl.Now()
	return ns, g.origin.Commit(index, g.origin.TotalSlices(), 0)
}

func (g *grains) mirrorHead() uint64 { return g.mirror.Head() }

func (g *grains) await(limit time.Duration) error {
	seen, head := g.mirror.Sync(), g.mirror.Head()
	if g.mirror.Head() != head {
		return nil
	}
	_, err := g.mirror.WaitSync(seen, limit)
	return err
}

// watch notes for every commit of the mirror the write time in its header and when
// a reader that waits for it was awake.
func (g *grains) watch(w *watcher) error {
	last := g.observed.Head()
	for {
		ended := w.ended.Load() // what was committed before is looked at once more
		seen := g.observed.Sync()
		if head := g.observed.Head(); head != last {
			awake := mxl.Now()
			// The write time follows the head; wait for it where it is late.
			for limit := awake + uint64(time.Millisecond); ; {
				wrote := g.observed.Info().LastWriteTime
				if len(w.arrived) == 0 || wrote != w.arrived[len(w.arrived)-1].ns || mxl.Now() > limit {
					w.arrived = append(w.arrived, moment{head, wrote})
					break
				}
			}
			w.woken = append(w.woken, moment{head, awake})
			last = head
			continue
		}
		if ended {
			return nil
		}
		if _, err := g.observed.WaitSync(seen, 50*time.Millisecond); err != nil {
			return err
		}
	}
}

func (g *grains) step(mode) uint64 { return 1 }

// lead is half the ring: one more than a lane has in flight. What is further back a
// lane passes over when transfers are slow, lest the writer overtakes them.
func (g *grains) lead() uint64 { return g.origin.Depth() / 2 }

func (g *grains) close() { _ = errors.Join(g.mirror.Close(), g.observed.Close()) }

// samples is 16-channel audio.
type samples struct {
	origin           *mxl.ContinuousWriter
	mirror, observed *mxl.ContinuousReader
	last             uint64
}

func newSamples(p *lanePair) (medium, error) {
	w, ok := p.writers[0].(*mxl.ContinuousWriter)
	if !ok {
		return nil, fmt.Errorf("flow %v is not continuous", p.flows[0])
	}
	mirror, err := p.mirror.OpenContinuousReader(p.flows[0])
	if err != nil {
		return nil, err
	}
	observed, err := p.mirror.OpenContinuousReader(p.flows[0])
	if err != nil {
		return nil, errors.Join(err, mirror.Close())
	}
	return &samples{origin: w, mirror: mirror, observed: observed}, nil
}

func (s *samples) commit(index uint64) (uint64, error) {
	count := index - s.last
	if s.last == 0 {
		count = commitSamples
	}
	s.last = index
	ns := mxl.Now()
	return ns, s.origin.Commit(index, count)
}

func (s *samples) mirrorHead() uint64 { return s.mirror.Head() }

// await sleeps on the clock and not on the mirror: a waiting reader would have the
// target wake it, which no comparison program does for anyone.
func (s *samples) await(limit time.Duration) error {
	pause := unix.NsecToTimespec(int64(min(limit, time.Millisecond)))
	_ = unix.ClockNanosleep(unix.CLOCK_MONOTONIC, 0, &pause, nil) // EINTR: look early
	return nil
}

// watch looks at the mirror's head every 100 µs: its writer wakes readers once in a
// sync batch, which is less often than it commits. After a commit there is none for
// a while.
func (s *samples) watch(w *watcher) error {
	last := s.observed.Head()
	for ended := false; !ended; {
		ended = w.ended.Load()                                     // what was committed before is looked at once more
		pause := unix.NsecToTimespec(int64(50 * time.Microsecond)) // and as much timer slack
		if head := s.observed.Head(); head != last {
			w.arrived = append(w.arrived, moment{head, mxl.Now()})
			last = head
			pause = unix.NsecToTimespec(int64(time.Millisecond))
		}
		_ = unix.ClockNanosleep(unix.CLOCK_MONOTONIC, 0, &pause, nil) // EINTR: look early
	}
	return nil
}

func (s *samples) step(m mode) uint64 {
	if m == flat {
		return entrySamples
	}
	return commitSamples
}

// lead is a quarter of the ring, half of what a lane may read.
func (s *samples) lead() uint64 { return s.origin.BufferLength() / 4 }

func (s *samples) close() { _ = errors.Join(s.mirror.Close(), s.observed.Close()) }
