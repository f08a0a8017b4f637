// Package agent is the daemon: it joins what the local receivers want (nmos),
// what the other hosts offer (peers) and what is on disk (mxl, mirror) into a
// plan, and keeps the replications that follow from it going (fabrics).
package agent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/mxl-stack/mxl-fabrics-agent/agent/config"
	"github.com/mxl-stack/mxl-fabrics-agent/agent/httpapi"
	"github.com/mxl-stack/mxl-fabrics-agent/fabrics"
	"github.com/mxl-stack/mxl-fabrics-agent/fabrics/rdmacm"
	"github.com/mxl-stack/mxl-fabrics-agent/metrics"
	"github.com/mxl-stack/mxl-fabrics-agent/mirror"
	"github.com/mxl-stack/mxl-fabrics-agent/mxl"
	"github.com/mxl-stack/mxl-fabrics-agent/nmos"
	"github.com/mxl-stack/mxl-fabrics-agent/peers"
)

// ErrUnavailable marks a start that failed for want of a port or a fabric
// provider: exit code 75.
var ErrUnavailable = errors.New("unavailable")

// Agent is one running daemon.
type Agent struct {
	store  *config.Store
	log    *slog.Logger
	bootID string
	tai    int // kernel TAI offset at start, seconds
	root   *mxlRoot

	scanner      *mxl.Scanner
	links        *peers.LinkWatch
	linksChanged <-chan struct{} // the reconcile loop's
	late         *lateAddresses
	restarts     restarts
	endRun       context.CancelCauseFunc
	table        *peers.Table
	client       *peers.Client
	room         *mirror.Room
	readers      *mirror.ReaderCheck
	surveys      surveys
	mirrors      *mirrorDeeds
	sources      *sources
	hub          *httpapi.Hub
	server       *httpapi.Server
	nmos         *nmosSide // nil when NMOS is off
	pullDeps     pullDeps

	queuePairs   queuePairs
	rdmaCounters *rdmaCounters

	results      deedResults
	surveyFailed once
	started      time.Time
	timing       *workTimes
	page         *metrics.Page
	metricsTurn  sync.Mutex // held from reading the lanes until the page has it
	announced    lastSaid
	outgoing     func(netip.Addr) netip.Addr

	wake         chan struct{}
	passed       chan struct{} // closed after the first pass
	firstPass    sync.Once
	scanDone     <-chan struct{}
	pullIndex    pullIndex
	pullsRunning sync.WaitGroup
	loop         *loop // the reconcile goroutine's own
	view         viewOfPass
	stopPulls    context.CancelFunc
}

// New builds the agent from its configuration. It opens the MXL root and binds
// no port.
func New(store *config.Store, log *slog.Logger) (*Agent, error) {
	cfg := store.Config()
	a := &Agent{
		store: store, log: log, bootID: uuid.NewString(),
		wake: make(chan struct{}, 1), passed: make(chan struct{}), loop: newLoop(),
		page: metrics.New(), outgoing: outgoingAddress,
		started: time.Now(),
	}
	a.timing = newWorkTimes(a.page, log)
	a.queuePairs = queuePairs{log: log, count: a.page.QueuePair}
	a.rdmaCounters = newRDMACounters("/sys", time.Now)
	a.root = newMXLRoot(cfg.ScanPath)
	if offset, err := mxl.TAIOffset(); err == nil {
		a.tai = offset
	}
	var err error
	a.scanner, err = mxl.NewScanner(mxl.ScannerConfig{
		Root: cfg.ScanPath, HostID: cfg.HostID, Interval: cfg.ScanInterval.Duration(), SkipMirrors: true, Log: log,
		Measure: func(scan func()) { a.timing.measureThread("inventory_scan", scan) },
	})
	if err != nil {
		return nil, err
	}
	a.scanDone = a.scanner.First()
	a.readers = mirror.NewReaderCheck(mirror.ReaderCheckConfig{})
	a.room, err = mirror.Open(mirror.Config{
		Root: cfg.ScanPath, HostID: cfg.HostID, ReserveMB: uint64(cfg.TmpfsReserveMB), Readers: a.readers, Log: log,
	})
	if err != nil {
		return nil, err
	}
	a.mirrors = newMirrorDeeds(a.room, log)
	a.mirrors.halt = a.haltPulls
	a.surveys.room = a.room
	a.mirrors.wake = func() {
		a.surveys.changed()
		a.poke()
	}
	a.mirrors.note, a.mirrors.blocked, a.mirrors.made = a.results.note, a.results.blocked, a.results.made

	a.links = peers.NewLinkWatch("/sys", log)
	a.linksChanged = a.links.Subscribe()
	a.late = newLateAddresses(a)
	a.client = peers.NewClient()
	a.table = peers.NewTable(peers.Config{
		HostID: cfg.HostID, BootID: a.bootID, FabricInterface: cfg.FabricInterface, Static: staticPeers(cfg),
		Interval: cfg.PeerPollInterval.Duration(), Client: a.client, Links: a.links, Log: log, Polled: a.timing.peerPoll,
	})
	a.sources = newSources(log, time.Now, a.sourceEnded, a.late.source(a.openSource))
	a.pullDeps = pullDeps{
		hostID: cfg.HostID, bootID: a.bootID, open: a.late.target(a.openTarget), ask: a.client.Replicate, release: a.client.Release,
		usable: a.mirrors.usable,
		ports:  newPortPool(cfg.FabricPortBase, cfg.FabricPortCount), setups: newPlaces(setupsAtOnce),
		ended: a.targetEnded, lost: a.mirrors.lose, away: a.root.away, phase: a.page.Setup, now: time.Now, log: log,
	}
	a.hub = httpapi.NewHub(log)
	host, _ := os.Hostname()
	a.server = httpapi.New(httpapi.Config{Port: cfg.WebPort, Routes: a.routesTable(), Names: []string{host, cfg.HostID}, Log: log})
	if cfg.NMOSEnable {
		if a.nmos, err = newNMOSSide(cfg, log); err != nil {
			return nil, err
		}
	}
	return a, nil
}

