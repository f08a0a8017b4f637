package main

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

func TestQuantile(t *testing.T) {
	var times []time.Duration
	for i := range 50 {
		times = append(times, time.Duration(i+1))
	}
	if p50, p99 := quantile(times, 0.5), quantile(times, 0.99); p50 != 26 || p99 != 50 {
		t.Errorf("p50 %d, p99 %d", p50, p99)
	}
}

func TestPlotIsWritten(t *testing.T) {
	path := filepath.Join(t.TempDir(), "plot.svg")
	if err := draw(path, []time.Duration{1e6, 2e6}, []time.Duration{3e6}); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(path); err != nil || info.Size() == 0 {
		t.Errorf("%v %v", info, err)
	}
}
