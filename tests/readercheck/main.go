// Command readercheck measures what the reader check of mirrors costs on a host
// with 200 processes of 2,000 mappings each, a hundred of them of a mirror: the
// processor time of one check, of a removal with its check, and what the agent's
// reconcile passes and a replication notice of it. It writes
// build/results/reader_check.json and fails when any of them takes more than 150 ms
// of processor time, or when a pass waits for one. Run it from the top of the tree,
// after make build.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sys/unix"

	"github.com/mxl-stack/mxl-fabrics-agent/mirror"
	"github.com/mxl-stack/mxl-fabrics-agent/tests/mesh"
)

const (
	resultFile = "build/results/reader_check.json"
	limitCPU   = 150 * time.Millisecond
	// watch is how long the agent is looked at: several checks 2 s apart.
	watch = 12 * time.Second
	// checks is how often one check is timed.
	checks = 5
)

var flow = mesh.Flow{Name: "video", DomainID: "5f4c1d2e-7a3b-4c6d-9e8f-0a1b2c3d4e51", ID: "0d9f6c3a-2b71-4f5e-8a64-1c2d3e4f6b01", Domain: "studio",
	Options: []string{"--format", "v210", "--width", "320", "--height", "180", "--rate", "50", "--history-ms", "2000"}}

func main() {
	if flow := os.Getenv(childVariable); flow != "" {
		if err := child(flow); err != nil {
			fmt.Fprintln(os.Stderr, "readercheck child:", err)
			os.Exit(1)
		}
		return
	}
	processes := flag.Int("processes", 200, "`number` of processes with 2,000 mappings each")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *processes); err != nil {
		fmt.Fprintln(os.Stderr, "readercheck:", err)
		os.Exit(1)
	}
}

// outcome is build/results/reader_check.json.
type outcome struct {
	Processes       int     `json:"processes"`
	MapsPerProcess  int     `json:"maps_per_process"`
	CPUPeriodicMS   float64 `json:"cpu_periodic_ms"`        // of one check, median
	CPUBeforeMS     float64 `json:"cpu_before_removal_ms"`  // of one removal of a flow that nobody reads, median
	CPURefusedMS    float64 `json:"cpu_refused_removal_ms"` // of one check that finds readers, median
	AgentChecks     int     `json:"agent_checks"`
	AgentCheckMaxMS float64 `json:"agent_check_max_ms"` // wall clock
	Passes          int     `json:"passes"`
	PassesMeanwhile int     `json:"passes_while_checking"`
	PassP50MS       float64 `json:"pass_p50_ms"`
	PassP99MS       float64 `json:"pass_p99_ms"`
	PassMaxMS       float64 `json:"pass_max_ms"`
	GrainsVerified  uint64  `json:"grains_verified"`
	GrainsLost      uint64  `json:"grains_lost"`
	LaneStalls      float64 `json:"lane_stalls"`
}

func run(ctx context.Context, processes int) error {
	_ = os.Remove(resultFile)
	m, err := mesh.New(mesh.Options{Binaries: "build/bin", Logs: "build/readercheck", Receivers: 1})
	if err != nil {
		return err
	}
	defer m.Close()
	if _, err := m.SeeAll(m.B); err != nil {
		return err
	}
	m.B.Set("LOG_LEVEL", "debug") // every pass and every check has a line with its time
	for _, a := range []*mesh.Agent{m.A, m.B} {
		if err := a.Start(ctx); err != nil {
			return err
		}
	}
	writer, err := m.Write(m.A, flow)
	if err != nil {
		return err
	}
	if err := m.Connect(ctx, 0, flow); err != nil {
		return err
	}
	if err := m.Flowing(ctx, flow, 30*time.Second); err != nil {
		return err
	}
	stop, err := children(processes, filepath.Join(m.B.MirrorDomain(flow.DomainID), flow.ID+".mxl-flow"))
	defer stop()
	if err != nil {
		return err
	}
	out := outcome{Processes: processes, MapsPerProcess: mapsPerChild}
	if err := seenByAgent(ctx, m, processes); err != nil {
		return err
	}
	if err := out.cost(ctx, m, processes); err != nil {
		return err
	}
	reader, err := m.Read(m.B, flow, watch)
	if err != nil {
		return err
	}
	from := time.Now()
	got, err := mesh.Result[mesh.Totals](reader)
	if err != nil {
		return err
	}
	if err := out.passes(m.B, from); err != nil {
		return err
	}
	writer.Stop(5 * time.Second)
	written, err := mesh.Result[mesh.Written](writer)
	if err != nil {
		return err
	}
	out.GrainsVerified, out.GrainsLost = got.Verified, got.LostInTransit(written)
	if out.LaneStalls, err = m.B.Metric(ctx, `fabric_thread_stall_seconds_count`); err != nil {
		return err
	}
	return out.report()
}

