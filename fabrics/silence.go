package fabrics

// silence clears the samples that never came between the mirror's head and a
// batch that starts at index start: the source starts at the origin's newest
// samples when a connection is new, and a writer may leave some out. What lies
// there is one or more laps of the ring old, and a reader would play it.
func (l *targetLane) silence(start uint64) error {
	w := l.cfg.Continuous
	head := w.Head()
	if head == 0 {
		return nil // a new ring is silent
	}
	cleared := uint64(0)
	for head < start {
		next, count := silentStep(head, start, cleared, w.MaxCount())
		if count > 0 {
			window, err := w.OpenSamples(next, count)
			if err != nil {
				return err
			}
			for channel := range l.samples.channels {
				first, second := w.Segments(window, channel)
				clear(first)
				clear(second)
			}
		}
		if err := w.Commit(next, count); err != nil {
			return err
		}
		head, cleared = next, cleared+count
	}
	return nil
}

// silentStep is where the head goes next on its way to start, and how many samples
// before it are cleared first. Half the ring before the head may be read at any
// moment (MXL format reference §8), so a step takes at most the other half: a batch
// far ahead of the head would otherwise overwrite what readers may have. Once two
// halves are cleared the whole ring is silent.
func silentStep(head, start, cleared, half uint64) (next, count uint64) {
	if cleared >= 2*half {
		return start, 0
	}
	count = min(start-head, half)
	return head + count, count
}
