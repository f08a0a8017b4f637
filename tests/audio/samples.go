package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"github.com/google/uuid"

	"github.com/mxl-stack/mxl-fabrics-agent/fabrics"
	"github.com/mxl-stack/mxl-fabrics-agent/mxl"
	"github.com/mxl-stack/mxl-fabrics-agent/tests/mesh"
)

// pattern runs mxl-pattern; its JSON result is decoded by end.
func pattern(ctx context.Context, args ...string) (*exec.Cmd, *bytes.Buffer, error) {
	cmd, out := exec.CommandContext(ctx, "build/bin/mxl-pattern", args...), &bytes.Buffer{}
	cmd.Stdout, cmd.Stderr = out, os.Stderr
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	return cmd, out, cmd.Start()
}

func end[T any](cmd *exec.Cmd, out *bytes.Buffer) (result T, err error) {
	failed := cmd.Wait()
	if err := json.Unmarshal(out.Bytes(), &result); err != nil {
		return result, errors.Join(failed, err)
	}
	return result, nil // what the program found wrong is in the result
}

// samples runs the audio flow into two mirrors and fills in the results. The error
// says what was missed.
func samples(ctx context.Context, root string, duration time.Duration, results map[string]float64) (missed error) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	id := uuid.New()
	origin, err := openDomain(filepath.Join(root, "origin"))
	if err != nil {
		return err
	}
	writer, wrote, err := pattern(ctx, "write", "--json", "--format", "audio", "--channels", "16", "--batch", "48",
		"--flow-id", id.String(), origin.Path())
	if err != nil {
		return err
	}
	ended := false
	defer func() {
		if !ended {
			stop()
			_ = writer.Wait() // it was told to
		}
	}()
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		if active, err := origin.IsActive(id); err == nil && active {
			break
		} else if time.Now().After(deadline) {
			return fmt.Errorf("the writer made no flow: %w", err)
		}
	}
	var ways [2]way
	for i := range ways {
		w := &ways[i]
		w.name, w.suffix = "one at a time", ""
		if i == 1 {
			w.name, w.suffix = "pipelined", "_pipelined"
		}
		mirror, err := openDomain(filepath.Join(root, "mirror"+w.suffix))
		if err != nil {
			return err
		}
		if w.pair, err = openPair(origin, mirror, id, i == 1); err != nil {
			return err
		}
		defer func() { missed = errors.Join(missed, w.pair.close()) }()
		if err := w.begin(ctx, mirror, id, duration); err != nil {
			return err
		}
	}
	var got [2]mesh.Totals
	for i := range ways {
		if got[i], err = ways[i].end(results); err != nil {
			return err
		}
	}
	_ = writer.Process.Signal(syscall.SIGTERM)
	written, err := end[mesh.Written](writer, wrote)
	ended = true
	if err != nil {
		return err
	}
	for i, w := range ways {
		lost := float64(got[i].LostInTransit(written) + got[i].Bad)
		results["samples_lost"+w.suffix] = lost
		rate, age := results["transfers_per_s"+w.suffix], results["age_p99_ms"+w.suffix]
		fmt.Printf("audio, 16 channels, 1 ms commits, %s: %.0f s, %d samples verified, %.0f lost; %.1f transfers/s; delivered age p50 %.2f ms, p99 %.2f ms\n",
			w.name, got[i].Seconds, got[i].Verified, lost, rate, results["age_p50_ms"+w.suffix], age)
		limit := agePlainMS
		if i == 1 {
			limit = agePipelinedMS
		} else if rate < fewestTransfers || rate > mostTransfers {
			missed = errors.Join(missed, fmt.Errorf("%s: %.1f transfers a second, want %.0f to %.0f", w.name, rate, fewestTransfers, mostTransfers))
		}
		if lost > 0 || age > limit {
			missed = errors.Join(missed, fmt.Errorf("%s: %.0f samples lost (%s), age p99 %.2f ms, want at most %.0f", w.name, lost, got[i].FirstBad, age, limit))
		}
	}
	results["seconds"] = min(got[0].Seconds, got[1].Seconds)
	results["samples_left_out_by_writer"] = float64(written.LateSkipped)
	return missed
}

// way is one of the two mirrors.
type way struct {
	name, suffix string
	pair         *pair
	reader       *exec.Cmd
	read         *bytes.Buffer
	before       fabrics.TargetStats
	began        time.Time
}

func (w *way) begin(ctx context.Context, mirror *mxl.Domain, id uuid.UUID, duration time.Duration) (err error) {
	w.reader, w.read, err = pattern(ctx, "read", "--json", "--wait", "20s", "--duration", duration.String(), mirror.Path(), id.String())
	w.before, w.began = w.pair.target.Stats(), time.Now()
	return err
}

// end waits for the reader and says what the lanes counted meanwhile.
func (w *way) end(results map[string]float64) (mesh.Totals, error) {
	totals, err := end[mesh.Totals](w.reader, w.read)
	st, took := w.pair.target.Stats(), time.Since(w.began)
	results["transfers_per_s"+w.suffix] = float64(st.Grains-w.before.Grains) / took.Seconds()
	ages := since(st.Timing.AgeDelivered, w.before.Timing.AgeDelivered)
	results["age_p50_ms"+w.suffix], results["age_p99_ms"+w.suffix] = quantileMS(ages, 0.5), quantileMS(ages, 0.99)
	results["late_deliveries"+w.suffix] = float64(st.Timing.LateDeliveries - w.before.Timing.LateDeliveries)
	return totals, err
}
