package fabrics

import (
	"sync/atomic"
	"time"
)

// timeBounds are the buckets of every histogram, in seconds: the original's
// 0.001 0.005 0.01 0.05 0.1 0.5 1 5, finer ones where lanes differ, and 0.12, the
// age above which a reader misses samples (contract, "Audio timing").
var timeBounds = [...]float64{
	0.0002, 0.0005, 0.001, 0.002, 0.003, 0.004, 0.005, 0.0075, 0.01, 0.015, 0.02,
	0.025, 0.04, 0.05, 0.1, 0.12, 0.25, 0.5, 1, 2.5, 5,
}

// boundsNanos are timeBounds in nanoseconds.
var boundsNanos = func() (n [len(timeBounds)]int64) {
	for i, b := range timeBounds {
		n[i] = int64(b*1e9 + 0.5)
	}
	return n
}()

// maxSeconds is how long a largest value is remembered (contract, "Audio timing").
const maxSeconds = 10

// histogram is written by one lane and read by anyone.
type histogram struct {
	counts [len(timeBounds) + 1]atomic.Uint64
	sum    atomic.Int64
	recent [maxSeconds]struct{ second, largest atomic.Int64 }
}

// observe counts d; now is the lane's clock. Both are nanoseconds.
func (h *histogram) observe(d, now int64) {
	d = max(d, 0)
	i := 0
	for i < len(boundsNanos) && d > boundsNanos[i] {
		i++
	}
	h.counts[i].Add(1)
	h.sum.Add(d)
	second := now/int64(time.Second) + 1
	slot := &h.recent[second%maxSeconds]
	if slot.second.Load() != second {
		slot.largest.Store(0)
		slot.second.Store(second)
	}
	if d > slot.largest.Load() {
		slot.largest.Store(d)
	}
}

// snapshot reads the histogram at the lane's time now.
func (h *histogram) snapshot(now int64) Histogram {
	s := Histogram{Bounds: timeBounds[:], Counts: make([]uint64, len(h.counts))}
	for i := range h.counts {
		s.Counts[i] = h.counts[i].Load()
		s.Count += s.Counts[i]
	}
	s.Sum = float64(h.sum.Load()) / 1e9
	second := now/int64(time.Second) + 1
	for i := range h.recent {
		if at := h.recent[i].second.Load(); at > second-maxSeconds && at <= second {
			s.Max = max(s.Max, time.Duration(h.recent[i].largest.Load()))
		}
	}
	return s
}
