package main

import (
	"math"

	"github.com/HdrHistogram/hdrhistogram-go"
	"golang.org/x/sys/unix"
)

// latencies is a histogram of times in ns, three significant digits up to a minute.
type latencies struct {
	h     *hdrhistogram.Histogram
	ahead uint64
}

const longestLatency = 60_000_000_000

func newLatencies() latencies { return latencies{h: hdrhistogram.New(1000, longestLatency, 3)} }

// add records now − then, both TAI in ns. What is ahead of its time counts as 0.
func (l *latencies) add(now, then uint64) {
	if then > now {
		l.ahead++
		then = now
	}
	_ = l.h.RecordValue(int64(min(now-then, longestLatency))) // in range by min
}

// ms is a quantile in milliseconds; 0 when nothing was recorded.
func (l *latencies) ms(quantile float64) float64 {
	return thousandths(float64(l.h.ValueAtQuantile(quantile)) / 1e6)
}

func (l *latencies) maxMS() float64  { return thousandths(float64(l.h.Max()) / 1e6) }
func (l *latencies) meanMS() float64 { return thousandths(l.h.Mean() / 1e6) }

// thousandths rounds to three decimals.
func thousandths(v float64) float64 {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return 0
	}
	return math.Round(v*1000) / 1000
}

// cpuSeconds is the processor time of this process so far, user and system.
func cpuSeconds() float64 {
	var r unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &r) != nil {
		return 0
	}
	return float64(r.Utime.Nano()+r.Stime.Nano()) / 1e9
}
