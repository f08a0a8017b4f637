// Command activation measures the time from an IS-05 activation on the
// destination host to the first new grain that can be read there, over switches
// of one receiver between two flows whose mirrors exist already: once with Query
// API subscriptions and once with a registry that refuses them. It writes
// build/results/activation.json and a plot of the distributions, and fails when
// a limit is not kept. Run it from the top of the tree, after make build.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/mxl-stack/mxl-fabrics-agent/tests/mesh"
	"github.com/mxl-stack/mxl-fabrics-agent/tests/nmosstandin"
)

const results = "build/results"

// The limits of the measurement, for NMOS_POLL_INTERVAL_MS=1000.
const (
	limitP50     = 300 * time.Millisecond
	limitP99     = time.Second
	limitPollP99 = 1600 * time.Millisecond
)

func main() {
	switches := flag.Int("switches", 50, "`number` of switches of each run")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := measure(ctx, *switches); err != nil {
		fmt.Fprintln(os.Stderr, "activation:", err)
		os.Exit(1)
	}
}

func measure(ctx context.Context, switches int) error {
	followed, err := run(ctx, "subscriptions", switches, nmosstandin.Faults{})
	if err != nil {
		return err
	}
	polled, err := run(ctx, "polling only", switches, nmosstandin.Faults{RefuseSubscriptions: http.StatusNotImplemented})
	if err != nil {
		return err
	}
	if err := os.MkdirAll(results, 0o755); err != nil {
		return err
	}
	p50, p99, pollP99 := quantile(followed, 0.5), quantile(followed, 0.99), quantile(polled, 0.99)
	text, err := json.MarshalIndent(map[string]float64{"p50_ms": ms(p50), "p99_ms": ms(p99),
		"poll_only_p50_ms": ms(quantile(polled, 0.5)), "poll_only_p99_ms": ms(pollP99), "switches": float64(switches)}, "", "  ")
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(results, "activation.json"), append(text, '\n'), 0o644); err != nil {
		return err
	}
	if err := draw(filepath.Join(results, "activation.svg"), followed, polled); err != nil {
		return err
	}
	fmt.Printf("activation to first readable grain, %d switches: p50 %.0f ms (limit %.0f), p99 %.0f ms (limit %.0f); polling only: p99 %.0f ms (limit %.0f)\n",
		switches, ms(p50), ms(limitP50), ms(p99), ms(limitP99), ms(pollP99), ms(limitPollP99))
	if p50 > limitP50 || p99 > limitP99 || pollP99 > limitPollP99 {
		return fmt.Errorf("a limit is not kept")
	}
	return nil
}

func flows() []mesh.Flow {
	const domain = "5f4c1d2e-7a3b-4c6d-9e8f-0a1b2c3d4e01"
	options := []string{"--format", "v210", "--width", "640", "--height", "360", "--rate", "50", "--history-ms", "200"}
	return []mesh.Flow{
		{Name: "one", DomainID: domain, ID: "0d9f6c3a-2b71-4f5e-8a64-1c2d3e4f5d01", Domain: "studio", Options: options},
		{Name: "two", DomainID: domain, ID: "0d9f6c3a-2b71-4f5e-8a64-1c2d3e4f5d02", Domain: "studio", Options: options},
	}
}

// run is one measurement in a mesh of its own; the times are sorted.
func run(ctx context.Context, name string, switches int, faults nmosstandin.Faults) ([]time.Duration, error) {
	all := flows()
	m, err := mesh.New(mesh.Options{Binaries: "build/bin", Logs: filepath.Join("build/activation", name), Receivers: 1, Environment: map[string]string{
		"NMOS_POLL_INTERVAL_MS": "1000", "RELEASE_GRACE_MS": "300", "PEER_POLL_INTERVAL_MS": "500", "SCAN_INTERVAL_MS": "500",
	}})
	if err != nil {
		return nil, err
	}
	defer m.Close()
	if err := m.NMOS.SetFaults(faults); err != nil {
		return nil, err
	}
	for _, a := range []*mesh.Agent{m.A, m.B} {
		if err := a.Start(ctx); err != nil {
			return nil, err
		}
	}
	for _, f := range all {
		if _, err := m.Write(m.A, f); err != nil {
			return nil, err
		}
	}
	for _, f := range all {
		if err := m.Mirrored(ctx, f, 20*time.Second); err != nil {
			return nil, err
		}
	}
	var times []time.Duration
	for i := range switches {
		f := all[i%len(all)]
		if err := released(ctx, m, f); err != nil {
			return nil, err
		}
		took, err := activate(ctx, m, f)
		if err != nil {
			return nil, fmt.Errorf("switch %d: %w", i+1, err)
		}
		times = append(times, took)
		if (i+1)%10 == 0 {
			fmt.Printf("  %s: %d of %d switches\n", name, i+1, switches)
		}
	}
	slices.Sort(times)
	return times, nil
}

// released waits until nothing feeds the flow's mirror any more: the next
// activation has to start it anew. The wait also spreads the switches over the
// poll interval.
func released(ctx context.Context, m *mesh.Mesh, f mesh.Flow) error {
	return mesh.Eventually(ctx, 20*time.Second, "flow "+f.Name+" is released", func() error {
		rows, err := m.B.Replications(ctx)
		if err != nil {
			return err
		}
		for _, row := range rows {
			if row.FlowID == f.ID {
				return fmt.Errorf("it is still %s", row.State)
			}
		}
		return nil
	})
}

// activate switches the receiver and waits for the mirror's first new grain.
func activate(ctx context.Context, m *mesh.Mesh, f mesh.Flow) (time.Duration, error) {
	mirror, err := m.OpenMirror(m.B, f)
	if err != nil {
		return 0, err
	}
	defer mirror.Close()
	head := mirror.Head()
	began := time.Now()
	if err := m.Connect(ctx, 0, f); err != nil {
		return 0, err
	}
	if err := mesh.NextGrain(ctx, mirror, head, 15*time.Second); err != nil {
		return 0, err
	}
	return time.Since(began), nil
}

// quantile of sorted times, the nearest rank.
func quantile(sorted []time.Duration, q float64) time.Duration {
	rank := min(int(q*float64(len(sorted))), len(sorted)-1)
	return sorted[rank]
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
