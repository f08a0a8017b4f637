package fabrics

// sampleWrite is one write of a continuous transfer: segments[from:to] go to
// offset remote of the entry.
type sampleWrite struct {
	from, to  int
	remote    uint64
	immediate bool
}

// sampleWrites is what an SDK initiator does with the pieces that we copy together: it cuts them into writes of at most limit segments to
// consecutive offsets, the immediate on the last (MXL Fabrics reference §7.2).
func sampleWrites(dst []sampleWrite, segments []sampleSegment, limit int) []sampleWrite {
	var remote uint64
	for from := 0; from < len(segments); from += limit {
		to := min(from+limit, len(segments))
		dst = append(dst, sampleWrite{from, to, remote, to == len(segments)})
		for _, s := range segments[from:to] {
			remote += s.length
		}
	}
	return dst
}
