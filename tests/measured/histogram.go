package measured

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Histogram is a Prometheus histogram: cumulative counts by upper bound.
type Histogram struct {
	bounds []float64
	counts []float64
	sum    float64
}

// Work reads the times of periodic works from the metrics page.
func (a *Agent) Work(ctx context.Context, works ...string) ([]Histogram, error) {
	body, err := a.Get(ctx, "/metrics")
	if err != nil {
		return nil, err
	}
	const series = `mxl_fabrics_agent_reconcile_work_seconds`
	list := make([]Histogram, len(works))
	for line := range strings.Lines(string(body)) {
		name, text, _ := strings.Cut(strings.TrimSpace(line), "} ")
		i := slices.IndexFunc(works, func(w string) bool { return strings.Contains(name, `work="`+w+`"`) })
		if i < 0 || !strings.HasPrefix(name, series) {
			continue
		}
		h := &list[i]
		value, err := strconv.ParseFloat(text, 64)
		if err != nil {
			return nil, err
		}
		switch {
		case strings.HasPrefix(name, series+"_sum"):
			h.sum = value
		case strings.HasPrefix(name, series+"_bucket"):
			_, bound, _ := strings.Cut(name, `le="`)
			b, err := strconv.ParseFloat(strings.Replace(strings.Trim(bound, `"`), "+Inf", "Inf", 1), 64)
			if err != nil {
				return nil, err
			}
			h.bounds, h.counts = append(h.bounds, b), append(h.counts, value)
		}
	}
	for i, h := range list {
		if len(h.bounds) == 0 {
			return nil, fmt.Errorf("no times of %s on the metrics page", works[i])
		}
	}
	return list, nil
}

// Count is how many were observed.
func (h Histogram) Count() float64 { return h.counts[len(h.counts)-1] }

// Since is the 99th percentile, interpolated inside its bucket, and the mean of
// what was observed after before, in milliseconds.
func (h Histogram) Since(before Histogram) (p99, mean float64) {
	last := len(h.counts) - 1
	total := h.counts[last] - before.counts[last]
	if total == 0 {
		return 0, 0
	}
	rank := 0.99 * total
	lower, below := 0.0, 0.0
	for i := range h.counts {
		n := h.counts[i] - before.counts[i]
		if n >= rank {
			upper := h.bounds[i]
			if i == last {
				upper = lower // beyond the largest bound: at least that
			}
			p99 = lower + (upper-lower)*(rank-below)/(n-below)
			break
		}
		lower, below = h.bounds[i], n
	}
	return 1000 * p99, 1000 * (h.sum - before.sum) / total
}
