package main

import (
	"strings"
	"testing"
	"time"
)

func TestVerdict(t *testing.T) {
	good := outcome{CPUPeriodicMS: 150, CPUBeforeMS: 150, CPURefusedMS: 150, PassesMeanwhile: 1, GrainsVerified: 1}
	for name, tc := range map[string]struct {
		change func(*outcome)
		want   string // part of the error, empty: none
	}{
		"good":           {func(*outcome) {}, ""},
		"too expensive":  {func(o *outcome) { o.CPUPeriodicMS = 150.1 }, "processor time"},
		"a removal":      {func(o *outcome) { o.CPUBeforeMS = 150.1 }, "a removal takes"},
		"a refusal":      {func(o *outcome) { o.CPURefusedMS = 150.1 }, "finds readers"},
		"passes wait":    {func(o *outcome) { o.PassesMeanwhile = 0 }, "no pass"},
		"a lane waited":  {func(o *outcome) { o.GrainsLost = 1 }, "1 grains lost"},
		"nothing came":   {func(o *outcome) { o.GrainsVerified = 0 }, "0 verified"},
		"waits are rare": {func(o *outcome) { o.PassMaxMS = 300 }, ""},
	} {
		o := good
		tc.change(&o)
		err := o.verdict()
		if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestQuantile(t *testing.T) {
	times := []time.Duration{4, 1, 3, 2}
	for q, want := range map[float64]time.Duration{0: 1, 0.5: 3, 1: 4} {
		if got := quantile(times, q); got != want {
			t.Errorf("quantile %v: %v, want %v", q, got, want)
		}
	}
}
