package main

import (
	"math"
	"testing"
	"time"

	"github.com/mxl-stack/mxl-fabrics-agent/fabrics"
)

func TestQuantile(t *testing.T) {
	before := fabrics.Histogram{Bounds: []float64{0.001, 0.002, 0.004}, Counts: []uint64{5, 0, 0, 1}, Count: 6}
	now := fabrics.Histogram{Bounds: before.Bounds, Counts: []uint64{5, 50, 50, 1}, Count: 106}
	h := since(now, before)
	for q, want := range map[float64]float64{0.25: 1.5, 0.5: 2, 0.75: 3, 1: 4} {
		if got := quantileMS(h, q); math.Abs(got-want) > 1e-9 {
			t.Errorf("quantile %v is %v ms, want %v", q, got, want)
		}
	}
	if now.Counts[1] != 50 || h.Count != 100 {
		t.Errorf("%+v, %+v", now, h)
	}
	all := fabrics.Histogram{Bounds: before.Bounds, Counts: []uint64{0, 0, 0, 9}, Count: 9}
	if got := quantileMS(all, 0.5); got != 4 {
		t.Errorf("above the last bound: %v", got)
	}
	d := []time.Duration{3e6, 1e6, 2e6, 4e6}
	for percent, want := range map[int]float64{25: 1, 50: 2, 99: 4} {
		if got := percentileMS(d, percent); got != want {
			t.Errorf("percentile %d is %v, want %v", percent, got, want)
		}
	}
}