// seenByAgent waits until the agent lists all children as readers.
func seenByAgent(ctx context.Context, m *mesh.Mesh, processes int) error {
	return mesh.Eventually(ctx, 20*time.Second, "the agent sees the readers", func() error {
		row, err := m.B.Mirror(ctx, flow.DomainID)
		if err == nil && len(row.Readers) != processes {
			err = fmt.Errorf("it sees %d of %d (%s)", len(row.Readers), processes, row.ReadersError)
		}
		return err
	})
}

// cost times single checks in this process.
func (o *outcome) cost(ctx context.Context, m *mesh.Mesh, processes int) error {
	room, err := mirror.Open(mirror.Config{Root: m.B.Root, HostID: m.B.HostID})
	if err != nil {
		return err
	}
	watched := room.Watched()
	watched.Own = nil
	seen := func(r *mirror.ReaderReport) error {
		if n := len(r.Domain(flow.DomainID)); n < processes {
			return fmt.Errorf("a check found %d of %d readers: %s", n, processes, r.Why)
		}
		return nil
	}
	check := mirror.NewReaderCheck(mirror.ReaderCheckConfig{})
	var periodic, refused []time.Duration
	for range checks {
		began := cpu()
		if err := seen(check.Scan(ctx, watched)); err != nil {
			return err
		}
		refused = append(refused, cpu()-began)
		once, stop := context.WithCancel(ctx)
		began = cpu()
		check.Run(once, func() mirror.Watched { return watched }, func(r *mirror.ReaderReport) {
			periodic = append(periodic, cpu()-began)
			err = seen(r)
			stop()
		})
		stop()
		if err != nil {
			return err
		}
	}
	before, err := removals(ctx, m)
	if err != nil {
		return err
	}
	o.CPUPeriodicMS, o.CPURefusedMS, o.CPUBeforeMS = ms(quantile(periodic, 0.5)), ms(quantile(refused, 0.5)), ms(quantile(before, 0.5))
	return nil
}

