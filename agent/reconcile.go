package agent

import (
	"bytes"
	"context"
	"maps"
	"slices"
	"time"

	"github.com/mxl-stack/mxl-fabrics-agent/agent/config"
	"github.com/mxl-stack/mxl-fabrics-agent/mirror"
	"github.com/mxl-stack/mxl-fabrics-agent/mxl"
	"github.com/mxl-stack/mxl-fabrics-agent/nmos"
	"github.com/mxl-stack/mxl-fabrics-agent/peers"
)

// passEvery is the interval of the reconcile loop (contract, "Mirror health").
const passEvery = 200 * time.Millisecond

// Where no flow is pulled or sent, and nothing has changed for calmAfter, a pass has
// only slow clocks to look at, and comes every calmEvery.
const (
	calmAfter = 10 * time.Second
	calmEvery = time.Second
)

// passShare bounds what wakes can cost: after a pass there is none for this many
// times its own length, passEvery at most. Thousands of mirrors that are made one
// after the other would else be looked through for each of them.
const passShare = 4

// loop is the state of the reconcile loop. Only its goroutine touches it.
type loop struct {
	planner    *planner
	ledger     *mirror.Ledger
	pulls      map[pullKey]*pull
	ensured    map[mirror.Key][]byte // definition the mirror was last made or compared with
	tries      map[mirror.Key]*backoff
	inactive   map[mirror.Key]time.Time // since when the origin of a running pull has had no writer
	conflicts  map[nmos.FlowKey]nmos.OriginConflict
	inTheWay   map[string]bool // domains whose mirrors are kept from being made, as logged
	devices    []string        // whose carrier matters
	stallsAt   time.Time
	processors processors
}

func newLoop() *loop {
	return &loop{
		planner: newPlanner(), processors: newProcessors(), ledger: mirror.NewLedger(), pulls: map[pullKey]*pull{}, ensured: map[mirror.Key][]byte{},
		tries: map[mirror.Key]*backoff{}, inactive: map[mirror.Key]time.Time{},
		conflicts: map[nmos.FlowKey]nmos.OriginConflict{},
	}
}

// passPause is how long the loop waits for a change.
func passPause(lanes bool, quiet time.Duration) time.Duration {
	if lanes || quiet < calmAfter {
		return passEvery
	}
	return calmEvery
}

// reconcile runs passes until ctx ends: every 200 ms, and sooner when a fact
// changed. Correctness never depends on a single wake.
func (a *Agent) reconcile(ctx context.Context) {
	ticker := time.NewTicker(passEvery)
	defer ticker.Stop()
	changed, pause := time.Now(), passEvery
	for {
		began := time.Now()
		a.pass(ctx)
		if next := passPause(len(a.loop.pulls) > 0 || a.sources.any(), began.Sub(changed)); next != pause {
			pause = next
			ticker.Reset(pause)
		}
		rest := time.NewTimer(min(passEvery, passShare*time.Since(began)))
		select {
		case <-ctx.Done():
			rest.Stop()
			return
		case <-rest.C:
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			continue
		case <-a.wake: // a deed or a reader check has ended
			continue
		case <-a.scanner.Changed():
		case <-a.table.Changed():
		case <-a.observerChanges():
		case <-a.linksChanged:
		case <-a.store.Changed():
			a.configChanged()
		}
		changed = time.Now()
	}
}

// poke wakes the loop.
func (a *Agent) poke() {
	select {
	case a.wake <- struct{}{}:
	default:
	}
}

// gather takes one snapshot of everything a pass decides by.
func (a *Agent) gather(cfg *config.Config) passFacts {
	observed := a.observed()
	a.discover(observed.Agents)
	f := passFacts{
		Now: time.Now(), TAI: mxl.Now(), Started: a.started, Peers: a.table.Snapshot(), Receivers: observed.Receivers,
		Readers: a.readers.Latest(), NMOS: a.nmos != nil && a.nmos.observes, RegistryAnswers: observed.RegistryUp,
		Settings: mirror.Settings{
			Filter: mirror.Filter{
				IncludeDomains: cfg.MirrorIncludeDomains, IncludeFlows: cfg.MirrorIncludeFlows,
				ExcludeDomains: cfg.MirrorExcludeDomains, ExcludeFlows: cfg.MirrorExcludeFlows,
			},
			Eager: cfg.MirrorMode == "eager", Grace: cfg.MirrorGrace.Duration(), IdleGrace: cfg.MirrorIdleGrace.Duration(),
			ReleaseGrace: cfg.ReleaseGrace.Duration(), StaleAfter: cfg.MirrorStale.Duration(),
			ReserveMB: uint64(cfg.TmpfsReserveMB), DryRun: cfg.MirrorCleanupDryRun,
		},
	}
	snapshot := a.scanner.Snapshot()
	for i := range snapshot.Domains {
		switch d := &snapshot.Domains[i]; d.Class {
		case mxl.DomainLocal:
			f.LocalDomains = append(f.LocalDomains, d.ID)
		case mxl.DomainConflict:
			if d.Directory == "mirror-"+d.ID { // elsewhere it is in nobody's way
				f.Foreign = append(f.Foreign, d.ID)
			}
		}
	}
	var err error
	if f.OnDisk, err = a.surveys.now(); err != nil {
		a.surveyFailed.log(a.log, "mirror_survey_failed", err)
	}
	if f.FreeBytes, err = a.room.FreeBytes(); err != nil {
		a.surveyFailed.log(a.log, "mxl_root_unreadable", err)
	}
	return f
}

