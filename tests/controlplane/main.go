// Command controlplane measures what a mesh of 500 flows costs an agent that does
// not move any of them: 20 simulated peers offer 50 domains of 10 flows, the
// agent mirrors them all, and 50 clients follow its events, 10 of which never
// read. It writes build/results/control-plane.json. Run it from the top of the
// tree, after make build.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"
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
	steady := flag.Duration("steady", 20*time.Second, "how `long` the steady state is watched")
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
	mesh := newPeers()
	defer mesh.close()
	a, err := launch(program, root, mesh)
	if err != nil {
		return result{}, err
	}
	defer a.stop()
	if err := a.mirrored(ctx, domainCount*flowsEach, 90*time.Second); err != nil {
		return result{}, err
	}
	fmt.Printf("controlplane: %d flows of %d peers are mirrored\n", domainCount*flowsEach, peerCount)
	streams, err := openStreams(ctx, a.url)
	if err != nil {
		return result{}, err
	}
	defer streams.close()
	r := result{Flows: domainCount * flowsEach, Domains: domainCount, Peers: peerCount, Clients: clientCount, DeafClients: deafCount}
	if err := pause(ctx, 3*time.Second); err != nil {
		return r, err
	}
	busyBefore, err := machineTimes()
	if err != nil {
		return r, err
	}
	ownBefore, err := a.ownTimes()
	if err != nil {
		return r, err
	}
	// Nothing but the agent's own work: CPU and passes.
	if err := a.steadyState(ctx, steady, &r); err != nil {
		return r, err
	}
	if r.MetricsMS, r.MetricsMedianMS, r.MetricsCPUMS, err = a.latency(ctx, "/metrics"); err != nil {
		return r, err
	}
	if r.MirrorsMS, r.MirrorsMedianMS, r.MirrorsCPUMS, err = a.latency(ctx, "/api/v1/mirrors"); err != nil {
		return r, err
	}
	if r.EventMaxMS, r.EventsLost, err = streams.deliver(ctx, root); err != nil {
		return r, err
	}
	if r.RSSMiB, err = a.residentMiB(); err != nil {
		return r, err
	}
	busyAfter, err := machineTimes()
	if err != nil {
		return r, err
	}
	ownAfter, err := a.ownTimes()
	if err != nil {
		return r, err
	}
	r.OthersPercent = 100 * (busyAfter.busy - busyBefore.busy - (ownAfter - ownBefore).Seconds()) / (busyAfter.all - busyBefore.all)
	load, _ := os.ReadFile("/proc/loadavg")
	r.LoadAverage = strings.TrimSpace(string(load))
	// The system call gives 20 minus the nice value (getpriority(2)).
	if p, err := syscall.Getpriority(syscall.PRIO_PROCESS, a.command.Process.Pid); err == nil {
		r.Nice = 20 - p
	}
	r.judge()
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return r, err
	}
	fmt.Println(string(text))
	if err := os.MkdirAll(filepath.Dir(resultFile), 0o755); err != nil {
		return r, err
	}
	return r, os.WriteFile(resultFile, append(text, '\n'), 0o644)
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

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// runningAgent is the real binary, with the simulated peers in PEERS.
type runningAgent struct {
	url     string
	command *exec.Cmd
	log     *os.File
}

func launch(program, root string, mesh *simulatedPeers) (*runningAgent, error) {
	if err := os.MkdirAll("build/control-plane", 0o755); err != nil {
		return nil, err
	}
	log, err := os.Create("build/control-plane/agent.log")
	if err != nil {
		return nil, err
	}
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	a := &runningAgent{url: fmt.Sprintf("http://127.0.0.1:%d", port), log: log}
	a.command = exec.Command(program)
	a.command.Env = append(os.Environ(), "HOST_ID=measured", "NMOS_ENABLE=false", "DEFAULT_PROVIDER=tcp", "FABRIC_INTERFACE=127.0.0.1", "TMPFS_RESERVE_MB=0",
		"MXL_ROOT="+root, "STATE_DIR=build/control-plane/state", fmt.Sprintf("WEB_PORT=%d", port), "MXL_CLEANUP_ON_EXIT=true", "PEERS="+mesh.setting())
	a.command.Stdout, a.command.Stderr = log, log
	a.command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := a.command.Start(); err != nil {
		return nil, err
	}
	return a, nil
}

func (a *runningAgent) stop() {
	_ = a.command.Process.Signal(syscall.SIGTERM)
	done := make(chan struct{})
	go func() { _ = a.command.Wait(); close(done) }()
	select {
	case <-done:
	case <-time.After(15 * time.Second):
		_ = a.command.Process.Kill()
		<-done
	}
	_ = a.log.Close()
}
