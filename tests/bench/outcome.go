package main

import (
	"errors"
	"fmt"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/mxl-stack/mxl-fabrics-agent/mxl"
)

// errIncomplete means that not everything that was sent arrived.
var errIncomplete = errors.New("incomplete")

// moment is when an index was ready, or when it had arrived, CLOCK_TAI nanoseconds.
type moment struct{ index, ns uint64 }

// outcome is one measurement.
type outcome struct {
	elapsed  time.Duration
	cpu      [2]time.Duration // sender's and receiver's processor time
	messages uint64
	bytes    uint64 // with message headers

	// Paced only, nanoseconds.
	latency *hdrhistogram.Histogram
	reader  *hdrhistogram.Histogram // lanes, video: until a waiting reader had woken
	age     *hdrhistogram.Histogram // arrival minus the index's time
}

func (o outcome) gbytePerSecond() float64 { return float64(o.bytes) / 1e9 / o.elapsed.Seconds() }

func (o outcome) cpuPerGB() float64 {
	return (o.cpu[0] + o.cpu[1]).Seconds() / (float64(o.bytes) / 1e9)
}

func (o outcome) corePercent() float64 {
	return 100 * (o.cpu[0] + o.cpu[1]).Seconds() / o.elapsed.Seconds()
}

func (o outcome) String() string {
	s := fmt.Sprintf("%8.4f GB/s  %.3f + %.3f CPU s/GB  %5.1f %% of a core", o.gbytePerSecond(),
		o.cpu[0].Seconds()/float64(o.bytes)*1e9, o.cpu[1].Seconds()/float64(o.bytes)*1e9, o.corePercent())
	if o.latency != nil {
		s += fmt.Sprintf("  p50 %.3f ms  p99 %.3f ms", milliseconds(o.latency, 50), milliseconds(o.latency, 99))
	}
	return s
}

// newHistogram covers 1 µs to a minute with three digits.
func newHistogram() *hdrhistogram.Histogram {
	return hdrhistogram.New(int64(time.Microsecond), int64(time.Minute), 3)
}

func milliseconds(h *hdrhistogram.Histogram, percentile float64) float64 {
	return float64(h.ValueAtPercentile(percentile)) / 1e6
}

// latencies counts, for every index that was ready, how long it took until it or a
// later one had arrived. Both lists ascend by index. It fails with errIncomplete
// when the last one ready never arrived or nothing was ready.
func latencies(ready, arrived []moment) (*hdrhistogram.Histogram, error) {
	if len(ready) == 0 {
		return nil, fmt.Errorf("%w: nothing was sent", errIncomplete)
	}
	h := newHistogram()
	at := 0
	for _, r := range ready {
		for at < len(arrived) && arrived[at].index < r.index {
			at++
		}
		if at == len(arrived) {
			return nil, fmt.Errorf("%w: index %d did not arrive", errIncomplete, r.index)
		}
		if err := h.RecordValue(elapsed(r.ns, arrived[at].ns)); err != nil {
			return nil, err
		}
	}
	return h, nil
}

// ages counts how old the indexes were when they had arrived.
func ages(rate mxl.Rational, arrived []moment) (*hdrhistogram.Histogram, error) {
	h := newHistogram()
	for _, a := range arrived {
		if err := h.RecordValue(elapsed(rate.TimeOf(a.index), a.ns)); err != nil {
			return nil, err
		}
	}
	return h, nil
}

// elapsed is 0 when the clock was read a moment too early.
func elapsed(from, to uint64) int64 {
	if to < from {
		return 0
	}
	return int64(to - from)
}
