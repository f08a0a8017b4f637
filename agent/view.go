package agent

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sys/unix"

	"github.com/mxl-stack/mxl-fabrics-agent/agent/config"
	"github.com/mxl-stack/mxl-fabrics-agent/agent/httpapi"
	"github.com/mxl-stack/mxl-fabrics-agent/fabrics"
	"github.com/mxl-stack/mxl-fabrics-agent/fabrics/rdmacm"
	"github.com/mxl-stack/mxl-fabrics-agent/metrics"
	"github.com/mxl-stack/mxl-fabrics-agent/mirror"
	"github.com/mxl-stack/mxl-fabrics-agent/mxl"
	"github.com/mxl-stack/mxl-fabrics-agent/peers"
)

// passView is what one pass left for the API. It is never changed.
type passView struct {
	facts passFacts
	plan  plan

	listed  sync.Once
	mirrors []mirror.DomainView

	remembered sync.Once
	unheard    map[pullKey]*peers.Flow
}

// lastHeard is what a source that does not answer offered when it last did; nil when
// it did not offer the flow, or does answer.
func (v *passView) lastHeard(k pullKey) *peers.Flow {
	v.remembered.Do(func() {
		v.unheard = map[pullKey]*peers.Flow{}
		for i := range v.facts.Peers {
			p := &v.facts.Peers[i]
			if p.Up || p.Inventory == nil {
				continue
			}
			for j := range p.Inventory.Domains {
				d := &p.Inventory.Domains[j]
				for n := range d.Flows {
					if id, err := uuid.Parse(d.Flows[n].ID); err == nil {
						v.unheard[pullKey{Peer: p.HostID, Domain: d.ID, Flow: id}] = &d.Flows[n]
					}
				}
			}
		}
	})
	return v.unheard[k]
}

// mirrorList is the body of GET /api/v1/mirrors. It is made when somebody asks.
func (v *passView) mirrorList() []mirror.DomainView {
	v.listed.Do(func() { v.mirrors = mirror.ViewMirrors(v.plan.Facts, v.plan.Outcome) })
	return v.mirrors
}

// viewOfPass hands the newest passView to the API.
type viewOfPass struct{ p atomic.Pointer[passView] }

func (v *viewOfPass) load() *passView {
	if p := v.p.Load(); p != nil {
		return p
	}
	return &passView{}
}

// lagFacts is what the lag of a pull's mirror follows from. While its source does not
// answer, the origin counts as it was when last heard of.
func (v *passView) lagFacts(d *destinationView) lagFacts {
	f := lagFacts{
		BatchSamples: d.BatchSamples, MirrorHead: d.headNow(), HasGrain: d.HasHead, HeadMovedAt: d.HeadMovedAt, OriginSilent: d.OriginSilent,
	}
	var origin *peers.Flow
	if o, offered := v.plan.offer(d.Key.mirror()); offered {
		origin = o.Flow
	} else {
		origin = v.lastHeard(d.Key)
	}
	if origin != nil {
		f.Rate = mxl.Rational{Numerator: origin.GrainRate.Numerator, Denominator: origin.GrainRate.Denominator}
		f.Continuous, f.OriginActive = origin.Continuous(), origin.Active
	}
	return f
}

// metricsEvery is how often the metrics page is set between scrapes.
const metricsEvery = time.Second

// lastSaid remembers what was last published about a subject, so that repeats
// are not events.
type lastSaid struct {
	mu   sync.Mutex
	said map[string]any
}

// maxSaid bounds the memory of subjects that others name.
const maxSaid = 16384

// differs says whether this is news about the subject, and remembers it.
func differs[T comparable](l *lastSaid, subject string, value T) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if before, known := l.said[subject].(T); known && before == value {
		return false
	}
	if l.said == nil || len(l.said) >= maxSaid {
		l.said = map[string]any{}
	}
	l.said[subject] = value
	return true
}

