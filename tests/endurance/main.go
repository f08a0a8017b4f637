// Command endurance runs three hosts with twelve flows on fifteen paths for a
// long time, verifies everything that arrives, and watches every agent: resident
// memory, descriptors, threads and lines of log. It writes
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
	if err := warmUp(ctx, s, min(max(duration/5, warmUpLeast), warmUpMost)); err != nil {
		return err
	}
	fmt.Printf("endurance: three hosts, %d flows on %d paths, for %v, logs in %s\n", len(s.Flows), len(s.Paths()), duration, logs)
	marks := map[*studio.Path]witness.Seen{}
	for _, p := range s.Paths() {
		marks[p] = p.Mark()
	}
	began, waited := time.Now(), studio.Pressure()
	history, err := watch(ctx, s, marks, duration)
	if err != nil {
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
		o.agents = append(o.agents, growthOf(h.HostID, history[h]))
	}
	o.print(os.Stdout)
	if err := o.save(resultFile); err != nil {
		return err
	}
	if err := drawAll(plotFile, s.Hosts, history); err != nil {
		return err
	}
	return o.verdict()
}

// The time before the first look: pools fill, rings are touched once, and the
// runtime takes minutes to find its heap's size.
const (
	warmUpLeast = 20 * time.Second
	warmUpMost  = 2 * time.Minute
)

// warmUp lets everything run for a while.
func warmUp(ctx context.Context, s *studio.Studio, d time.Duration) error {
	select {
	case <-time.After(d):
		return s.Steady(ctx, 30*time.Second)
	case <-ctx.Done():
		return ctx.Err()
	}
}

// watch looks at every agent until the time is over.
func watch(ctx context.Context, s *studio.Studio, marks map[*studio.Path]witness.Seen, duration time.Duration) (map[*plant.Host][]look, error) {
	history := map[*plant.Host][]look{}
	every := max(time.Second, min(10*time.Second, duration/60))
	tick := time.NewTicker(every)
	defer tick.Stop()
	began := time.Now()
	shown := began
	for {
		now := time.Now()
		for _, h := range s.Hosts {
			l, err := lookAt(h.PID(), h.Output())
			if err != nil {
				return nil, fmt.Errorf("agent of %s: %w", h.HostID, err)
			}
			l.at = now.Sub(began)
			history[h] = append(history[h], l)
		}
		if now.Sub(shown) >= 30*time.Second || now.Sub(began) >= duration {
			shown = now
			var seen outcome
			for _, p := range s.Paths() {
				seen.take(p.Name, p.Since(marks[p]))
			}
			fmt.Printf("  %5.0f s  %d verified, %d lost, %d bad", now.Sub(began).Seconds(), seen.Verified, seen.Lost, seen.Bad)
			for _, h := range s.Hosts {
				l := history[h][len(history[h])-1]
				fmt.Printf("   %s %.1f MiB, %.0f fds, %.0f threads, %.0f lines", h.HostID, l.rss/1024, l.descriptors, l.threads, l.lines)
			}
			fmt.Println()
		}
		if now.Sub(began) >= duration {
			return history, nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}
