package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
)

// result is what the repetitions of one scenario came to.
type result struct {
	Scenario string
	About    string
	Limit    time.Duration // of the worst recovery; 0: none
	Runs     int
	Recovery []time.Duration // of the runs that recovered

	Untouched     int    // paths that the fault must not touch
	Verified      uint64 // on all paths, grains and samples
	LostUntouched uint64
	LongestPause  time.Duration // on an untouched path of grains
	Missed        uint64        // on touched paths, from the fault to the recovery
	LostAfter     uint64        // on touched paths, after the recovery
	LeftOut       uint64        // by late writers
	Bad           uint64
	Noticed       time.Duration // from a link's end to link_down in the API, the longest
	Repeated      int           // runs that were thrown away, see stoodStill
	StoodStill    time.Duration // the longest time without a look in those
	Crowded       float64       // the largest share of the time that somebody waited for a processor in those
	Notes         []string      // how scenarios say what they saw
	Failures      []string
}

func (r *result) fail(format string, args ...any) {
	r.Failures = append(r.Failures, fmt.Sprintf(format, args...))
}

// judge adds the failure of a limit. It is called once for every run.
func (r *result) judge() {
	if worst := r.worst(); r.Limit > 0 && worst > r.Limit {
		r.fail("recovery took %.0f ms, the limit is %.0f", ms(worst), ms(r.Limit))
	}
}

// add takes one run's result in.
func (r *result) add(one *result) {
	r.Runs += one.Runs
	r.Recovery = append(r.Recovery, one.Recovery...)
	r.Untouched = max(r.Untouched, one.Untouched)
	r.Verified += one.Verified
	r.LostUntouched += one.LostUntouched
	r.LongestPause = max(r.LongestPause, one.LongestPause)
	r.Missed += one.Missed
	r.LostAfter += one.LostAfter
	r.LeftOut += one.LeftOut
	r.Bad += one.Bad
	r.Noticed = max(r.Noticed, one.Noticed)
	for _, note := range one.Notes {
		if !slices.Contains(r.Notes, note) {
			r.Notes = append(r.Notes, note)
		}
	}
	r.Failures = append(r.Failures, one.Failures...)
}

func (r *result) p50() time.Duration {
	if len(r.Recovery) == 0 {
		return 0
	}
	return slices.Sorted(slices.Values(r.Recovery))[len(r.Recovery)/2]
}

func (r *result) worst() time.Duration {
	if len(r.Recovery) == 0 {
		return 0
	}
	return slices.Max(r.Recovery)
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// figures is build/results/faults.json: flat, one pair of keys a scenario.
func figures(all []*result) map[string]any {
	out := map[string]any{"scenarios": len(all)}
	var failed int
	var lost, bad, verified uint64
	var failures []string
	for _, r := range all {
		if len(r.Failures) > 0 {
			failed++
			failures = append(failures, r.Scenario+": "+r.Failures[0])
		}
		lost += r.LostUntouched
		bad += r.Bad
		verified += r.Verified
		if len(r.Recovery) > 0 {
			out[r.Scenario+"_recovery_p50_ms"] = ms(r.p50())
			out[r.Scenario+"_recovery_worst_ms"] = ms(r.worst())
		}
		out[r.Scenario+"_runs"] = r.Runs
		if r.Noticed > 0 {
			out[r.Scenario+"_noticed_worst_ms"] = ms(r.Noticed)
		}
	}
	var repeated int
	for _, r := range all {
		repeated += r.Repeated
	}
	out["repeated_because_the_machine_had_no_time"] = repeated
	out["failed"], out["lost_on_untouched_flows"], out["bad"], out["verified"] = failed, lost, bad, verified
	if failures != nil {
		out["failures"] = failures
	}
	return out
}

// table prints all results, the way an operator reads them.
func table(out io.Writer, all []*result) {
	fmt.Fprintf(out, "\n%-28s %4s %9s %9s %7s %9s %6s %8s %7s  %s\n", "scenario", "runs", "p50 ms", "worst ms", "limit", "untouched", "lost", "pause ms", "missed", "")
	for _, r := range all {
		p50, worst, limit := "-", "-", "-"
		if len(r.Recovery) > 0 {
			p50, worst = fmt.Sprintf("%.0f", ms(r.p50())), fmt.Sprintf("%.0f", ms(r.worst()))
		}
		if r.Limit > 0 {
			limit = fmt.Sprintf("%.0f", ms(r.Limit))
		}
		verdict := "ok"
		if len(r.Failures) > 0 {
			verdict = "FAILED: " + r.Failures[0]
		} else if notes := r.notes(); len(notes) > 0 {
			verdict += ": " + strings.Join(notes, "; ")
		}
		fmt.Fprintf(out, "%-28s %4d %9s %9s %7s %9d %6d %8.0f %7d  %s\n", r.Scenario, r.Runs, p50, worst, limit, r.Untouched, r.LostUntouched,
			ms(r.LongestPause), r.Missed, verdict)
	}
	fmt.Fprintln(out, `
recovery: from the moment the cause was over (the process started again or continued, the cable up, the file removed) to
the first verified grain on the last of the paths the fault touches. untouched, lost, pause: how many paths the fault must
not touch, what was lost on them, the longest time between two grains there. missed: grains that the touched paths went
without during the fault.`)
}

// notes is what the table says beside the figures.
func (r *result) notes() []string {
	notes := slices.Clone(r.Notes)
	if r.Noticed > 0 {
		notes = append(notes, fmt.Sprintf("link_down after %.0f ms", ms(r.Noticed)))
	}
	if r.Repeated > 0 {
		notes = append(notes, fmt.Sprintf("%d failed runs repeated: no time for up to %.0f ms, processors wanted in vain %.0f %% of the time", r.Repeated, ms(r.StoodStill), 100*r.Crowded))
	}
	return notes
}

// verdict is nil when every scenario is as it should be.
func verdict(all []*result) error {
	var failed []string
	for _, r := range all {
		if len(r.Failures) > 0 {
			failed = append(failed, r.Scenario)
		}
	}
	if len(failed) > 0 {
		return fmt.Errorf("%d of %d scenarios failed: %s", len(failed), len(all), strings.Join(failed, ", "))
	}
	return nil
}
