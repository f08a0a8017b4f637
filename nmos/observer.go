package nmos

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

const (
	defaultPoll = time.Second
	// defaultRemoveHold is a registry's collection interval (IS-04 default 12 s).
	defaultRemoveHold = 12 * time.Second
	// defaultRestartHold: the contract removes nothing in the first 30 s either.
	defaultRestartHold = 30 * time.Second
	defaultParallel    = 64
	// subscribedPoll is how often all collections are read over REST while the
	// subscriptions tell what changes.
	subscribedPoll = 5 * time.Second
	// wakeQuantum collects periodic reads that are due almost together into one
	// wake-up: most of their cost is waking up. Reads that a change asked for do
	// not wait for it.
	wakeQuantum = 25 * time.Millisecond
)

// ObserverConfig configures the observer.
type ObserverConfig struct {
	Directory    Directory
	Local        *LocalRules
	OwnNodeID    string        // a node with this id shows that the registry remembers
	OwnHostID    string        // dropped from Snapshot.Agents
	PollInterval time.Duration // NMOS_POLL_INTERVAL_MS; 0: 1 s
	// NoSubscriptions leaves only polling.
	NoSubscriptions bool
	// RegistrationEpoch, when set, gives RegistrationStatus.Epoch: a new value
	// tells that a registry had lost our node, i.e. restarted.
	RegistrationEpoch func() uint64
	// RemoveHold and RestartHold: how long something that a working registry no
	// longer lists is kept, always and after a sign of a restart. 0: 12 s, 30 s.
	RemoveHold  time.Duration
	RestartHold time.Duration
	Parallel    int          // /active reads at once; 0: 64
	Client      *http.Client // nil: NewHTTPClient()
	Log         *slog.Logger // nil: discarded
}

// Observer follows a registry's nodes, devices and receivers and the /active of
// the MXL receivers on local nodes. REST passes over the Query API are the base
// truth and repeat every 5 s while all three subscriptions are open, else every
// poll interval.
type Observer struct {
	cfg     ObserverConfig
	changed chan struct{}
	pollNow chan struct{}
	events  chan event

	board        board
	pollErrors   atomic.Uint64
	activeErrors atomic.Uint64
	badResources atomic.Uint64
	subscribed   atomic.Bool

	// Owned by Run.
	view     *view
	plan     *readPlan
	locality map[string]string // node id → rule, for local nodes
	ignored  map[note]bool
	subs     subscriptions
	// dirty: the board has to be told. rows are the receivers that are to be told
	// anew, allRows: every one; agents: so are the agents.
	dirty, allRows, agents bool
	rows                   map[string]bool
	listed                 []Agent // as posted last
	// downLogged: that the registry is down is in the log already.
	downLogged bool
	work       sync.WaitGroup
	// unavailable and available are the receivers whose /active could not be read, or
	// could again; silent and answering the hosts of many of them.
	unavailable, available, silent, answering crowd
}

// event is what the goroutines beside the owner hand over. Exactly one member
// is set.
type event struct {
	pass    *pass
	message *subscriptionMessage
	state   *subscriptionState
	active  *activeEvent
}

type activeEvent struct {
	read   *read
	result activeResult
}

// errNoRegistry: nothing is configured or found. That is down, but no error.
var errNoRegistry = errors.New("no registry is configured or found")

// NewObserver validates the configuration. It does no I/O.
func NewObserver(cfg ObserverConfig) (*Observer, error) {
	if cfg.Directory == nil {
		return nil, errors.New("nmos observer: no directory")
	}
	if cfg.Local == nil {
		return nil, errors.New("nmos observer: no local rules")
	}
	cfg.PollInterval = orDefault(cfg.PollInterval, defaultPoll)
	cfg.RemoveHold = orDefault(cfg.RemoveHold, defaultRemoveHold)
	cfg.RestartHold = orDefault(cfg.RestartHold, defaultRestartHold)
	if cfg.Parallel <= 0 {
		cfg.Parallel = defaultParallel
	}
	cfg.Client = withRedirectRule(cfg.Client)
	cfg.Log = orDiscard(cfg.Log)
	o := &Observer{
		cfg:      cfg,
		changed:  make(chan struct{}, 1),
		pollNow:  make(chan struct{}, 1),
		events:   make(chan event, 64),
		view:     newView(cfg.RemoveHold, cfg.RestartHold, cfg.OwnNodeID),
		plan:     newReadPlan(cfg.PollInterval, cfg.Parallel),
		locality: map[string]string{},
		ignored:  map[note]bool{},
		rows:     map[string]bool{},
	}
	return o, nil
}

