package main

import (
	"errors"
	"fmt"
	"math"
	"os"
	"runtime"
	"slices"
	"strings"

	"github.com/HdrHistogram/hdrhistogram-go"
	"golang.org/x/sys/unix"

	"github.com/mxl-stack/mxl-fabrics-agent/fabrics"
)

// measured is one counted outcome.
type measured struct {
	phase
	round int
	outcome
}

// series is all outcomes of a run.
type series struct {
	all     []measured
	invalid int // rounds of a phase that were not counted
}

func (s *series) add(p phase, round int, o outcome) { s.all = append(s.all, measured{p, round, o}) }

// figure is one number in several rounds.
type figure struct{ median, least, most float64 }

func figureOf(values []float64) (f figure, ok bool) {
	if len(values) == 0 {
		return f, false
	}
	v := slices.Sorted(slices.Values(values))
	f = figure{v[len(v)/2], v[0], v[len(v)-1]}
	if len(v)%2 == 0 {
		f.median = (v[len(v)/2-1] + v[len(v)/2]) / 2
	}
	return f, true
}

// metric is a number of an outcome.
type metric struct {
	name string // as in bench.json, after the medium
	text string // as in the table
	flat bool   // measured back to back
	of   func(outcome) float64
}

var metrics = []metric{
	{"throughput_gbyte_per_s", "throughput, GB/s", true, outcome.gbytePerSecond},
	{"cpu_per_gb_back_to_back", "CPU back to back, s/GB", true, outcome.cpuPerGB},
	{"cpu_per_gb_paced", "CPU paced, s/GB", false, outcome.cpuPerGB},
	{"paced_core_percent_both_ends", "CPU paced, % of a core", false, outcome.corePercent},
	{"latency_p50_ms", "latency p50, ms", false, func(o outcome) float64 { return milliseconds(o.latency, 50) }},
	{"latency_p99_ms", "latency p99, ms", false, func(o outcome) float64 { return milliseconds(o.latency, 99) }},
	{"age_mean_ms", "mean age on arrival, ms", false, func(o outcome) float64 { return o.age.Mean() / 1e6 }},
	{"reader_latency_p50_ms", "… until a reader woke, p50, ms", false, func(o outcome) float64 {
		if o.reader == nil {
			return math.NaN()
		}
		return milliseconds(o.reader, 50)
	}},
}

// ratios of the lanes' metric to another way's, by the metric's name.
var ratios = map[string]string{
	"throughput_gbyte_per_s":  "throughput",
	"cpu_per_gb_back_to_back": "cpu_per_gb_back_to_back",
	"cpu_per_gb_paced":        "cpu_per_gb_paced",
	"latency_p50_ms":          "latency_p50",
	"latency_p99_ms":          "latency_p99",
}

// missing lists the phases of which no round was counted.
func (s *series) missing(wanted []phase) error {
	var errs []error
	for _, p := range wanted {
		counted := func(o measured) bool { return o.media == p.media && o.mode == p.mode && o.way == p.way }
		if !slices.ContainsFunc(s.all, counted) {
			errs = append(errs, fmt.Errorf("%s: no round was complete", p))
		}
	}
	return errors.Join(errs...)
}

// values are a metric's values by round.
func (s *series) values(m media, w way, what metric) map[int]float64 {
	v := map[int]float64{}
	for _, o := range s.all {
		if o.media == m && o.way == w && o.mode.backToBack() == what.flat {
			if x := what.of(o.outcome); !math.IsNaN(x) {
				v[o.round] = x
			}
		}
	}
	return v
}

// pooled is the latency distribution of a way over all rounds; nil without any.
func (s *series) pooled(m media, w way) *hdrhistogram.Histogram {
	var all *hdrhistogram.Histogram
	for _, o := range s.all {
		if o.media == m && o.way == w && o.latency != nil {
			if all == nil {
				all = newHistogram()
			}
			all.Merge(o.latency)
		}
	}
	return all
}

