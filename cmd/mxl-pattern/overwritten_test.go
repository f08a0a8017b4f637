package main

import (
	"errors"
	"io"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/mxl-stack/mxl-fabrics-agent/cmd/mxl-pattern/pattern"
	"github.com/mxl-stack/mxl-fabrics-agent/mxl"
)

// sampleFlow is a flow of two channels whose ring was written once round.
func sampleFlow(t *testing.T) (*writer, *mxl.ContinuousWriter, *mxl.ContinuousReader, uint64) {
	t.Helper()
	w := ownWriter(t, essence{format: "audio", channels: 2, bitDepth: 32, rate: mxl.Rational{Numerator: 48000, Denominator: 1}})
	w.options.batch, w.terminal = 48, terminal{io.Discard, io.Discard}
	ring, err := w.openSamples()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ring.Close() })
	reader, err := w.domain.OpenContinuousReader(w.parsed.ID)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { reader.Close() })
	head := uint64(48 * 1_000_000)
	for range ring.BufferLength()/48 + 1 {
		head += 48
		if err := w.batch(ring, pattern.NewSamples(w.parsed.ID), head); err != nil {
			t.Fatal(err)
		}
	}
	return w, ring, reader, head
}

// TestOverwrittenBeforeTheHeadMoved: samples that a jumping writer has changed and not
// committed yet are overwritten, not bad; those that the next commit leaves are bad.
func TestOverwrittenBeforeTheHeadMoved(t *testing.T) {
	for _, c := range []struct {
		name string
		jump uint64 // of the commit that follows
		late bool
	}{{"jump", 1 << 20, true}, {"no jump", 48, false}} {
		t.Run(c.name, func(t *testing.T) {
			w, ring, input, head := sampleFlow(t)
			payload := pattern.NewSamples(w.parsed.ID)
			window, err := ring.OpenSamples(head-480, 48)
			if err != nil {
				t.Fatal(err)
			}
			fillWindow(ring, payload, window, head+12345) // what does not belong there
			r := &reader{options: readOptions{flow: uuid.New()}, terminal: terminal{out: io.Discard, err: io.Discard}}
			done := make(chan error, 1)
			go func() { done <- r.window(input, payload, head-960, 960, make([]sampleState, 960)) }()
			select {
			case err := <-done:
				t.Fatalf("judged before the next commit: %v, %d bad", err, r.totals.BadSamples)
			case <-time.After(20 * time.Millisecond):
			}
			if err := ring.Commit(head+c.jump, 48); err != nil {
				t.Fatal(err)
			}
			err = <-done
			if errors.Is(err, mxl.ErrTooLate) != c.late || (r.totals.BadSamples == 0) != c.late || c.late && r.totals.Overwritten != 960 {
				t.Errorf("%v, %+v", err, r.totals)
			}
		})
	}
}

func TestHeadFirst(t *testing.T) {
	const half = 1000
	for _, c := range []struct {
		head, begin uint64
		want        bool
	}{
		{0, 5000, false}, // nothing can be read yet
		{5000, 5000, false},
		{5000, 5999, false},
		{5000, 6000, true},
		{5000, 1 << 40, true},
		{5000, 4000, false}, // back: readers see that the head went back
	} {
		if got := headFirst(c.head, c.begin, half); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
}
