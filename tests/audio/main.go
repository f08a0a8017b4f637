// Command audio measures how 16-channel audio in 1 ms commits and grains committed in
// slices cross a pair of lanes over loopback tcp. One flow goes to two mirrors at once:
// with one transfer in flight at a time, as towards any target, and with pipelining,
// which only targets of our own get. Every sample is verified at both. It writes
// build/results/audio.json. Run it from the top of the tree, after make build.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/mxl-stack/mxl-fabrics-agent/tests/mesh"
)

const resultFile = "build/results/audio.json"

// What the lanes must reach (contract, "Audio timing"; MXL Fabrics reference §6.3).
const (
	passInterval     = 2 * time.Millisecond // AUDIO_PASS_MS
	fewestTransfers  = 200.0                // a second, one at a time
	mostTransfers    = 260.0
	agePlainMS       = 8.0 // 99th percentile
	agePipelinedMS   = 4.0
	lastSliceLimitMS = 1.0 // median
)

func main() {
	duration := flag.Duration("duration", 30*time.Second, "how `long` samples are verified")
	slices := flag.Duration("slices", 10*time.Second, "how `long` grains in slices, and then whole ones, are measured")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *duration, *slices); err != nil {
		fmt.Fprintln(os.Stderr, "audio:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, duration, slices time.Duration) (err error) {
	_ = os.Remove(resultFile) // a run that fails early must not leave an older result
	root, err := os.MkdirTemp("/dev/shm", "mxl-audio-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(root)) }()
	results := map[string]float64{}
	missed := samples(ctx, filepath.Join(root, "samples"), duration, results)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	for _, way := range []struct {
		key     string
		commits int
	}{{"last_slice", 8}, {"whole_grain", 1}} {
		lags, err := grains(ctx, filepath.Join(root, way.key), slices, way.commits)
		if err != nil {
			return errors.Join(missed, err)
		}
		p50, p99 := percentileMS(lags, 50), percentileMS(lags, 99)
		results[way.key+"_p50_ms"], results[way.key+"_p99_ms"] = p50, p99
		fmt.Printf("1080p50 v210 in %d commits a grain: from the last one to the mirror's commit p50 %.3f ms, p99 %.3f ms (%d grains, bytes verified)\n",
			way.commits, p50, p99, len(lags))
	}
	if p := results["last_slice_p50_ms"]; p > lastSliceLimitMS {
		missed = errors.Join(missed, fmt.Errorf("the last slice takes %.3f ms, want at most %.0f", p, lastSliceLimitMS))
	}
	return errors.Join(missed, save(results))
}

func save(results map[string]float64) error {
	for key, v := range results {
		results[key] = math.Round(v*1000) / 1000
	}
	_, err := mesh.Report(resultFile, results)
	return err
}