// suffix tells the ways apart in bench.json; the lanes have none.
func (w way) suffix() string {
	if w == lanesWay {
		return ""
	}
	return "_" + strings.ReplaceAll(string(w), " ", "_")
}

var ways = []way{tcpWay, freeWay, rawWay, lanesWay}

// summary is bench.json: a flat object. Figures of several rounds are medians, with
// _min and _max beside them.
type summary struct {
	values map[string]any
	idle   map[media]idleOutcome
	series *series
}

func (s *summary) figure(key string, values []float64) {
	f, ok := figureOf(values)
	if !ok {
		return
	}
	s.values[key], s.values[key+"_min"], s.values[key+"_max"] = rounded(f.median), rounded(f.least), rounded(f.most)
}

// summarize makes the figures. Ratios are made in each round, where both ways ran
// within seconds of each other, and their median is taken.
func summarize(all *series, idle map[media]idleOutcome) *summary {
	s := &summary{values: map[string]any{}, idle: idle, series: all}
	for _, m := range []media{video, audio} {
		for _, what := range metrics {
			lanes := all.values(m, lanesWay, what)
			for _, w := range ways {
				other := all.values(m, w, what)
				s.figure(string(m)+"_"+what.name+w.suffix(), ofRounds(other))
				if name := ratios[what.name]; name != "" && w != lanesWay {
					s.figure(string(m)+"_"+name+"_vs"+w.suffix(), quotients(lanes, other))
				}
			}
		}
		// One number for the price: the worse of the two ways of working.
		prefix := map[media]string{video: "", audio: "audio_"}[m]
		s.worse(prefix+"cpu_per_gb_vs_raw", string(m)+"_cpu_per_gb_back_to_back_vs_raw", string(m)+"_cpu_per_gb_paced_vs_raw")
		if o, ok := idle[m]; ok {
			s.values[prefix+"idle_lane_core_percent"] = rounded(o.perLane())
			s.values[prefix+"idle_source_lane_core_percent"] = rounded(o.percent(o.source))
			s.values[prefix+"idle_target_lane_core_percent"] = rounded(o.percent(o.target))
		}
	}
	s.values["not_counted"] = all.invalid
	return s
}

// worse gives key the largest of the others' values.
func (s *summary) worse(key string, others ...string) {
	for _, k := range others {
		v, ok := s.values[k].(float64)
		if worst, has := s.values[key].(float64); ok && (!has || v > worst) {
			s.values[key] = v
		}
	}
}

func ofRounds(v map[int]float64) []float64 {
	list := make([]float64, 0, len(v))
	for _, x := range v {
		list = append(list, x)
	}
	return list
}

// quotients are a/b of the rounds that have both.
func quotients(a, b map[int]float64) []float64 {
	var list []float64
	for round, x := range a {
		if y := b[round]; y > 0 {
			list = append(list, x/y)
		}
	}
	return list
}

// rounded keeps four significant digits.
func rounded(x float64) float64 {
	if x == 0 || math.IsInf(x, 0) || math.IsNaN(x) {
		return 0
	}
	scale := math.Pow(10, 3-math.Floor(math.Log10(math.Abs(x))))
	return math.Round(x*scale) / scale
}

// hostFacts say where and how quietly a run was made.
type hostFacts struct {
	kernel, load string
}

func lookAround() hostFacts {
	var f hostFacts
	var u unix.Utsname
	if unix.Uname(&u) == nil {
		f.kernel = unix.ByteSliceToString(u.Release[:])
	}
	if text, err := os.ReadFile("/proc/loadavg"); err == nil {
		f.load, _, _ = strings.Cut(string(text), " ")
	}
	return f
}

func (s *summary) facts(o options, before hostFacts) {
	s.values["rounds"] = o.rounds
	s.values["seconds"] = o.seconds
	s.values["cpus"] = runtime.NumCPU()
	s.values["kernel"] = before.kernel
	s.values["libfabric"] = fabrics.Version()
	s.values["load_average_before"] = before.load
	s.values["load_average_after"] = lookAround().load
	s.values["go"] = fmt.Sprintf("%s %s", runtime.Version(), runtime.GOARCH)
}
