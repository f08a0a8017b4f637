package fabrics

import "time"

const (
	// minSampleGap is the least time from a completed audio transfer to the next,
	// whatever the pass interval (contract, "Audio timing").
	minSampleGap = 2 * time.Millisecond
	// firstBackoff and maxBackoff bound the wait before a connection is tried again.
	firstBackoff = 250 * time.Millisecond
	maxBackoff   = 5 * time.Second
)

// nextSamplePost is the earliest time of the transfer after one that was posted
// and completed at the given times. Passes are pass apart, counted from the post;
// the one that notices the completion is the first not before it, and the next
// transfer starts a gap after that (contract, "Audio timing").
func nextSamplePost(posted, completed int64, pass time.Duration) int64 {
	step := int64(pass)
	passes := max(1, (completed-posted+step-1)/step)
	return posted + passes*step + max(step, int64(minSampleGap))
}

// nextBackoff doubles the wait up to maxBackoff.
func nextBackoff(last time.Duration) time.Duration {
	if last < firstBackoff {
		return firstBackoff
	}
	return min(2*last, maxBackoff)
}

// sampleStep is what a destination at next may send of a ring with head: count
// samples from next, after skipping what can no longer be read.
type sampleStep struct {
	next, skipped, count uint64
}

// nextSamples decides a destination's next batch of at most limit samples. half is
// half the ring: older samples may be overwritten at any moment (MXL format
// reference §8). A destination that fell out of the window starts again at the
// newest batch; one that is ahead of the head, because the origin went back, at the
// head.
func nextSamples(next, head, half, limit uint64) sampleStep {
	if next > head {
		return sampleStep{next: head}
	}
	behind := head - next
	s := sampleStep{next: next}
	if behind > half {
		s.next = head - min(limit, head)
		s.skipped = s.next - next
		behind = head - s.next
	}
	s.count = min(behind, limit)
	return s
}
