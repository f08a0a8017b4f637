// Command endurance runs three hosts with twelve flows on fifteen paths for a
// long time, verifies everything that arrives, and watches every agent: memory by
// kind, goroutines, descriptors, threads and lines of log. It writes
// build/results/endurance.json and endurance.svg, and fails when anything was
// lost or wrong or something grows. It takes root. Run it from the top of the
// tree, after make build.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/mxl-stack/mxl-fabrics-agent/tests/plant"
	"github.com/mxl-stack/mxl-fabrics-agent/tests/studio"
	"github.com/mxl-stack/mxl-fabrics-agent/tests/witness"
)

const (
	resultFile = "build/results/endurance.json"
	plotFile   = "build/results/endurance.svg"
)

func main() {
	duration := flag.Duration("duration", 10*time.Minute, "how `long` to look")
	binaries := flag.String("bin", "build/bin", "`directory` of the built programs")
	logs := flag.String("logs", "build/endurance", "`directory` for logs")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	switch err := endure(ctx, *binaries, *logs, *duration); {
	case errors.Is(err, plant.ErrNotRoot):
		fmt.Fprintln(os.Stderr, "endurance: not run:", err)
		os.Exit(1)
	case err != nil:
		fmt.Fprintln(os.Stderr, "endurance:", err)
		os.Exit(1)
	}
}

func endure(ctx context.Context, binaries, logs string, duration time.Duration) (err error) {
	_ = os.Remove(resultFile) // a run that fails early must not leave an older result
	s, err := studio.Open(ctx, studio.Options{Binaries: binaries, Logs: logs})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	w, warming := newWatch(s, duration), warmUpFor(duration)
	fmt.Printf("endurance: three hosts, %d flows on %d paths, for %v after %v to warm up, logs in %s\n", len(s.Flows), len(s.Paths()), duration, warming, logs)
	if err := w.warmUp(ctx, warming); err != nil {
		return err
	}
	marks := map[*studio.Path]witness.Seen{}
	for _, p := range s.Paths() {
		marks[p] = p.Mark()
	}
	began, waited := time.Now(), studio.Pressure()
	if err := w.run(ctx, duration, marks); err != nil {
		return err
	}
	o := outcome{Seconds: time.Since(began).Seconds(), Hosts: len(s.Hosts), Flows: len(s.Flows), Paths: len(s.Paths())}
	o.Crowded = float64(studio.Pressure()-waited) / float64(time.Since(began))
	for _, p := range s.Paths() {
		o.take(p.Name, p.Since(marks[p]))
	}
	for _, h := range s.Hosts {
		if !h.Running() {
			return fmt.Errorf("the agent of %s ended with code %d, see %s", h.HostID, h.ExitCode(), h.Log)
		}
		o.agents = append(o.agents, growthOf(h.HostID, w.history[h], w.settled))
	}
	o.print(os.Stdout)
	if err := o.save(resultFile); err != nil {
		return err
	}
	if err := drawAll(plotFile, s.Hosts, w); err != nil {
		return err
	}
	return o.verdict()
}
