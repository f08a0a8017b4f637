package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

var header = fmt.Sprintf("%-24s %-30s %12s %8s %8s %9s  %s", "package", "target", "inputs", "new", "seconds", "peak MiB", "end")

// row is one line of the table, with what a failed run printed below it.
func (r *result) row() string {
	line := fmt.Sprintf("%-24s %-30s %12d %8d %8.1f %9d  %s", r.dir, r.name, r.execs, r.found, r.seconds, r.peakMiB, r.end)
	if r.end != endGood {
		line += "\n    " + strings.ReplaceAll(strings.TrimSpace(r.output), "\n", "\n    ")
	}
	return line
}

// report writes the figures and says what failed.
func report(results []result, each time.Duration) error {
	figures := map[string]any{"targets": len(results), "seconds_per_target": each.Seconds()}
	var failed []string
	inputs, peak := 0, 0
	for i := range results {
		r := &results[i]
		inputs += r.execs
		peak = max(peak, r.peakMiB)
		name := strings.ReplaceAll(r.dir, "/", "_") + "_" + r.name
		figures[name+"_inputs"], figures[name+"_peak_mib"] = r.execs, r.peakMiB
		if r.end != endGood {
			failed = append(failed, r.dir+" "+r.name+" ("+r.end+")")
		}
	}
	figures["failed"], figures["inputs"], figures["peak_mib"] = len(failed), inputs, peak
	text, err := json.MarshalIndent(figures, "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(resultFile), 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(resultFile, append(text, '\n'), 0o644); err != nil {
		return err
	}
	fmt.Printf("\n%d targets, %d inputs, peak %d MiB, %d failed; %s\n", len(results), inputs, peak, len(failed), resultFile)
	if len(failed) > 0 {
		return fmt.Errorf("failed: %s", strings.Join(failed, ", "))
	}
	return nil
}
