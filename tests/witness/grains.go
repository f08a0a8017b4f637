package witness

import (
	"context"
	"errors"
	"time"

	"github.com/mxl-stack/mxl-fabrics-agent/cmd/mxl-pattern/pattern"
	"github.com/mxl-stack/mxl-fabrics-agent/mxl"
)

// grains follows one opening of a discrete mirror. The first one begins after
// its head; a later one, of a file that replaced another, with what is in it.
func (w *Witness) grains(ctx context.Context, domain *mxl.Domain, first bool) error {
	ring, err := domain.OpenDiscreteReader(w.id)
	if err != nil {
		return err
	}
	defer ring.Close()
	text, err := domain.ReadFlowDef(w.id)
	if err != nil {
		return err
	}
	def, err := mxl.ParseFlowDef(text)
	if err != nil {
		return err
	}
	mask := ^uint64(0)
	if def.Format == mxl.FormatVideo {
		mask = pattern.V210Mask
	}
	payload := pattern.NewGrains(w.id, mask)

	last := ring.Head()
	if !first {
		last -= min(last, ring.Depth()-2)
		last = max(last, min(w.Seen().LastIndex, ring.Head()))
	}
	checked := time.Now()
	for ctx.Err() == nil {
		w.looks()
		seen := ring.Sync()
		head := ring.Head()
		switch {
		case head < last:
			w.wentBack()
			last = head - min(head, 1)
		case last == 0 && head > 0:
			last = head - min(head, ring.Depth()-2, 1)
		}
		if oldest := head - min(head, ring.Depth()-2); last < oldest {
			w.passed(oldest-last, 0)
			last = oldest
		}
		last = w.upTo(ring, payload, last, head)
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

// upTo takes the indexes after last up to head and returns the last one taken.
// A run of indexes that are not there is asked for at the origin at once.
func (w *Witness) upTo(ring *mxl.DiscreteReader, payload pattern.Grains, last, head uint64) uint64 {
	absent := uint64(0) // how many before index are not there
	index := last + 1
	for ; index <= head; index++ {
		there, wait := w.grain(ring, payload, index, head)
		if wait {
			break
		}
		if !there {
			absent++
			continue
		}
		if absent > 0 {
			w.askGrains(index-absent, index)
			absent = 0
		}
	}
	if absent > 0 {
		w.askGrains(index-absent, index)
	}
	return index - 1
}

// grain verifies one index. wait: it is the head and not complete yet.
func (w *Witness) grain(ring *mxl.DiscreteReader, payload pattern.Grains, index, head uint64) (there, wait bool) {
	g, err := ring.Grain(index, mxl.AllSlices)
	for tries := 0; errors.Is(err, mxl.ErrTooEarly) && index < head && tries < 5; tries++ {
		time.Sleep(time.Millisecond) // the head is ahead of the header; it is a matter of instructions
		g, err = ring.Grain(index, mxl.AllSlices)
	}
	switch {
	case errors.Is(err, mxl.ErrTooEarly) && index == head:
		return false, true
	case err != nil, g.Invalid():
		return false, false
	}
	at := -1
	if err := mxl.Guard(func() error { at = payload.Check(g.Payload, index, 0); return nil }); err != nil {
		return false, false
	}
	if at >= 0 {
		if !ring.Intact(g) {
			return false, false
		}
		stamp, ours, _ := payload.Stamp(g.Payload)
		w.bad("%s: grain %d, byte %d of %d; its stamp says index %d, this flow %v", w.Name, index, at, len(g.Payload), stamp, ours)
		return true, false
	}
	w.arrived(index, 1, len(g.Payload))
	return true, false
}

// askGrains asks the origin which of the indexes from … to-1 it has.
func (w *Witness) askGrains(from, to uint64) {
	domain, err := w.openOrigin()
	if err != nil {
		w.passed(to-from, 0)
		return
	}
	ring, err := domain.OpenDiscreteReader(w.id)
	if err != nil {
		w.passed(to-from, 0)
		return
	}
	defer ring.Close()
	var lost, leftOut uint64
	for index := from; index < to; index++ {
		g, err := ring.Grain(index, mxl.AllSlices)
		if errors.Is(err, mxl.ErrSkipped) || err == nil && g.Invalid() {
			leftOut++
		} else {
			lost++
		}
	}
	w.passed(lost, leftOut)
}
