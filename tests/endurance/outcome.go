package main

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/mxl-stack/mxl-fabrics-agent/tests/witness"

	"github.com/mxl-stack/mxl-fabrics-agent/tests/mesh"
)

// Limits of what counts as growth, beyond noise, in a run of ten minutes or more:
// where a leak begins to show, not what is tolerated for a day. A shorter run may
// grow by as much in all as one of ten minutes: it cannot tell a leak from a heap
// that finds its size.
const (
	rssLimit    = 256.0 // KiB a minute
	countLimit  = 0.2   // descriptors or threads a minute
	linesLimit  = 6.0   // lines of log a minute, in a plant where nothing happens; but those of stalls
	noTimeLimit = 300 * time.Millisecond
	crowded     = 0.8 // see outcome.Crowded
)

// outcome is what came of a run.
type outcome struct {
	Seconds             float64
	Hosts, Flows, Paths int
	Verified, Lost, Bad uint64
	LeftOut             uint64
	FirstBad            string
	LostOn              []string
	LongestPause        time.Duration
	LongestSleep        time.Duration // of a witness: the machine gave it no time
	Crowded             float64       // share of the time that some program waited for a processor
	agents              []growth
}

// shortness is by how much the limits of growth are larger in a short run.
func (o *outcome) shortness() float64 { return max(1, 600/max(1, o.Seconds)) }

// take adds what one witness saw.
func (o *outcome) take(name string, seen witness.Seen) {
	o.Verified += seen.Verified
	o.Lost += seen.Lost
	o.Bad += seen.Bad
	o.LeftOut += seen.LeftOut
	o.LongestPause = max(o.LongestPause, seen.LongestPause)
	o.LongestSleep = max(o.LongestSleep, seen.LongestSleep)
	if seen.Lost > 0 {
		o.LostOn = append(o.LostOn, fmt.Sprintf("%s: %d", name, seen.Lost))
	}
	if seen.Bad > 0 && o.FirstBad == "" {
		o.FirstBad = seen.FirstBad
	}
}

// steepest is the largest slope of any agent.
func (o *outcome) steepest(which func(growth) slope) (s slope) {
	for i, g := range o.agents {
		if one := which(g); i == 0 || one.PerMinute > s.PerMinute {
			s = one
		}
	}
	return s
}

func (o *outcome) print(out io.Writer) {
	fmt.Fprintf(out, "\n%-10s %22s %24s %20s %14s %18s %12s\n", "agent", "RSS KiB/min", "descriptors/min", "threads/min", "log lines/min", "their slope", "stalls/min")
	for _, g := range o.agents {
		fmt.Fprintf(out, "%-10s %12.1f ± %7.1f %14.3f ± %7.3f %10.3f ± %7.3f %14.2f %8.2f ± %7.2f %12.1f\n", g.Host, g.RSS.PerMinute, g.RSS.Error,
			g.Descriptors.PerMinute, g.Descriptors.Error, g.Threads.PerMinute, g.Threads.Error, g.LinesPerMinute, g.Lines.PerMinute, g.Lines.Error, g.StallsPerMinute)
	}
	fmt.Fprintf(out, "\nendurance: %.0f s, %d grains and samples verified, %d lost, %d bad; %d left out by writers that were late; longest pause between two grains %.0f ms; processors wanted in vain %.0f %% of the time\n",
		o.Seconds, o.Verified, o.Lost, o.Bad, o.LeftOut, float64(o.LongestPause.Milliseconds()), 100*o.Crowded)
}

// save writes the figures, flat.
func (o *outcome) save(path string) error {
	out := map[string]any{
		"seconds": o.Seconds, "hosts": o.Hosts, "flows": o.Flows, "paths": o.Paths, "verified": o.Verified, "lost": o.Lost, "bad": o.Bad,
		"left_out_by_writers": o.LeftOut, "longest_pause_ms": o.LongestPause.Milliseconds(), "longest_witness_sleep_ms": o.LongestSleep.Milliseconds(),
		"processors_wanted_in_vain": o.Crowded,
		"rss_slope_kib_per_min":     o.steepest(func(g growth) slope { return g.RSS }).PerMinute,
		"rss_slope_error":           o.steepest(func(g growth) slope { return g.RSS }).Error,
		"descriptors_slope_per_min": o.steepest(func(g growth) slope { return g.Descriptors }).PerMinute,
		"threads_slope_per_min":     o.steepest(func(g growth) slope { return g.Threads }).PerMinute,
	}
	var lines float64
	for _, g := range o.agents {
		lines = max(lines, g.LinesPerMinute)
		key := strings.ReplaceAll(g.Host, "-", "_")
		out[key+"_rss_slope_kib_per_min"] = g.RSS.PerMinute
		out[key+"_log_lines_per_min"] = g.LinesPerMinute
		out[key+"_stall_lines_per_min"] = g.StallsPerMinute
	}
	out["log_lines_per_min"] = lines
	_, err := mesh.Report(path, out)
	return err
}

// verdict names everything that is not as it should be.
func (o *outcome) verdict() error {
	var errs []error
	if o.Bad > 0 {
		errs = append(errs, fmt.Errorf("%d bad, first: %s", o.Bad, o.FirstBad))
	}
	if o.Lost > 0 {
		err := fmt.Errorf("lost %s", strings.Join(o.LostOn, ", "))
		if o.LongestSleep > noTimeLimit || o.Crowded > crowded {
			err = fmt.Errorf("%w (the machine gave a reader no time for %d ms, processors were wanted in vain %.0f %% of the time)", err,
				o.LongestSleep.Milliseconds(), 100*o.Crowded)
		}
		errs = append(errs, err)
	}
	if o.Verified == 0 {
		errs = append(errs, errors.New("nothing was verified"))
	}
	short := o.shortness()
	for _, g := range o.agents {
		if g.RSS.grows(rssLimit * short) {
			errs = append(errs, fmt.Errorf("%s grows by %.0f KiB a minute (± %.0f)", g.Host, g.RSS.PerMinute, g.RSS.Error))
		}
		if g.Descriptors.grows(countLimit * short) {
			errs = append(errs, fmt.Errorf("%s opens %.2f descriptors a minute", g.Host, g.Descriptors.PerMinute))
		}
		if g.Threads.grows(countLimit * short) {
			errs = append(errs, fmt.Errorf("%s starts %.2f threads a minute", g.Host, g.Threads.PerMinute))
		}
		if g.LinesPerMinute > linesLimit || g.Lines.grows(linesLimit/10*short) {
			errs = append(errs, fmt.Errorf("%s logs %.1f lines a minute, growing by %.2f", g.Host, g.LinesPerMinute, g.Lines.PerMinute))
		}
	}
	return errors.Join(errs...)
}