// pass looks once at everything and starts what is due. It blocks on nothing.
func (a *Agent) pass(ctx context.Context) {
	cfg := a.store.Config()
	a.timing.measureThread("tick", func() {
		a.takeResults()
		var facts passFacts
		var p plan
		a.timing.measure("plan", func() {
			facts = a.gather(cfg)
			p = a.loop.planner.plan(facts)
		})
		a.timing.measure("health", func() { p.Outcome = a.loop.ledger.Pass(p.Facts) })
		a.tell(p.Outcome)
		routes := a.routes(cfg, facts.Peers)
		a.logConflicts(p.Demand.Conflicts)
		a.logInTheWay(p)
		a.watchDevices(facts.Peers)
		a.timing.measure("cleanup_domains", func() { a.removeDomains(ctx, p) })
		a.timing.measure("cleanup_flows", func() { a.removeFlows(ctx, p) })
		a.nameSources(p)
		a.timing.measure("pulls", func() {
			a.ensureMirrors(ctx, p, facts)
			a.steerPulls(ctx, p, facts, routes)
			a.sweepSources(facts.Peers, routes)
			a.lookAtLanes(facts.Now)
		})
		a.root.look(facts.Now, a.log)
		a.restartInPlace(ctx, facts.Now)
		a.reportQueuePairs(cfg)
		a.publish(cfg, facts, p)
	})
	a.firstPass.Do(func() { close(a.passed) })
}

// routes says how each known peer is reached.
func (a *Agent) routes(cfg *config.Config, list []peers.Peer) map[string]sourceRoute {
	interfaces := a.links.Interfaces()
	routes := make(map[string]sourceRoute, len(list))
	for i := range list {
		routes[list[i].HostID] = routeTo(cfg, &list[i], interfaces, a.outgoing)
	}
	return routes
}

// ensureMirrors starts making every mirror flow that is wanted and that is not
// open, is another file on disk than the one we hold, or whose origin has
// another definition than before. What fails is tried again with a back-off.
func (a *Agent) ensureMirrors(ctx context.Context, p plan, facts passFacts) {
	remembered := 0
	for i := range p.Outcome.Flows {
		step := &p.Outcome.Flows[i]
		k := step.Key
		ensured, known := a.loop.ensured[k]
		if known {
			remembered++
		}
		if step.Do != mirror.Ensure {
			continue
		}
		o, offered := p.offer(k)
		if !offered {
			continue
		}
		flow, _ := a.mirrors.flow(k)
		if flow != nil && step.Inode == flow.Inode && bytes.Equal(ensured, o.Flow.Def) {
			delete(a.loop.tries, k)
			continue
		}
		try := a.loop.tries[k]
		if try == nil {
			try = &backoff{}
			a.loop.tries[k] = try
		}
		if !try.ready(facts.Now) {
			continue
		}
		if a.mirrors.ensure(ctx, o.origin(k)) {
			// A deed that works makes the next look find the flow open; until
			// then, and when it fails, the next try waits.
			try.failed(facts.Now)
			a.loop.ensured[k] = o.Flow.Def
			if !known {
				remembered++
			}
		}
	}
	gone := func(k mirror.Key) bool { return p.Outcome.Flow(k) == nil }
	if remembered < len(a.loop.ensured) {
		maps.DeleteFunc(a.loop.ensured, func(k mirror.Key, _ []byte) bool { return gone(k) })
	}
	maps.DeleteFunc(a.loop.tries, func(k mirror.Key, _ *backoff) bool { return gone(k) })
}

