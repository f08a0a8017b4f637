package fabrics

// silence clears the samples that never came between the mirror's head and a
// batch that starts at index start: the source starts at the origin's newest
// samples when a connection is new, and a writer may leave some out. What lies
// there is one or more laps of the ring old, and a reader would play it.
func (l *targetLane) silence(start, count uint64) error {
	w := l.cfg.Continuous
	head := w.Head()
	if head == 0 || start <= head {
		return nil // a new ring is silent
	}
	missing := min(start-head, l.samples.length-count)
	for missing > 0 {
		n := min(missing, w.MaxCount())
		window, err := w.OpenSamples(start, n)
		if err != nil {
			return err
		}
		for channel := range l.samples.channels {
			first, second := w.Segments(window, channel)
			clear(first)
			clear(second)
		}
		start, missing = start-n, missing-n
	}
	return nil
}
