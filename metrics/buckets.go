package metrics

import (
	"slices"
	"sort"

	"github.com/prometheus/client_golang/prometheus"
)

// Buckets is a histogram as a lane keeps it: observations since the lane
// began, sorted into fixed buckets. The zero value has no observations.
type Buckets struct {
	Bounds []float64 // upper bounds in seconds, ascending, without +Inf
	Counts []uint64  // one per bound and one for +Inf; each bucket on its own
	Sum    float64   // seconds
	Max    float64   // largest of the last 10 s, in seconds
}

// Count is the number of observations.
func (b Buckets) Count() (n uint64) {
	for _, c := range b.Counts {
		n += c
	}
	return n
}

// plus adds observations. Where the bounds differ, a bucket's observations
// count below the nearest bound that holds them all.
func (b Buckets) plus(other Buckets) Buckets {
	if len(other.Counts) == 0 {
		return b
	}
	if len(b.Counts) == 0 {
		b.Bounds, b.Counts = other.Bounds, make([]uint64, len(other.Bounds)+1)
	} else {
		b.Counts = slices.Clone(b.Counts)
	}
	b.Sum += other.Sum
	b.Max = max(b.Max, other.Max)
	for i, n := range other.Counts {
		at := len(b.Bounds)
		if i < len(other.Bounds) {
			at = sort.SearchFloat64s(b.Bounds, other.Bounds[i])
		}
		b.Counts[at] += n
	}
	return b
}

// fell reports whether this cannot be the same lane's later count.
func (b Buckets) fell(before Buckets) bool { return b.Count() < before.Count() }

// metric is the constant histogram with cumulative buckets.
func (b Buckets) metric(desc *prometheus.Desc, labels ...string) (prometheus.Metric, error) {
	cumulative := make(map[float64]uint64, len(b.Bounds))
	var n uint64
	for i, bound := range b.Bounds {
		if i < len(b.Counts) {
			n += b.Counts[i]
		}
		cumulative[bound] = n
	}
	return prometheus.NewConstHistogram(desc, b.Count(), b.Sum, cumulative, labels...)
}

// secondsBounds are the buckets of every histogram that is observed here, the
// original's (agent API reference §17), refined below 10 ms where a control
// plane spends its time.
var secondsBounds = []float64{0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5}