// steerPulls tells every pull what is wanted of it, and starts and ends pulls.
func (a *Agent) steerPulls(ctx context.Context, p plan, facts passFacts, routes map[string]sourceRoute) {
	byHost := make(map[string]*peers.Peer, len(facts.Peers))
	for i := range facts.Peers {
		byHost[facts.Peers[i].HostID] = &facts.Peers[i]
	}
	wishes := map[pullKey]pullWish{}
	for i := range p.Outcome.Flows {
		step := &p.Outcome.Flows[i]
		if !step.Pull {
			continue
		}
		k := step.Key
		if o, offered := p.offer(k); offered {
			delete(a.loop.inactive, k)
			key := pullKey{Peer: o.Source, Domain: k.DomainID, Flow: k.FlowID}
			wishes[key] = a.wishFor(key, byHost[o.Source], routes[o.Source], true)
		}
	}
	for key := range a.loop.pulls {
		if _, have := wishes[key]; !have && a.goesOn(key, p, byHost[key.Peer], facts) {
			wishes[key] = a.wishFor(key, byHost[key.Peer], routes[key.Peer], p.active(key.mirror()))
		}
	}
	busy := map[mirror.Key]bool{} // flows whose writer another pull still uses
	for key, pl := range a.loop.pulls {
		if pl.over() {
			delete(a.loop.pulls, key)
			continue
		}
		if w, wanted := wishes[key]; wanted {
			pl.want(w)
			continue
		}
		pl.want(pullWish{ControlURL: controlURL(byHost[key.Peer])})
		busy[key.mirror()] = true
	}
	var begun []*pull
	for key := range wishes {
		if a.loop.pulls[key] != nil || busy[key.mirror()] {
			continue
		}
		pl := newPull(key, a.pullDeps)
		a.loop.pulls[key] = pl
		begun = append(begun, pl)
	}
	// A pull is in the index before it may write: a deed that halts the pulls of a
	// mirror must find it.
	a.pullIndex.store(a.loop.pulls)
	for _, pl := range begun {
		a.pullsRunning.Go(func() {
			pl.run(ctx)
			a.poke()
		})
		pl.want(wishes[pl.key])
	}
}

// goesOn says whether a running pull is kept although the plan asks for none:
// while its source does not answer and a receiver still wants the flow, and
// while the origin has been without a writer, or off the source's list, for less
// than MIRROR_GRACE_S. A writer that creates its flow again finds the connection
// standing.
func (a *Agent) goesOn(key pullKey, p plan, peer *peers.Peer, facts passFacts) bool {
	k := key.mirror()
	if peer == nil || !p.Facts.Demand[k] {
		return false
	}
	if o, offered := p.offer(k); offered && (o.Source != key.Peer || o.Flow.Active) {
		return false // another origin was chosen, or the plan has its reasons
	}
	if !peer.Up {
		return true
	}
	since, known := a.loop.inactive[k]
	if !known {
		since = facts.Now
		a.loop.inactive[k] = since
	}
	return facts.Now.Sub(since) <= facts.Settings.Grace
}

func controlURL(p *peers.Peer) string {
	if p == nil {
		return ""
	}
	return p.ControlURL
}

func (a *Agent) wishFor(key pullKey, p *peers.Peer, route sourceRoute, originActive bool) pullWish {
	flow, generation := a.mirrors.flow(key.mirror())
	w := pullWish{
		pullFacts: pullFacts{
			Wanted: true, PeerUp: p.Up, BootID: p.BootID, LinkUp: route.LinkUp, LinkReason: route.LinkReason,
			Way:          wayTo(a.store.Config(), p),
			OriginActive: originActive, MirrorReady: flow != nil, MirrorGeneration: generation,
		},
		ControlURL: p.ControlURL, Provider: route.Provider, Fallback: route.Fallback, Address: route.Address,
		From: peerAddresses(p),
	}
	if flow != nil {
		w.Writer = mirrorWriter{Discrete: flow.Discrete, Continuous: flow.Continuous}
	}
	return w
}

// haltPulls stops every pull that writes to a mirror flow, or to any flow of a
// domain when k names none, and waits for it.
func (a *Agent) haltPulls(k mirror.Key) {
	for _, pl := range a.pullIndex.of(k) {
		pl.halt()
	}
}

func (a *Agent) sweepSources(list []peers.Peer, routes map[string]sourceRoute) {
	f := sourceFacts{Boots: map[string]peerBoot{}, Link: routes}
	for i := range list {
		if list[i].Up {
			f.Boots[list[i].HostID] = peerBoot{ID: list[i].BootID, HeardAt: list[i].ReceivedAt}
		}
	}
	a.sources.sweep(f)
	a.sources.logEvents()
}

// logConflicts names a flow that more than one peer offers when that, or the
// choice, has changed.
func (a *Agent) logConflicts(list []nmos.OriginConflict) {
	now := make(map[nmos.FlowKey]nmos.OriginConflict, len(list))
	for _, c := range list {
		now[c.Key] = c
		if a.loop.conflicts[c.Key] != c {
			a.log.Warn("origin_conflict", "flow", c.Key.String(), "hosts", c.Hosts, "chosen", c.Chosen)
		}
	}
	a.loop.conflicts = now
}

// watchDevices tells the link watch which devices' carrier matters.
func (a *Agent) watchDevices(list []peers.Peer) {
	now := make([]string, 0, len(list))
	for i := range list {
		if name := list[i].Link.Interface; name != "" && !slices.Contains(now, name) {
			now = append(now, name)
		}
	}
	if !slices.Equal(now, a.loop.devices) {
		a.links.Use(now...)
		a.loop.devices = now
	}
}
