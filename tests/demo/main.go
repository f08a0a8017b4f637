// Command demo shows on one machine what the agent does: two agents on loopback
// tcp, a video and an audio flow written on the first host, an NMOS controller
// that connects two receivers on the second host to them, and readers there that
// verify every byte. It ends by itself and succeeds only when everything was
// right. Run it from the top of the tree, after make build.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/mxl-stack/mxl-fabrics-agent/tests/mesh"
)

const (
	verifying = 20 * time.Second // how long every byte is verified
	patience  = 75 * time.Second // the demo's own end, whatever happens
)

func flows() []show {
	return []show{
		{mesh.Flow{Name: "video", DomainID: "5f4c1d2e-7a3b-4c6d-9e8f-0a1b2c3d4e01", ID: "0d9f6c3a-2b71-4f5e-8a64-1c2d3e4f5c01", Domain: "studio",
			Options: []string{"--format", "v210", "--width", "1280", "--height", "720", "--rate", "25", "--history-ms", "1000"}}, "720p25 v210 video", "grains"},
		{mesh.Flow{Name: "audio", DomainID: "5f4c1d2e-7a3b-4c6d-9e8f-0a1b2c3d4e02", ID: "0d9f6c3a-2b71-4f5e-8a64-1c2d3e4f5c02", Domain: "sound",
			Options: []string{"--format", "audio", "--channels", "16", "--batch", "48", "--history-ms", "1000"}}, "16 channels of 48 kHz audio", "samples"},
	}
}

// show is a flow of the demo in words.
type show struct {
	mesh.Flow
	what, unit string
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if err := demo(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "demo: failed:", err)
		os.Exit(1)
	}
}

func demo(ctx context.Context) error {
	began := time.Now()
	all := flows()
	m, err := mesh.New(mesh.Options{Binaries: "build/bin", Logs: "build/demo", Receivers: len(all), Environment: map[string]string{
		"SCAN_INTERVAL_MS": "500", "PEER_POLL_INTERVAL_MS": "500", "NMOS_POLL_INTERVAL_MS": "500",
	}})
	if err != nil {
		return err
	}
	defer m.Close()
	fmt.Printf("Two hosts on one machine: %s and %s, each with its own MXL root in %s.\n", m.A.HostID, m.B.HostID, m.Shm)
	fmt.Println("An agent runs on each; both are registered with an NMOS registry.")
	for _, a := range []*mesh.Agent{m.A, m.B} {
		if err := a.Start(ctx); err != nil {
			return err
		}
	}
	var writers []*mesh.Process
	for _, s := range all {
		writer, err := m.Write(m.A, s.Flow)
		if err != nil {
			return err
		}
		writers = append(writers, writer)
		fmt.Printf("A media function on %s writes %s.\n", m.A.HostID, s.what)
	}
	for i, s := range all {
		if err := m.Connect(ctx, i, s.Flow); err != nil {
			return err
		}
	}
	fmt.Printf("A controller activates two receivers on %s over IS-05; the agent there fetches the flows.\n", m.B.HostID)
	for _, s := range all {
		if err := m.Flowing(ctx, s.Flow, 30*time.Second); err != nil {
			return err
		}
	}
	var readers []*mesh.Process
	for _, s := range all {
		reader, err := m.Read(m.B, s.Flow, verifying)
		if err != nil {
			return err
		}
		readers = append(readers, reader)
	}
	fmt.Printf("Readers on %s compare every byte of the mirrors with what was written, for %v:\n\n", m.B.HostID, verifying)
	if err := watch(ctx, m, all, readers); err != nil {
		return err
	}
	if err := report(all, readers, writers); err != nil {
		return err
	}
	fmt.Printf("\nEverything arrived and was right, after %.0f s. Logs are in %s.\n", time.Since(began).Seconds(), m.Logs)
	return nil
}

// watch shows a line per flow that changes in place on a terminal, and every few
// seconds elsewhere, until every reader has ended.
func watch(ctx context.Context, m *mesh.Mesh, all []show, readers []*mesh.Process) error {
	terminal := false
	if info, err := os.Stdout.Stat(); err == nil {
		terminal = info.Mode()&os.ModeCharDevice != 0
	}
	interval := 5 * time.Second
	if terminal {
		interval = 500 * time.Millisecond
	}
	tick := time.NewTicker(interval)
	defer tick.Stop()
	drawn := false
	for _, r := range readers {
		for r.Running() {
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-r.Done():
			case <-tick.C:
				if terminal && drawn {
					fmt.Printf("\x1b[%dA", len(all)) // back to the first of the lines
				}
				drawn = true
				for _, s := range all {
					fmt.Printf("%s%s\n", line(ctx, m, s), map[bool]string{true: "\x1b[K"}[terminal])
				}
			}
		}
	}
	return nil
}

func line(ctx context.Context, m *mesh.Mesh, s show) string {
	row, err := m.B.Replication(ctx, s.ID)
	if err != nil {
		return fmt.Sprintf("  %-6s %v", s.Name, err)
	}
	return fmt.Sprintf("  %-6s %-7s %6d transfers, %9.1f MB moved, head index %d, %5.1f ms behind now", s.Name, row.State, row.Grains,
		float64(row.Bytes)/1e6, row.HeadIndex, row.LagMS)
}

// report prints what the readers found; an error when anything was not right.
func report(all []show, readers, writers []*mesh.Process) error {
	var failed []error
	fmt.Println()
	for i, s := range all {
		got, err := mesh.Result[mesh.Totals](readers[i])
		if err != nil {
			return err
		}
		writers[i].Stop(10 * time.Second)
		written, err := mesh.Result[mesh.Written](writers[i])
		if err != nil {
			return err
		}
		lost := got.LostInTransit(written)
		fmt.Printf("  %-6s %d %s in %.1f s (%.2f a second), %.1f MB verified; lost %d, bad %d; age on arrival %.1f ms (p50), %.1f ms (p99)\n",
			s.Name, got.Verified, s.unit, got.Seconds, got.Rate, float64(got.Bytes)/1e6, lost, got.Bad+got.Invalid, got.LatencyP50MS, got.LatencyP99MS)
		if written.LateSkipped > 0 {
			fmt.Printf("         (this machine was too busy for the writer, which left %d of its %s out)\n", written.LateSkipped, s.unit)
		}
		if lost > 0 || got.Bad > 0 || got.Invalid > 0 || got.Verified == 0 {
			failed = append(failed, fmt.Errorf("%s: %d %s verified, %d lost, %d invalid, %d bad %s", s.Name, got.Verified, s.unit, lost, got.Invalid, got.Bad, got.FirstBad))
		}
	}
	return errors.Join(failed...)
}
