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

const (
	linesLimit  = 6.0 // lines of log a minute, in a plant where nothing happens; but those of stalls
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

// shortness is by how much the limits of growth are larger in a run shorter than ten
// minutes: it may grow by as much in all as one of ten minutes.
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

// steepest is the largest slope of a figure of any agent.
func (o *outcome) steepest(figure int) (s slope) {
	for i, g := range o.agents {
		if one := g.Slopes[figure]; i == 0 || one.PerMinute > s.PerMinute {
			s = one
		}
	}
	return s
}

// print shows the slopes as a table. Least is the slope that would hardly be missed.
func (o *outcome) print(out io.Writer) {
	fmt.Fprintf(out, "\n%-28s", "growth a minute")
	for _, g := range o.agents {
		fmt.Fprintf(out, " %20s", g.Host)
	}
	fmt.Fprintf(out, " %10s %10s\n", "limit", "least")
	for i, f := range figures {
		name := f.name
		if f.unit != "" {
			name += ", " + f.unit
		}
		fmt.Fprintf(out, "%-28s", name)
		var least float64
		for _, g := range o.agents {
			fmt.Fprintf(out, " %10.2f ± %7.2f", g.Slopes[i].PerMinute, g.Slopes[i].Error)
			least = max(least, g.Slopes[i].least(f.limit*o.shortness()))
		}
		if f.limit > 0 {
			fmt.Fprintf(out, " %10.1f %10.1f\n", f.limit*o.shortness(), least)
		} else {
			fmt.Fprintf(out, " %10s %10s\n", "-", "-")
		}
	}
	fmt.Fprintf(out, "%-28s", "lines of log; of stalls")
	for _, g := range o.agents {
		fmt.Fprintf(out, " %11.1f; %7.1f", g.LinesPerMinute, g.StallsPerMinute)
	}
	fmt.Fprintf(out, " %10.1f\n", linesLimit)
	fmt.Fprintf(out, "\nendurance: %.0f s, %d grains and samples verified, %d lost, %d bad; %d left out by writers that were late; longest pause between two grains %.0f ms; processors wanted in vain %.0f %% of the time\n",
		o.Seconds, o.Verified, o.Lost, o.Bad, o.LeftOut, float64(o.LongestPause.Milliseconds()), 100*o.Crowded)
}

// leastSeen is the growth of anonymous memory without stacks, KiB a minute, that would hardly have
// been missed in any agent.
func (o *outcome) leastSeen() (least float64) {
	for i, f := range figures {
		for _, g := range o.agents {
			if f.key == "anon_but_stacks" {
				least = max(least, g.Slopes[i].least(f.limit*o.shortness()))
			}
		}
	}
	return least
}

// save writes the figures, flat.
func (o *outcome) save(path string) error {
	out := map[string]any{
		"seconds": o.Seconds, "hosts": o.Hosts, "flows": o.Flows, "paths": o.Paths, "verified": o.Verified, "lost": o.Lost, "bad": o.Bad,
		"left_out_by_writers": o.LeftOut, "longest_pause_ms": o.LongestPause.Milliseconds(), "longest_witness_sleep_ms": o.LongestSleep.Milliseconds(),
		"processors_wanted_in_vain": o.Crowded, "anon_least_leak_seen_kib_per_min": o.leastSeen(),
	}
	for i, f := range figures {
		steepest, unit := o.steepest(i), ""
		if f.unit != "" {
			unit = "_" + strings.ToLower(f.unit)
		}
		key := f.key + "_slope" + unit + "_per_min"
		out[key], out[f.key+"_slope_error"] = steepest.PerMinute, steepest.Error
		for _, g := range o.agents {
			host := strings.ReplaceAll(g.Host, "-", "_")
			out[host+"_"+key], out[host+"_"+f.key+"_slope_error"] = g.Slopes[i].PerMinute, g.Slopes[i].Error
		}
	}
	var lines float64
	for _, g := range o.agents {
		lines = max(lines, g.LinesPerMinute)
		host := strings.ReplaceAll(g.Host, "-", "_")
		out[host+"_stacks_kib"], out[host+"_stacks_ceiling_kib"] = g.Stacks, g.Ceiling
		out[host+"_log_lines_per_min"] = g.LinesPerMinute
		out[host+"_stall_lines_per_min"] = g.StallsPerMinute
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
		for i, f := range figures {
			if f.limit > 0 && g.Slopes[i].grows(f.limit*short) {
				errs = append(errs, fmt.Errorf("%s: %s grows by %.2f %s a minute (± %.2f)", g.Host, f.name, g.Slopes[i].PerMinute, f.unit, g.Slopes[i].Error))
			}
		}
		if g.Stacks > g.Ceiling {
			errs = append(errs, fmt.Errorf("%s has %.0f KiB of stacks, its goroutines and processors account for %.0f", g.Host, g.Stacks, g.Ceiling))
		}
		if g.LinesPerMinute > linesLimit || g.Lines.grows(linesLimit/10*short) {
			errs = append(errs, fmt.Errorf("%s logs %.1f lines a minute, growing by %.2f", g.Host, g.LinesPerMinute, g.Lines.PerMinute))
		}
	}
	return errors.Join(errs...)
}
