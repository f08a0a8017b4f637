package main

import (
	"errors"
	"math"
	"testing"

	"github.com/google/uuid"

	"github.com/mxl-stack/mxl-fabrics-agent/mxl"
)

const ms = 1_000_000

func TestLatencies(t *testing.T) {
	ready := []moment{{48, 0}, {96, 1 * ms}, {144, 2 * ms}, {192, 3 * ms}}
	tests := []struct {
		name    string
		arrived []moment
		want    []int64 // least and most
		fails   bool
	}{
		{name: "one by one", arrived: []moment{{48, 1 * ms}, {96, 2 * ms}, {144, 3 * ms}, {192, 4 * ms}}, want: []int64{1 * ms, 1 * ms}},
		{name: "in batches", arrived: []moment{{96, 5 * ms}, {192, 9 * ms}}, want: []int64{4 * ms, 7 * ms}},
		{name: "earlier ones before", arrived: []moment{{12, 0}, {192, 4 * ms}}, want: []int64{1 * ms, 4 * ms}},
		{name: "clock read late", arrived: []moment{{192, 0}}, want: []int64{0, 0}},
		{name: "last one missing", arrived: []moment{{48, 1 * ms}, {144, 3 * ms}}, fails: true},
		{name: "nothing arrived", fails: true},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			h, err := latencies(ready, test.arrived)
			if test.fails {
				if !errors.Is(err, errIncomplete) {
					t.Fatalf("got error %v, want incomplete", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if h.TotalCount() != int64(len(ready)) {
				t.Errorf("%d latencies of %d messages", h.TotalCount(), len(ready))
			}
			if !near(h.Min(), test.want[0]) || !near(h.Max(), test.want[1]) {
				t.Errorf("got %d to %d ns, want %v", h.Min(), h.Max(), test.want)
			}
		})
	}
	if _, err := latencies(nil, ready); !errors.Is(err, errIncomplete) {
		t.Errorf("nothing sent: %v", err)
	}
}

// near allows for the histogram's three digits above its microsecond.
func near(got, want int64) bool { return math.Abs(float64(got-want)) <= float64(want)/500+1000 }

func TestAges(t *testing.T) {
	h, err := ages(mxl.Rational{Numerator: 50, Denominator: 1}, []moment{{50, 1003 * ms}, {51, 1025 * ms}})
	if err != nil {
		t.Fatal(err)
	}
	if mean := h.Mean(); math.Abs(mean-4*ms) > 4*ms/500 {
		t.Errorf("mean age %v ns, want 4 ms", mean)
	}
}

func TestDefinitionsAreValid(t *testing.T) {
	for _, m := range []media{video, audio} {
		for _, small := range []bool{false, true} {
			def, err := mxl.ParseFlowDef(definition(m, uuid.New(), small))
			if err != nil {
				t.Errorf("%s: %v", m, err)
				continue
			}
			if def.Rate != m.rate() {
				t.Errorf("%s: rate %v, want %v", m, def.Rate, m.rate())
			}
			if size := mxl.PayloadOffset + def.PayloadSize(); m == video && !small && size != grainBytes {
				t.Errorf("a grain is %d bytes, the comparison moves %d", size, grainBytes)
			}
		}
	}
}