func orDefault(d, def time.Duration) time.Duration {
	if d <= 0 {
		return def
	}
	return d
}

// Snapshot is what is known now.
func (o *Observer) Snapshot() Snapshot {
	s := o.board.read()
	s.PollErrors = o.pollErrors.Load()
	s.ActiveErrors = o.activeErrors.Load()
	s.BadResources = o.badResources.Load()
	return s
}

// Changes fires when the snapshot's registry state, agents or receivers changed
// (capacity 1, one reader).
func (o *Observer) Changes() <-chan struct{} { return o.changed }

// Run observes until ctx ends and returns nil then. It is called once.
func (o *Observer) Run(ctx context.Context) error {
	ctx, stop := context.WithCancel(ctx)
	defer func() {
		stop()
		o.work.Wait()
		o.cfg.Local.wait()
		o.cfg.Client.CloseIdleConnections()
	}()
	o.work.Go(func() { o.poll(ctx) })
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case e := <-o.events:
			o.apply(ctx, e)
			for drained := false; !drained; {
				select {
				case e := <-o.events:
					o.apply(ctx, e)
				default:
					drained = true
				}
			}
		case <-o.cfg.Local.Resolved():
			o.refresh(time.Now())
		case <-timer.C:
		}
		timer.Reset(o.turn(ctx, time.Now()))
	}
}

// turn does what follows from what was applied and is due, and gives the time to the
// next one. What it costs depends on what has changed, not on what is known.
func (o *Observer) turn(ctx context.Context, now time.Time) time.Duration {
	if o.view.expireDue(now) {
		o.view.expire(now, o.answers)
	}
	o.takeOver(now)
	o.startReads(ctx, now)
	o.publish()
	return until(now, o.view.soonest, o.plan.wake(), o.tellCrowds(now))
}

// until is the wait for the earlier of two instants; zero instants do not count.
func until(now time.Time, instants ...time.Time) time.Duration {
	wait := time.Hour
	for _, at := range instants {
		if !at.IsZero() {
			wait = min(wait, at.Sub(now))
		}
	}
	return max(wait, 0) + wakeQuantum
}

func (o *Observer) apply(ctx context.Context, e event) {
	now := time.Now()
	var asked touched
	switch {
	case e.pass != nil:
		asked = o.applyPass(ctx, *e.pass, now)
		o.refresh(now) // names may have got other addresses
	case e.message != nil:
		if e.message.generation != o.subs.generation {
			return
		}
		o.note(e.message.notes)
		asked = o.view.applyMessage(e.message.message, now)
		o.takeOver(now)
	case e.state != nil:
		o.applySubscription(*e.state)
	case e.active != nil:
		o.applyActive(*e.active, now)
	}
	for id := range asked {
		o.plan.ask(id, now)
	}
}

func (o *Observer) applyPass(ctx context.Context, p pass, now time.Time) touched {
	wasUp := o.view.up
	o.note(p.notes)
	var epoch uint64
	if o.cfg.RegistrationEpoch != nil {
		epoch = o.cfg.RegistrationEpoch()
	}
	asked := o.view.applyPass(p, epoch, now)
	switch {
	case errors.Is(p.err, errNoRegistry):
	case p.err != nil:
		o.pollErrors.Add(1)
		if !o.downLogged {
			o.downLogged = true
			o.cfg.Log.Warn("nmos_registry_down", "url", p.base, "error", p.err)
		}
	case !wasUp:
		o.downLogged = false
		o.cfg.Log.Info("nmos_registry_up", "url", p.base)
	}
	if p.err == nil && !o.cfg.NoSubscriptions && o.subs.base != p.base {
		o.subscribe(ctx, p.base)
	}
	return asked
}