// removals times removals of a flow that none of the processes reads, in a root of
// its own on the same file system: the closing of the writer, the check of all
// processes, and the files.
func removals(ctx context.Context, m *mesh.Mesh) (times []time.Duration, err error) {
	root, err := os.MkdirTemp(filepath.Dir(m.B.Root), "readercheck-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(root)
	room, err := mirror.Open(mirror.Config{Root: root, HostID: "readercheck"})
	if err != nil {
		return nil, err
	}
	domain := m.B.MirrorDomain(flow.DomainID)
	id, err := uuid.Parse(flow.ID)
	if err != nil {
		return nil, err
	}
	origin := mirror.Origin{Key: mirror.Key{DomainID: flow.DomainID, FlowID: id}, SourceHost: m.A.HostID}
	if origin.FlowDef, err = os.ReadFile(filepath.Join(domain, flow.ID+".mxl-flow", "flow_def.json")); err != nil {
		return nil, err
	}
	if origin.Options, err = os.ReadFile(filepath.Join(domain, "options.json")); err != nil {
		return nil, err
	}
	for range checks {
		if _, _, err := room.EnsureFlow(origin); err != nil {
			return nil, err
		}
		began := cpu()
		// A reader that is seen refuses this one, an incomplete sight does not: the
		// machine may have processes that nobody may look into.
		if _, err := room.RemoveFlow(ctx, origin.Key, mirror.NoDemand); err != nil {
			return nil, err
		}
		times = append(times, cpu()-began)
	}
	_, err = room.Close(true)
	return times, err
}

// cpu is the processor time of this process.
func cpu() time.Duration {
	var u unix.Rusage
	_ = unix.Getrusage(unix.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// passes takes the times of the agent's passes and checks from its log.
func (o *outcome) passes(agent *mesh.Agent, from time.Time) error {
	type span struct{ from, to time.Time }
	var passes, scans []span
	for _, line := range agent.Logged("work_timing") {
		at, err := time.Parse(time.RFC3339Nano, line["ts"])
		if err != nil {
			return err
		}
		took, err := strconv.ParseFloat(line["ms"], 64)
		if err != nil {
			return fmt.Errorf("work_timing has ms %q: %w", line["ms"], err)
		}
		s := span{at.Add(-time.Duration(took * float64(time.Millisecond))), at}
		switch {
		case at.Before(from):
		case line["work"] == "tick":
			passes = append(passes, s)
		case line["work"] == "reader_scan":
			scans = append(scans, s)
		}
	}
	if len(passes) == 0 || len(scans) == 0 {
		return fmt.Errorf("%d passes and %d checks in the log", len(passes), len(scans))
	}
	var times []time.Duration
	for _, p := range passes {
		times = append(times, p.to.Sub(p.from))
		if slices.ContainsFunc(scans, func(s span) bool { return p.from.Before(s.to) && s.from.Before(p.to) }) {
			o.PassesMeanwhile++
		}
	}
	for _, s := range scans {
		o.AgentCheckMaxMS = max(o.AgentCheckMaxMS, ms(s.to.Sub(s.from)))
	}
	o.AgentChecks, o.Passes = len(scans), len(passes)
	o.PassP50MS, o.PassP99MS, o.PassMaxMS = ms(quantile(times, 0.5)), ms(quantile(times, 0.99)), ms(quantile(times, 1))
	return nil
}

func (o *outcome) report() error {
	if _, err := mesh.Report(resultFile, o); err != nil {
		return err
	}
	fmt.Printf("readercheck: %d processes, %d mappings each: %.0f ms of processor time a periodic check (limit %.0f), %.0f ms a removal of a flow that nobody reads, %.0f ms a check that finds readers\n",
		o.Processes, o.MapsPerProcess, o.CPUPeriodicMS, ms(limitCPU), o.CPUBeforeMS, o.CPURefusedMS)
	fmt.Printf("readercheck: in the agent %d checks of up to %.0f ms; %d passes, p50 %.1f ms, p99 %.1f ms, longest %.1f ms; %d of them while a check ran\n",
		o.AgentChecks, o.AgentCheckMaxMS, o.Passes, o.PassP50MS, o.PassP99MS, o.PassMaxMS, o.PassesMeanwhile)
	fmt.Printf("readercheck: meanwhile %d grains verified, %d lost\n", o.GrainsVerified, o.GrainsLost)
	return o.verdict()
}

// verdict is nil when everything is as it should be.
func (o *outcome) verdict() error {
	switch {
	case o.CPUPeriodicMS > ms(limitCPU):
		return fmt.Errorf("a periodic check takes more than %v of processor time", limitCPU)
	case o.CPUBeforeMS > ms(limitCPU):
		return fmt.Errorf("a removal takes more than %v of processor time", limitCPU)
	case o.CPURefusedMS > ms(limitCPU):
		return fmt.Errorf("a check that finds readers takes more than %v of processor time", limitCPU)
	case o.PassesMeanwhile == 0:
		return fmt.Errorf("no pass ran while a check did")
	case o.GrainsLost > 0 || o.GrainsVerified == 0:
		return fmt.Errorf("%d grains lost, %d verified", o.GrainsLost, o.GrainsVerified)
	}
	return nil
}

// quantile is the nearest rank.
func quantile(times []time.Duration, q float64) time.Duration {
	sorted := slices.Sorted(slices.Values(times))
	return sorted[min(int(q*float64(len(sorted))), len(sorted)-1)]
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
