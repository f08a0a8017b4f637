package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestFigureOf(t *testing.T) {
	tests := []struct {
		values []float64
		want   figure
	}{
		{[]float64{3}, figure{3, 3, 3}},
		{[]float64{5, 1, 2}, figure{2, 1, 5}},
		{[]float64{4, 1, 2, 8}, figure{3, 1, 8}},
	}
	for _, test := range tests {
		if got, ok := figureOf(test.values); !ok || got != test.want {
			t.Errorf("%v: got %v, want %v", test.values, got, test.want)
		}
	}
	if _, ok := figureOf(nil); ok {
		t.Error("a figure of no values")
	}
}

func TestRounded(t *testing.T) {
	for x, want := range map[float64]float64{0: 0, 1.23456: 1.235, 0.000123456: 0.0001235, 98765.4: 98770, -2.00049: -2} {
		if got := rounded(x); got != want {
			t.Errorf("%v: got %v, want %v", x, got, want)
		}
	}
}

func flatOutcome(gbytePerSecond, cpuPerGB float64) outcome {
	return outcome{elapsed: time.Second, bytes: uint64(gbytePerSecond * 1e9),
		cpu: [2]time.Duration{time.Duration(gbytePerSecond * cpuPerGB * 1e9), 0}}
}

func pacedOutcome(latency, reader int64, cpuPerGB float64) outcome {
	o := flatOutcome(0.25, cpuPerGB)
	o.latency, o.age = newHistogram(), newHistogram()
	_ = o.latency.RecordValue(latency)
	_ = o.age.RecordValue(latency)
	if reader > 0 {
		o.reader = newHistogram()
		_ = o.reader.RecordValue(reader)
	}
	return o
}

// Two rounds of video: ratios are made in each round, and a round that one way
// lacks has none.
func TestSummarize(t *testing.T) {
	var all series
	for round, speed := range []float64{1, 2} {
		all.add(phase{media: video, mode: flat, way: rawWay}, round, flatOutcome(speed, 0.5))
		all.add(phase{media: video, mode: flat, way: lanesWay}, round, flatOutcome(speed*0.9, 0.55))
		all.add(phase{media: video, mode: paced, way: rawWay}, round, pacedOutcome(2*ms, 0, 0.5))
	}
	all.add(phase{media: video, mode: paced, way: lanesWay}, 1, pacedOutcome(3*ms, 4*ms, 0.6))
	all.invalid = 1
	idle := map[media]idleOutcome{video: {lanes: 10, elapsed: 10 * time.Second,
		source: laneReport{CPUNS: int64(200 * time.Millisecond)}, target: laneReport{CPUNS: int64(100 * time.Millisecond)}}}
	s := summarize(&all, idle)
	s.facts(options{rounds: 2, seconds: 1}, hostFacts{})
	want := map[string]float64{
		"video_throughput_gbyte_per_s":         1.35,
		"video_throughput_gbyte_per_s_raw":     1.5,
		"video_throughput_vs_raw":              0.9,
		"video_throughput_vs_raw_max":          0.9,
		"video_cpu_per_gb_back_to_back_vs_raw": 1.1,
		"video_cpu_per_gb_paced_vs_raw":        1.2,
		"cpu_per_gb_vs_raw":                    1.2, // the worse of the two
		"video_latency_p50_vs_raw":             1.5,
		"video_latency_p99_vs_raw":             1.5,
		"video_age_mean_ms":                    3,
		"video_paced_core_percent_both_ends":   15,
		"idle_lane_core_percent":               0.2,
		"idle_target_lane_core_percent":        0.1,
	}
	for key, value := range want {
		got, ok := s.values[key].(float64)
		if !ok || got < value*0.998 || got > value*1.002 {
			t.Errorf("%s: got %v, want %v", key, s.values[key], value)
		}
	}
	if _, ok := s.values["video_throughput_vs_tcp"]; ok {
		t.Error("a ratio to a way that was not measured")
	}

	path := filepath.Join(t.TempDir(), "bench.json")
	if err := s.save(path); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var flatObject map[string]any
	if err := json.Unmarshal(text, &flatObject); err != nil {
		t.Fatal(err)
	}
	for key, value := range flatObject {
		switch value.(type) {
		case float64, string:
		default:
			t.Errorf("%s is %T, the object is to be flat", key, value)
		}
	}
	var table strings.Builder
	s.print(&table)
	for _, line := range []string{"0.9 [0.9, 0.9]", "10 idle video lanes"} {
		if !strings.Contains(table.String(), line) {
			t.Errorf("no %q in the table:\n%s", line, table.String())
		}
	}
	if err := drawLatencies(&all, filepath.Join(t.TempDir(), "bench.png")); err != nil {
		t.Error(err)
	}
}