// note logs what was ignored, each thing once, and counts it.
func (o *Observer) note(notes []note) {
	const remembered = 4096
	for _, n := range notes {
		n.reason = clip(n.reason)
		if o.ignored[n] {
			continue
		}
		o.badResources.Add(1)
		if len(o.ignored) >= remembered {
			continue // counted, not logged: the log is not the registry's to fill
		}
		o.ignored[n] = true
		o.cfg.Log.Warn("nmos_resource_ignored", "resource", n.kind.String(), "id", n.id, "reason", n.reason)
	}
}

// refresh works out anew which nodes are local: this host's addresses and what names
// resolve to may have changed.
func (o *Observer) refresh(now time.Time) {
	for id := range o.view.entries[kindNode] {
		if o.match(id) {
			o.view.mark(kindNode, id)
		}
	}
	o.takeOver(now)
}

// match brings the locality of a node up to date and says whether it is another one.
func (o *Observer) match(id string) bool {
	n := o.view.node(id)
	if n == nil {
		_, was := o.locality[id]
		delete(o.locality, id)
		return was
	}
	rule, local := o.cfg.Local.Match(LocalNode{ID: id, Hostname: n.hostname, Hosts: n.hosts})
	if o.locality[id] == rule {
		return false
	}
	o.cfg.Log.Debug("nmos_node_local", "node_id", id, "hostname", clip(n.hostname), "rule", rule)
	if local {
		o.locality[id] = rule
	} else {
		delete(o.locality, id)
	}
	return true
}

// takeOver follows what changed in the view: which of the receivers that this is about
// are read, and that they are told anew.
func (o *Observer) takeOver(now time.Time) {
	c := o.view.changed
	if !c.any() {
		return
	}
	o.view.changed = changes{}
	o.dirty, o.allRows, o.agents = true, o.allRows || c.all, o.agents || c.all || c.agents
	device := func(id string) {
		for receiver := range o.view.kin.receivers[id] {
			o.look(receiver, now)
		}
	}
	for id := range c.ids[kindNode] {
		o.match(id)
		for d := range o.view.kin.devices[id] {
			device(d)
		}
	}
	for id := range c.ids[kindDevice] {
		device(id)
	}
	for id := range c.ids[kindReceiver] {
		o.look(id, now)
	}
}

// look plans the reads of a receiver, or that there are none, and has it told anew.
func (o *Observer) look(id string, now time.Time) {
	o.rows[id] = true
	if o.isLocal(id) {
		o.plan.add(id, now)
		return
	}
	o.plan.remove(id)
	if e := o.view.entries[kindReceiver][id]; e != nil && e.forgot {
		o.view.look = true // nothing answers for it any more
	}
}

func (o *Observer) isLocal(receiverID string) bool {
	e := o.view.entries[kindReceiver][receiverID]
	if e == nil || !e.res.receiver.mxl {
		return false
	}
	d := o.view.device(e.res.receiver.deviceID)
	return d != nil && o.locality[d.nodeID] != ""
}

// controls are the Connection APIs of a receiver's device.
func (o *Observer) controls(receiverID string) []control {
	if e := o.view.entries[kindReceiver][receiverID]; e != nil {
		if d := o.view.device(e.res.receiver.deviceID); d != nil {
			return d.controls
		}
	}
	return nil
}

// answers: the last read of a receiver succeeded.
func (o *Observer) answers(receiverID string) bool {
	r := o.plan.reads[receiverID]
	return r != nil && r.known && !r.stale
}

func (o *Observer) send(ctx context.Context, e event) {
	select {
	case o.events <- e:
	case <-ctx.Done():
	}
}
