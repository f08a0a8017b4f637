// Command soak runs 1080p50 v210 video, 16-channel audio in 1 ms commits and an
// ancillary data flow at once through two agents and verifies every byte at the
// mirrors. It writes build/results/soak.json and fails when anything is lost,
// bad or slow. Run it from the top of the tree, after make build.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/mxl-stack/mxl-fabrics-agent/tests/mesh"
)

const resultFile = "build/results/soak.json"

// stream is one flow of the soak with what is expected of it.
type stream struct {
	mesh.Flow
	unit   string
	rate   float64 // units per second as written
	least  float64 // of the measured rate
	prefix string  // of its keys in soak.json
}

func streams() []stream {
	const studio, sound, captions = "5f4c1d2e-7a3b-4c6d-9e8f-0a1b2c3d4e01", "5f4c1d2e-7a3b-4c6d-9e8f-0a1b2c3d4e02", "5f4c1d2e-7a3b-4c6d-9e8f-0a1b2c3d4e03"
	return []stream{
		{mesh.Flow{Name: "video", DomainID: studio, ID: "0d9f6c3a-2b71-4f5e-8a64-1c2d3e4f5b01", Domain: "studio",
			Options: []string{"--format", "v210", "--rate", "50", "--history-ms", "200"}}, "grains", 50, 49.95, ""},
		{mesh.Flow{Name: "audio", DomainID: sound, ID: "0d9f6c3a-2b71-4f5e-8a64-1c2d3e4f5b02", Domain: "sound",
			Options: []string{"--format", "audio", "--channels", "16", "--batch", "48", "--history-ms", "200"}}, "samples", 48000, 47950, ""},
		{mesh.Flow{Name: "data", DomainID: captions, ID: "0d9f6c3a-2b71-4f5e-8a64-1c2d3e4f5b03", Domain: "captions",
			Options: []string{"--format", "smpte291", "--rate", "50", "--history-ms", "200"}}, "grains", 50, 49.95, "data_"},
	}
}

func main() {
	duration := flag.Duration("duration", time.Minute, "how `long` to verify")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := soak(ctx, *duration); err != nil {
		fmt.Fprintln(os.Stderr, "soak:", err)
		os.Exit(1)
	}
}

func soak(ctx context.Context, duration time.Duration) error {
	_ = os.Remove(resultFile) // a run that fails early must not leave an older result
	all := streams()
	m, err := mesh.New(mesh.Options{Binaries: "build/bin", Logs: "build/soak", Receivers: len(all)})
	if err != nil {
		return err
	}
	defer m.Close()
	fmt.Printf("soak: two agents on loopback tcp, logs in %s\n", m.Logs)
	for _, a := range []*mesh.Agent{m.A, m.B} {
		if err := a.Start(ctx); err != nil {
			return err
		}
	}
	writers := make([]*mesh.Process, len(all))
	readers := make([]*mesh.Process, len(all))
	for i, s := range all {
		if writers[i], err = m.Write(m.A, s.Flow); err != nil {
			return err
		}
		if err := m.Connect(ctx, i, s.Flow); err != nil {
			return err
		}
	}
	for _, s := range all {
		if err := m.Flowing(ctx, s.Flow, 30*time.Second); err != nil {
			return err
		}
	}
	fmt.Printf("soak: %d flows arrive at %s; verifying every byte for %v\n", len(all), m.B.HostID, duration)
	began := time.Now()
	for i, s := range all {
		if readers[i], err = m.Read(m.B, s.Flow, duration); err != nil {
			return err
		}
	}
	if err := watch(ctx, m, all, readers, began, duration); err != nil {
		return err
	}
	return verdict(all, readers, writers, duration)
}

// watch shows progress every five seconds, and errors of a replication when they
// come, until every reader has ended.
func watch(ctx context.Context, m *mesh.Mesh, all []stream, readers []*mesh.Process, began time.Time, duration time.Duration) error {
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	limit := time.NewTimer(duration + 30*time.Second)
	defer limit.Stop()
	shown, errors := began, map[string]uint64{}
	for _, r := range readers {
		for r.Running() {
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-limit.C:
				return fmt.Errorf("%s has not ended %v after its time: nothing arrives", r.Name, 30*time.Second)
			case <-r.Done():
			case now := <-tick.C:
				full := now.Sub(shown) >= 5*time.Second
				line := ""
				for _, s := range all {
					row, err := m.B.Replication(ctx, s.ID)
					switch {
					case err != nil:
						line += fmt.Sprintf("  %s: %v", s.Name, err)
					case full || row.Errors > errors[s.ID]:
						line += fmt.Sprintf("  %s: %s, %d transfers, lag %.1f ms, errors %d %s", s.Name, row.State, row.Grains, row.LagMS, row.Errors, row.LastError)
					}
					errors[s.ID] = row.Errors
				}
				if full {
					shown = now
				}
				if line != "" {
					fmt.Printf("  %5.1f s%s\n", now.Sub(began).Seconds(), line)
				}
			}
		}
	}
	return nil
}

// verdict writes soak.json, prints the result and says what was not as it
// should be.
func verdict(all []stream, readers, writers []*mesh.Process, duration time.Duration) error {
	results := map[string]float64{}
	var failed []string
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
		fmt.Printf("%-6s %9.2f %s/s, %d verified, %d lost, %d bad, %d invalid; %.1f MB compared; age p50 %.2f ms, p99 %.2f ms, max %.2f ms\n",
			s.Name, got.Rate, s.unit, got.Verified, lost, got.Bad, got.Invalid, float64(got.Bytes)/1e6, got.LatencyP50MS, got.LatencyP99MS, got.LatencyMaxMS)
		if written.LateSkipped > 0 {
			fmt.Printf("       the writer itself was late and left %d indexes out\n", written.LateSkipped)
		}
		results[s.prefix+s.unit+"_per_s"] = got.Rate
		results[s.prefix+s.unit+"_lost"] = float64(lost)
		results[s.prefix+"bad_"+s.unit] = float64(got.Bad + got.Invalid)
		results[s.Name+"_left_out_by_writer"] = float64(written.LateSkipped)
		results[s.Name+"_age_p50_ms"], results[s.Name+"_age_p99_ms"] = got.LatencyP50MS, got.LatencyP99MS
		if i == 0 {
			results["seconds"] = got.Seconds
		}
		results["seconds"] = min(results["seconds"], got.Seconds)
		switch {
		case got.Bad > 0:
			failed = append(failed, fmt.Sprintf("%s: bad: %s", s.Name, got.FirstBad))
		case got.Invalid > 0, lost > 0, got.Rate < s.least, got.Seconds < duration.Seconds()-1:
			failed = append(failed, fmt.Sprintf("%s: %d lost, %d invalid, %.2f %s/s (want %.0f), %.1f s", s.Name, lost, got.Invalid, got.Rate, s.unit, s.rate, got.Seconds))
		}
	}
	if err := save(results); err != nil {
		return err
	}
	if len(failed) > 0 {
		return fmt.Errorf("not as it should be: %q", failed)
	}
	fmt.Println("soak: every grain and every sample arrived and was right")
	return nil
}

func save(results map[string]float64) error {
	_, err := mesh.Report(resultFile, results)
	return err
}
