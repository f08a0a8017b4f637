package main

import (
	"slices"
	"time"

	"github.com/mxl-stack/mxl-fabrics-agent/fabrics"
)

// since is what a histogram counted after an earlier snapshot of it.
func since(now, before fabrics.Histogram) fabrics.Histogram {
	now.Counts = slices.Clone(now.Counts)
	for i := range before.Counts {
		now.Counts[i] -= before.Counts[i]
	}
	now.Count -= before.Count
	now.Sum -= before.Sum
	return now
}

// quantileMS estimates a quantile in milliseconds, evenly spread inside its bucket; in
// the last one it is that bucket's lower bound.
func quantileMS(h fabrics.Histogram, q float64) float64 {
	rank, seen := q*float64(h.Count), 0.0
	lower := 0.0
	for i, bound := range h.Bounds {
		n := float64(h.Counts[i])
		if n > 0 && seen+n >= rank {
			return 1000 * (lower + (bound-lower)*(rank-seen)/n)
		}
		seen += n
		lower = bound
	}
	return 1000 * lower
}

// percentileMS is the nearest rank, in milliseconds.
func percentileMS(d []time.Duration, percent int) float64 {
	if len(d) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(d))
	return float64(sorted[(len(sorted)*percent+99)/100-1]) / 1e6
}
