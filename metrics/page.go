package metrics

import (
	"regexp"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
)

// Fixed thresholds of a stalled transfer (contract, "Audio timing").
const (
	AudioStall = 25 * time.Millisecond
	GrainStall = 40 * time.Millisecond
)

// Page is the agent's metrics; it is a prometheus.Collector of all that comes
// from snapshots and an http.Handler of everything. Its methods may be called from any goroutine;
// none of them waits for a scrape for longer than it takes to copy maps.
type Page struct {
	registry *prometheus.Registry
	perFlow  [familyCount]*prometheus.Desc
	totals   [familyCount]*prometheus.Desc

	setups *prometheus.HistogramVec
	work   *prometheus.HistogramVec
	events [familyCount]*prometheus.CounterVec

	mu       sync.Mutex // guards what follows
	now      Snapshot
	lanes    *ledger
	rebuilds tally
}

// New makes a page with the process and Go runtime families on it.
func New() *Page {
	p := &Page{registry: prometheus.NewRegistry(), lanes: newLedger(), now: Snapshot{PerFlow: true}}
	for f, s := range families {
		p.perFlow[f], p.totals[f] = describe(s)
	}
	p.setups = histogramVec(families[setupSeconds])
	p.work = histogramVec(families[reconcileWork])
	p.registry.MustRegister(p.setups, p.work)
	for _, f := range []family{queuePairs, mirrorDomainsRemoved, mirrorDomainsRefused, mirrorFlowsRemoved, mirrorFlowsRefused} {
		s := families[f]
		p.events[f] = prometheus.NewCounterVec(prometheus.CounterOpts{Name: s.Name, Help: s.Help}, s.Labels)
		p.registry.MustRegister(p.events[f])
	}
	p.startAtZero()
	// Beside what the client library takes of the runtime: what the last collection
	// found in use, which grows with a leak and with nothing else.
	live := collectors.GoRuntimeMetricsRule{Matcher: regexp.MustCompile(`^/gc/heap/live:bytes$`)}
	p.registry.MustRegister(collectors.NewGoCollector(collectors.WithGoCollectorRuntimeMetrics(live)),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), collectors.NewBuildInfoCollector())
	return p
}

func histogramVec(s Series) *prometheus.HistogramVec {
	return prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: s.Name, Help: s.Help, Buckets: secondsBounds}, s.Labels)
}

// startAtZero makes the series that are known beforehand, so that their first
// increase can be seen.
func (p *Page) startAtZero() {
	for _, phase := range []string{"target_setup", "handshake", "first_grain"} {
		p.setups.WithLabelValues(phase)
	}
	for _, work := range []string{"plan", "pulls", "cleanup_domains", "cleanup_flows", "health", "lanes", "metrics", "tick", "tick_cpu", "reader_scan", "peer_poll", "inventory_scan", "inventory_scan_cpu"} {
		p.work.WithLabelValues(work)
	}
	for _, reason := range []string{"same_node", "orphan", "idle", "api"} {
		p.events[mirrorDomainsRemoved].WithLabelValues(reason)
		p.events[mirrorDomainsRefused].WithLabelValues(reason)
	}
	for _, reason := range []string{"origin_missing", "origin_gone", "no_demand", "excluded"} {
		p.events[mirrorFlowsRemoved].WithLabelValues(reason)
	}
	p.events[mirrorFlowsRefused].WithLabelValues("origin_missing")
}

// Set shows a new snapshot from now on. The page keeps it; nothing in it may
// be changed afterwards.
func (p *Page) Set(s Snapshot) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.now = s
	p.lanes.take(s.Lanes)
	rebuilds := make(map[string]uint64, len(s.Mirrors))
	for _, m := range s.Mirrors {
		rebuilds[m.DomainID+"/"+m.FlowID+"/"+m.Peer] += m.Rebuilds
	}
	p.rebuilds.take(rebuilds)
}

// Retire folds the final counts of a lane that has ended. Without it the
// counts of the last snapshot the lane was in are folded.
func (p *Page) Retire(l Lane) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lanes.retire(l)
}

// Work counts one run of periodic work: "plan", "pulls", "cleanup_domains",
// "cleanup_flows", "health", "lanes", "metrics", "tick", "reader_scan",
// "peer_poll" or "inventory_scan"; "tick_cpu" and "inventory_scan_cpu" for the
// processor time of those.
func (p *Page) Work(work string, took time.Duration) {
	p.work.WithLabelValues(work).Observe(took.Seconds())
}

// Setup counts one phase of setting up a replication: "target_setup",
// "handshake" or "first_grain".
func (p *Page) Setup(phase string, took time.Duration) {
	p.setups.WithLabelValues(phase).Observe(took.Seconds())
}

// QueuePair counts an established queue pair with the values read back from
// it, "unreported" or "unknown" where there are none.
func (p *Page) QueuePair(role, ackTimeout, retryCount string) {
	p.events[queuePairs].WithLabelValues(role, ackTimeout, retryCount).Inc()
}

// DomainRemoved, DomainRefused, FlowRemoved and FlowRefused count removals of
// mirrors and those that a reader prevented, by reason.
func (p *Page) DomainRemoved(reason string) {
	p.events[mirrorDomainsRemoved].WithLabelValues(reason).Inc()
}

// DomainRefused counts like DomainRemoved.
func (p *Page) DomainRefused(reason string) {
	p.events[mirrorDomainsRefused].WithLabelValues(reason).Inc()
}

// FlowRemoved counts like DomainRemoved.
func (p *Page) FlowRemoved(reason string) { p.events[mirrorFlowsRemoved].WithLabelValues(reason).Inc() }

// FlowRefused counts like DomainRemoved.
func (p *Page) FlowRefused(reason string) { p.events[mirrorFlowsRefused].WithLabelValues(reason).Inc() }
