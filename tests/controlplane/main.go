// Command controlplane measures what a mesh of 500 flows costs an agent that does
// not move any of them: 20 simulated peers offer 50 domains of 10 flows, the
// agent mirrors them all, and 50 clients follow its events, 10 of which never
// read. It writes build/results/control-plane.json. Run it from the top of the
// tree, after make build.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/mxl-stack/mxl-fabrics-agent/tests/measured"

	"github.com/mxl-stack/mxl-fabrics-agent/tests/mesh"
)

const resultFile = "build/results/control-plane.json"

// The mesh.
const (
	peerCount   = 20
	domainCount = 50
	flowsEach   = 10
	clientCount = 50
	deafCount   = 10
)

// A pass comes every second while nothing moves: in this time there are enough of
// them for a 99th percentile that is not the worst one.
const steadySpan = 150 * time.Second

// The limits.
const (
	limitMetrics = 20.0 // ms
	limitMirrors = 20.0
	limitPass    = 5.0
	limitCPU     = 3.0 // percent of a core
	limitRSS     = 80.0
	limitEvent   = 1000.0 // ms until the slowest reading client has an event
	busyPercent  = 25.0
)

// result is the file.
type result struct {
	MetricsMS       float64 `json:"metrics_ms"` // 95th percentile of the requests
	MirrorsMS       float64 `json:"mirrors_ms"`
	PassP99MS       float64 `json:"pass_p99_ms"`
	CPUCorePercent  float64 `json:"cpu_core_percent"`
	RSSMiB          float64 `json:"rss_mib"` // without mapped flows
	MetricsMedianMS float64 `json:"metrics_median_ms"`
	MirrorsMedianMS float64 `json:"mirrors_median_ms"`
	PassMeanMS      float64 `json:"pass_mean_ms"`
	// Processor time of the agent: what it costs, whatever else the machine does.
	MetricsCPUMS  float64 `json:"metrics_cpu_ms"` // a request, with all the agent does meanwhile
	MirrorsCPUMS  float64 `json:"mirrors_cpu_ms"`
	PassCPUP99MS  float64 `json:"pass_cpu_p99_ms"`
	PassCPUMeanMS float64 `json:"pass_cpu_mean_ms"`
	EventMaxMS    float64 `json:"event_max_ms"` // until all reading clients had an event
	EventsLost    int     `json:"events_lost"`
	Flows         int     `json:"flows"`
	Domains       int     `json:"domains"`
	Peers         int     `json:"peers"`
	Clients       int     `json:"sse_clients"`
	DeafClients   int     `json:"sse_clients_that_never_read"`
	SteadySeconds float64 `json:"steady_seconds"`
	Passes        int     `json:"passes"`       // in that time
	LoadAverage   string  `json:"load_average"` // of this machine meanwhile
	// OthersPercent is what other processes used of this machine's processors
	// meanwhile. Above busyPercent the times are not judged, the processor times
	// are.
	OthersPercent float64 `json:"others_cpu_percent"`
	JudgedBy      string  `json:"judged_by"` // "time", or "processor time" on a busy machine
	Nice          int     `json:"nice"`      // of the agent, as this program was started
	Pass          bool    `json:"pass"`
}