// publish leaves the outcome of a pass for the API, the metrics and the event
// stream.
func (a *Agent) publish(cfg *config.Config, facts passFacts, p plan) {
	view := &passView{facts: facts, plan: p}
	a.view.p.Store(view)
	a.publishEvents(facts)
}

// keepMetrics shows the metrics page what comes and goes, so that its counters keep
// the counts of it. A scrape looks for itself.
func (a *Agent) keepMetrics(ctx context.Context) {
	tick := time.NewTicker(metricsEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		a.timing.measure("metrics", func() { a.showMetrics() })
	}
}

// showMetrics sets the page to what the last pass saw and the lanes count now.
func (a *Agent) showMetrics() {
	if view := a.view.load(); view.facts.Readers != nil {
		a.setMetrics(a.store.Config(), view.facts, view)
	}
}

func (a *Agent) publishEvents(facts passFacts) {
	revision := a.scanner.Snapshot().Revision
	if differs(&a.announced, "inventory", revision) {
		a.hub.Publish(httpapi.EventInventory, "revision", revision)
	}
	for i := range facts.Peers {
		row := rowOfPeer(&facts.Peers[i])
		if differs(&a.announced, "peer/"+row.HostID, row) {
			a.hub.Publish(httpapi.EventPeer, row.HostID, row)
		}
	}
}

// getMetrics shows the lags as they are now; everything else is the last pass's
// copy, so that a scrape never holds up a lane.
func (a *Agent) getMetrics(w http.ResponseWriter, r *http.Request) {
	a.showMetrics()
	a.page.ServeHTTP(w, r)
}

// setMetrics reads the lanes and shows what they counted. One reading at a time: one
// that is shown after a later one looks as if its lanes had started over, and what
// they had counted by then would be counted twice.
func (a *Agent) setMetrics(cfg *config.Config, facts passFacts, view *passView) {
	a.metricsTurn.Lock()
	defer a.metricsTurn.Unlock()
	a.page.Set(a.metricsOf(cfg, facts, view))
}

func (a *Agent) sourceEnded(g groupKey, id string, continuous bool, st fabrics.SourceStats) {
	a.page.Retire(sourceOf(id, g.Flow.String(), g.Provider, continuous, st))
}

func (a *Agent) targetEnded(key pullKey, lane string, provider fabrics.Provider, continuous bool, st fabrics.TargetStats) {
	a.page.Retire(targetOf(lane, key.Flow.String(), provider, continuous, st))
}

// metricsOf is the state the metrics page shows until the next pass.
func (a *Agent) metricsOf(cfg *config.Config, facts passFacts, view *passView) metrics.Snapshot {
	snapshot := a.scanner.Snapshot()
	observed := a.observed()
	s := metrics.Snapshot{
		PerFlow: cfg.MetricsPerFlow, HostID: cfg.HostID, Version: Version, MXLVersion: MXLVersion, LibfabricVersion: fabrics.Version(),
		TAIOffset: a.tai, OriginConflicts: len(view.plan.Demand.Conflicts), RegistryUp: observed.RegistryUp, NMOSPollErrors: observed.PollErrors,
		Demand: map[string]int{}, RequestedRetries: cfg.FabricRetryCount, QueuePairsUnreported: rdmacm.Dropped(), MirrorDomains: map[string]int{},
	}
	if cfg.FabricACKTimeout > 0 {
		s.RequestedACKTimeout = 4096 * time.Nanosecond << cfg.FabricACKTimeout
	}
	countDomains(&s, &snapshot)
	var fs unix.Statfs_t
	if unix.Statfs(cfg.ScanPath, &fs) == nil {
		s.TmpfsFree, s.TmpfsSize = fs.Bavail*uint64(fs.Bsize), fs.Blocks*uint64(fs.Bsize)
	}
	for i := range facts.Peers {
		p := &facts.Peers[i]
		row := metrics.Peer{HostID: p.HostID, Interface: p.Link.Interface, Up: p.Up && p.Link.Up}
		if device, n, known := a.rdmaCounters.retransmits(row.Interface); known {
			row.Device, row.Retransmits = device, &n
		}
		s.Peers = append(s.Peers, row)
	}
	for _, d := range view.plan.Demand.Receivers {
		s.Demand[string(d.State)]++
	}
	a.timing.measure("lanes", func() { a.laneMetrics(&s, view) })
	for _, m := range view.mirrorList() {
		if m.OnDisk {
			s.MirrorDomains[string(m.State)]++
		}
		for _, f := range m.Flows {
			row := metrics.Mirror{DomainID: m.DomainID, FlowID: f.FlowID, Peer: f.Peer, State: string(f.Health.State), Rebuilds: uint64(f.Health.Rebuilds)}
			if f.Health.LastGrainAgeMS != nil {
				age := time.Duration(*f.Health.LastGrainAgeMS) * time.Millisecond
				row.LastGrainAge = &age
			}
			s.Mirrors = append(s.Mirrors, row)
		}
	}
	return s
}