// Start looks for the fabric provider and binds every port. The error wraps
// ErrUnavailable when there is no provider or a port cannot be bound.
func (a *Agent) Start(ctx context.Context) error {
	cfg := a.store.Config()
	raiseFileLimit(a.log)
	if err := findProvider(ctx, cfg, a.log, fabrics.Probe); err != nil {
		return err
	}
	a.announceStart(cfg)
	setQueuePairs(cfg, a.log, rdmacm.Hooked())
	logIgnoredCPUs(cfg.CPUAffinity, a.log)
	if err := a.server.Listen(); err != nil {
		a.log.Error("http_bind_failed", "port", cfg.WebPort, "error", err)
		return fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	a.log.Info("http_listen", "port", a.server.Port())
	if a.nmos != nil {
		if err := a.nmos.listen(); err != nil {
			a.log.Error("nmos_node_failed", "error", err)
			return fmt.Errorf("%w: %w", ErrUnavailable, err)
		}
	}
	return nil
}

// Run works until process is done, then shuts down in the contract's order: fabric
// connections, readers, the registry, and with MXL_CLEANUP_ON_EXIT the mirrors.
func (a *Agent) Run(process context.Context) error {
	ctx, endRun := context.WithCancelCause(process)
	a.endRun = endRun
	defer a.endRun(nil)
	adopted, err := a.room.Adopt()
	if err != nil {
		return err
	}
	for _, d := range adopted {
		for _, f := range d.Flows {
			if held := a.room.Held(f.Key); held != nil {
				a.mirrors.set(f.Key, held)
			}
		}
		a.log.Info("mirror_domain_adopted", "domain_id", d.DomainID, "path", d.Path, "flows", len(d.Flows))
	}
	// Facts go on being gathered while the lanes close, so that nothing waits
	// for a stopped room; they end last.
	facts, endFacts := context.WithCancel(context.WithoutCancel(ctx))
	defer endFacts()
	var rooms sync.WaitGroup
	run := func(name string, f func(context.Context) error) {
		rooms.Go(func() {
			if err := f(facts); err != nil && facts.Err() == nil {
				a.log.Error("room_failed", "room", name, "error", err)
			}
		})
	}
	run("http", func(context.Context) error { return a.server.Serve() })
	run("scanner", a.scanner.Run)
	run("surveys", func(ctx context.Context) error { a.surveys.run(ctx); return nil })
	run("links", func(ctx context.Context) error { a.links.Run(ctx); return nil })
	run("peers", func(ctx context.Context) error { a.table.Run(ctx); return nil })
	run("metrics", func(ctx context.Context) error { a.keepMetrics(ctx); return nil })
	run("readers", func(ctx context.Context) error {
		a.readers.Run(ctx, a.room.Watched, func(r *mirror.ReaderReport) {
			a.timing.add("reader_scan", r.Took)
			a.room.SweepLeft()
			a.poke()
		})
		return nil
	})
	if a.nmos != nil {
		a.nmos.run(facts, &rooms)
	}

	pulls, stopPulls := context.WithCancel(facts)
	a.stopPulls = stopPulls
	select {
	case <-a.scanDone:
	case <-ctx.Done():
	}
	done := make(chan struct{})
	loopCtx, stopLoop := context.WithCancel(pulls)
	go func() {
		defer close(done)
		a.reconcile(loopCtx)
	}()
	<-ctx.Done()
	a.log.Info("shutdown", "reason", context.Cause(ctx))
	stopLoop()
	<-done
	again := errors.Is(context.Cause(ctx), errRestart)
	a.shutdown(func() bool { return again && process.Err() == nil })
	endFacts()
	rooms.Wait()
	return nil
}

// shutdown closes everything in the contract's order. For a restart in place the
// registry keeps the node and the host its mirrors, unless the process is to end by
// then.
func (a *Agent) shutdown(again func() bool) {
	cfg := a.store.Config()
	// Destinations close without telling their sources: they see the connection
	// go (agent API reference §16.12).
	a.stopPulls()
	a.pullsRunning.Wait()
	a.mirrors.wait()
	a.sources.close()
	if a.nmos != nil && !again() {
		a.nmos.leave(a.log, registryLeaveTime(cfg.ShutdownTimeout.Duration()))
	}
	removed, err := a.room.Close(cfg.CleanupOnExit && !again())
	if err != nil {
		a.log.Warn("mirror_close_failed", "error", err)
	}
	for _, r := range removed {
		r.LogDomain(a.log)
	}
	a.hub.Close()
	stop, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if err := a.server.Shutdown(stop); err != nil {
		a.log.Debug("http_shutdown", "error", err)
	}
	a.client.Close()
}

// registryLeaveTime is how much of the shutdown's budget the registry may take.
func registryLeaveTime(budget time.Duration) time.Duration {
	return min(1500*time.Millisecond, max(500*time.Millisecond, budget/4))
}

func staticPeers(cfg *config.Config) []peers.Static {
	list := make([]peers.Static, 0, len(cfg.Peers))
	for _, p := range cfg.Peers {
		list = append(list, peers.Static{
			HostID: p.HostID, ControlURL: p.ControlURL, LocalFabricAddr: p.LocalFabricAddr,
			RemoteFabricAddr: p.RemoteFabricAddr, Provider: p.Provider,
		})
	}
	return list
}

// configChanged applies the runtime keys.
func (a *Agent) configChanged() {
	cfg := a.store.Config()
	a.table.SetStatic(staticPeers(cfg))
	a.table.SetInterval(cfg.PeerPollInterval.Duration())
	a.room.SetReserve(uint64(cfg.TmpfsReserveMB))
}

// discover hands the agents that the registry knows to the peer table.
func (a *Agent) discover(list []nmos.Agent) {
	found := make([]peers.Discovered, 0, len(list))
	for _, d := range list {
		found = append(found, peers.Discovered{HostID: d.HostID, ControlURL: d.ControlURL})
	}
	a.table.SetDiscovered(found)
}

// scheduling is what RT_PRIORITY and CPU_AFFINITY ask of every lane.
func (a *Agent) scheduling() fabrics.Scheduling {
	cfg := a.store.Config()
	return fabrics.Scheduling{Priority: cfg.RTPriority, CPUs: cfg.CPUAffinity}
}

func (a *Agent) openTarget(s targetSetup) (targetLane, error) {
	return fabrics.OpenTarget(fabrics.TargetConfig{
		Discrete: s.Writer.Discrete, Continuous: s.Writer.Continuous, FlowID: s.Flow, Provider: s.Provider,
		Address: s.Address, Port: s.Port, Peers: s.Peers, SecretOnly: s.SecretOnly, Scheduling: a.scheduling(), Log: a.log,
	})
}

func (a *Agent) openSource(domainPath string, flow uuid.UUID, provider fabrics.Provider, address string) (sourceLane, error) {
	domain, err := mxl.OpenDomain(domainPath)
	if err != nil {
		return nil, err
	}
	cfg := a.store.Config()
	return fabrics.OpenSource(fabrics.SourceConfig{
		Domain: domain, FlowID: flow, Provider: provider, Address: address, Scheduling: a.scheduling(),
		AudioPass: cfg.AudioPass.Duration(), AudioPipeline: cfg.AudioPipeline, Log: a.log,
	})
}
