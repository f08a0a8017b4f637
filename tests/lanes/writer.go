package main

import (
	"context"
	"fmt"
	"path/filepath"
	"runtime"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sys/unix"

	"github.com/mxl-stack/mxl-fabrics-agent/cmd/mxl-pattern/pattern"
	"github.com/mxl-stack/mxl-fabrics-agent/mxl"
	"github.com/mxl-stack/mxl-fabrics-agent/tests/mesh"
)

// writer writes all flows on one thread: a process for each would take more of the
// processors than the lanes that are looked at.
type writer struct {
	sounds   []sound
	pictures []picture
	batch    uint64 // samples of a commit
	leftOut  uint64 // indexes that it was too late for
}

type sound struct {
	ring    *mxl.ContinuousWriter
	payload pattern.Samples
}

type picture struct {
	ring    *mxl.DiscreteWriter
	payload pattern.Grains
}

// open makes the flows with mxl-pattern and opens them.
func (w *writer) open(m *mesh.Mesh, flows []mesh.Flow, pictures int) error {
	for i, f := range flows {
		made, err := m.Run("make-"+f.Name, "mxl-pattern", append([]string{"write", "--count", "1", "--keep"}, f.WriteArguments(m.A)[1:]...)...)
		if err != nil {
			return err
		}
		<-made.Done()
		if code := made.ExitCode(); code != 0 {
			return fmt.Errorf("%s: mxl-pattern ended with %d", f.Name, code)
		}
		domain, err := mxl.OpenDomain(filepath.Join(m.A.Root, f.Domain))
		if err != nil {
			return err
		}
		id := uuid.MustParse(f.ID)
		if i < pictures {
			ring, err := domain.OpenDiscreteWriter(id)
			if err != nil {
				return err
			}
			w.pictures = append(w.pictures, picture{ring, pattern.NewGrains(id, pattern.V210Mask)})
			continue
		}
		ring, err := domain.OpenContinuousWriter(id)
		if err != nil {
			return err
		}
		w.sounds = append(w.sounds, sound{ring, pattern.NewSamples(id)})
	}
	return nil
}

const (
	sampleRate = 48_000
	grainEvery = uint64(20 * time.Millisecond) // 50p
)

// run writes until ctx ends, each commit at its time.
func (w *writer) run(ctx context.Context) error {
	runtime.LockOSThread()
	// Without it the kernel may wake the thread 50 µs late; refused, that is all.
	_ = unix.Prctl(unix.PR_SET_TIMERSLACK, 1, 0, 0, 0)
	rate := mxl.Rational{Numerator: sampleRate, Denominator: 1}
	due := rate.IndexAt(mxl.Now()) / w.batch * w.batch
	grain := mxl.Now() / grainEvery
	for {
		due += w.batch
		at := rate.TimeOf(due)
		for now := mxl.Now(); now < at; now = mxl.Now() {
			if ctx.Err() != nil {
				return nil
			}
			until := unix.NsecToTimespec(int64(min(at, now+grainEvery)))
			_ = unix.ClockNanosleep(unix.CLOCK_TAI, unix.TIMER_ABSTIME, &until, nil) // interrupted: look again
		}
		if late := rate.IndexAt(mxl.Now()) - due; late > sampleRate/4 {
			late -= late % w.batch
			w.leftOut += late * uint64(len(w.sounds))
			due += late
		}
		for _, s := range w.sounds {
			if err := s.write(due, w.batch); err != nil {
				return err
			}
		}
		last := mxl.Now() / grainEvery
		if last-grain > 10 {
			w.leftOut += (last - grain - 1) * uint64(len(w.pictures))
			grain = last - 1
		}
		for ; grain < last; grain++ {
			for _, p := range w.pictures {
				if err := p.write(grain + 1); err != nil {
					return err
				}
			}
		}
	}
}

func (s sound) write(head, count uint64) error {
	window, err := s.ring.OpenSamples(head, count)
	if err != nil {
		return fmt.Errorf("samples before %d: %w", head, err)
	}
	for channel := range s.ring.ChannelCount() {
		const word = 4
		run := s.ring.Channels()[uint64(channel)*s.ring.BufferLength()*word:]
		s.payload.Fill32(run[window.Start*word:(window.Start+window.First)*word], channel, head-count)
		s.payload.Fill32(run[:window.Second*word], channel, head-count+window.First)
	}
	return s.ring.Commit(head, count)
}

func (p picture) write(index uint64) error {
	payload, err := p.ring.OpenGrain(index)
	if err != nil {
		return fmt.Errorf("grain %d: %w", index, err)
	}
	p.payload.Fill(payload, index, 0)
	return p.ring.Commit(index, p.ring.TotalSlices(), 0)
}

// close leaves the flows' files; the mesh removes its directories.
func (w *writer) close() {
	for _, s := range w.sounds {
		_ = s.ring.Close()
	}
	for _, p := range w.pictures {
		_ = p.ring.Close()
	}
}