func countDomains(s *metrics.Snapshot, snapshot *mxl.Snapshot) {
	for i := range snapshot.Domains {
		d := &snapshot.Domains[i]
		switch d.Class {
		case mxl.DomainMirror:
			s.DomainsMirror++
		case mxl.DomainConflict:
			s.DomainsConflict++
		default:
			s.DomainsLocal++
			for j := range d.Flows {
				if d.Flows[j].Active {
					s.FlowsActive++
				} else {
					s.FlowsInactive++
				}
			}
		}
	}
}

// laneMetrics copies what the lanes have counted; a scrape reads this copy.
func (a *Agent) laneMetrics(s *metrics.Snapshot, view *passView) {
	lanes := map[string]bool{}
	for _, v := range a.sources.list() {
		row := sourceRowView(v)
		s.Replications = append(s.Replications, metrics.Replication{
			FlowID: row.FlowID, Peer: row.Peer, Role: row.Role, Provider: row.Provider, State: row.State,
			Grains: row.Grains, Bytes: row.Bytes, Errors: row.Errors, OriginGaps: row.OriginGaps,
		})
		if !lanes[v.LaneKey] {
			lanes[v.LaneKey] = true
			s.Lanes = append(s.Lanes, sourceOf(v.LaneKey, row.FlowID, fabrics.Provider(v.Provider), v.Continuous, v.Stats))
		}
	}
	tai := mxl.Now()
	for _, p := range a.pullIndex.all() {
		v, row := a.pulledRow(p, view, tai)
		s.Replications = append(s.Replications, metrics.Replication{
			FlowID: row.FlowID, Peer: row.Peer, Role: row.Role, Provider: row.Provider, State: row.State,
			Grains: row.Grains, Bytes: row.Bytes, Errors: row.Errors, Restarts: row.Restarts,
			LagGrains: row.LagGrains, LagMS: row.LagMS, QueueDepth: completionQueueDepth,
		})
		if v.HasLane {
			s.Lanes = append(s.Lanes, targetOf(v.LaneKey, row.FlowID, v.Provider, v.Continuous, v.Stats))
		}
	}
}

// completionQueueDepth is the depth of a target's completion queue, as the
// original's (agent API reference §16.3).
const completionQueueDepth = 256

func sortRows(rows []replicationRow) {
	slices.SortFunc(rows, func(a, b replicationRow) int {
		return cmp.Or(cmp.Compare(a.Role, b.Role), cmp.Compare(a.FlowID, b.FlowID), cmp.Compare(a.Peer, b.Peer), cmp.Compare(a.ReplicationID, b.ReplicationID))
	})
}

func quoted(s string) string {
	if len(s) > 80 {
		s = s[:80] + "…"
	}
	return strconv.Quote(s)
}