func main() {
	steady := flag.Duration("steady", steadySpan, "how `long` the steady state is watched")
	program := flag.String("agent", "build/bin/mxl-fabrics-agent", "the `program` that is measured")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	r, err := run(ctx, *steady, *program)
	if err == nil && !r.Pass {
		err = fmt.Errorf("over a limit: %+v", r)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "controlplane:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, steady time.Duration, program string) (result, error) {
	_ = os.Remove(resultFile)
	root, err := os.MkdirTemp("/dev/shm", "mxl-controlplane-")
	if err != nil {
		if root, err = os.MkdirTemp("", "mxl-controlplane-"); err != nil {
			return result{}, err
		}
	}
	defer os.RemoveAll(root)
	plant, err := measured.NewPeers(peerCount, domainCount, flowsEach, "{}")
	if err != nil {
		return result{}, err
	}
	defer plant.Close()
	a, err := measured.Launch(program, root, "build/control-plane", plant)
	if err != nil {
		return result{}, err
	}
	defer a.Stop()
	if err := a.Mirrored(ctx, domainCount*flowsEach, 90*time.Second); err != nil {
		return result{}, err
	}
	fmt.Printf("controlplane: %d flows of %d peers are mirrored\n", domainCount*flowsEach, peerCount)
	streams, err := measured.OpenStreams(ctx, a.URL, clientCount-deafCount, deafCount)
	if err != nil {
		return result{}, err
	}
	defer streams.Close()
	r := result{Flows: domainCount * flowsEach, Domains: domainCount, Peers: peerCount, Clients: clientCount, DeafClients: deafCount}
	if err := measured.Pause(ctx, 3*time.Second); err != nil {
		return r, err
	}
	busyBefore, err := measured.MachineTimes()
	if err != nil {
		return r, err
	}
	ownBefore, err := a.OwnTimes()
	if err != nil {
		return r, err
	}
	// Nothing but the agent's own work: CPU and passes.
	if err := steadyState(ctx, a, steady, &r); err != nil {
		return r, err
	}
	if r.MetricsMS, r.MetricsMedianMS, r.MetricsCPUMS, err = a.Latency(ctx, "/metrics"); err != nil {
		return r, err
	}
	if r.MirrorsMS, r.MirrorsMedianMS, r.MirrorsCPUMS, err = a.Latency(ctx, "/api/v1/mirrors"); err != nil {
		return r, err
	}
	if r.EventMaxMS, r.EventsLost, err = streams.Deliver(ctx, root, 10); err != nil {
		return r, err
	}
	if r.RSSMiB, err = a.ResidentMiB(); err != nil {
		return r, err
	}
	busyAfter, err := measured.MachineTimes()
	if err != nil {
		return r, err
	}
	ownAfter, err := a.OwnTimes()
	if err != nil {
		return r, err
	}
	r.OthersPercent = 100 * (busyAfter.Busy - busyBefore.Busy - (ownAfter - ownBefore).Seconds()) / (busyAfter.All - busyBefore.All)
	load, _ := os.ReadFile("/proc/loadavg")
	r.LoadAverage = strings.TrimSpace(string(load))
	// The system call gives 20 minus the nice value (getpriority(2)).
	if p, err := syscall.Getpriority(syscall.PRIO_PROCESS, a.PID()); err == nil {
		r.Nice = 20 - p
	}
	r.judge()
	text, err := mesh.Report(resultFile, r)
	fmt.Println(string(text))
	return r, err
}

// judge holds the figures to their limits.
func (r *result) judge() {
	metrics, mirrors, pass := r.MetricsMS, r.MirrorsMS, r.PassP99MS
	r.JudgedBy = "time"
	if r.OthersPercent > busyPercent {
		metrics, mirrors, pass = r.MetricsCPUMS, r.MirrorsCPUMS, r.PassCPUP99MS
		r.JudgedBy = "processor time"
	}
	r.Pass = metrics <= limitMetrics && mirrors <= limitMirrors && pass <= limitPass &&
		r.CPUCorePercent <= limitCPU && r.RSSMiB <= limitRSS && r.EventMaxMS <= limitEvent && r.EventsLost == 0
}

// steadyState watches CPU time and passes.
func steadyState(ctx context.Context, a *measured.Agent, span time.Duration, r *result) error {
	passes, err := a.Work(ctx, "tick", "tick_cpu")
	if err != nil {
		return err
	}
	cpu, err := a.CPUTime()
	if err != nil {
		return err
	}
	began := time.Now()
	if err := measured.Pause(ctx, span); err != nil {
		return err
	}
	cpuAfter, err := a.CPUTime()
	if err != nil {
		return err
	}
	wall := time.Since(began)
	after, err := a.Work(ctx, "tick", "tick_cpu")
	if err != nil {
		return err
	}
	r.SteadySeconds = wall.Seconds()
	r.CPUCorePercent = 100 * (cpuAfter - cpu).Seconds() / wall.Seconds()
	r.Passes = int(after[0].Count() - passes[0].Count())
	r.PassP99MS, r.PassMeanMS = after[0].Since(passes[0])
	r.PassCPUP99MS, r.PassCPUMeanMS = after[1].Since(passes[1])
	return nil
}
