package agent

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"github.com/mxl-stack/mxl-fabrics-agent/fabrics"
	"github.com/mxl-stack/mxl-fabrics-agent/mxl"
	"github.com/mxl-stack/mxl-fabrics-agent/peers"
)

// sourceLease is how long a row outlives the destination's last POST while
// nothing is connected to it. A destination repeats the POST every two seconds
// at the least for as long as it wants the flow; the original every 200 ms.
const sourceLease = 60 * time.Second

// maxDestinations is how many destinations one flow is sent to at most: more than a
// mesh has hosts. Each costs an endpoint, and whoever reaches the port can ask.
const maxDestinations = 256

var (
	errDomainNotLocal = errors.New("domain not local")
	errGroupEnded     = errors.New("the replication is being closed, ask again")
	errReleased       = errors.New("the destination was released meanwhile, ask again")
)

// sourceLane is what the source table needs of a fabrics.Source.
type sourceLane interface {
	SetTarget(key string, info fabrics.TargetInfo) error
	RemoveTarget(key string)
	Stats() fabrics.SourceStats
	Events() <-chan fabrics.SourceEvent
	Close() error
}

// sourceRoute is how this host reaches one destination.
type sourceRoute struct {
	Provider   fabrics.Provider
	Address    string // numeric local fabric address
	LinkUp     bool
	LinkReason string
	Fallback   bool // tcp may stand in for a provider that cannot be set up
}

type rowKey struct {
	Flow uuid.UUID
	Dest string
}

// groupKey names what shares one reader, one registration and one lane.
type groupKey struct {
	Flow     uuid.UUID
	Domain   string
	Address  string
	Provider fabrics.Provider
}

// sourceGroup is one lane and what is known of it. Its own mutex is held while
// the lane is opened or closed, which may take a while, so that other flows go on.
type sourceGroup struct {
	key groupKey
	id  string

	continuous atomic.Bool // the flow carries samples

	mu      sync.Mutex
	closed  bool
	renewed time.Time // when another lane was last tried in place of this one

	// lane and failed are written under mu and read without it, so that the loop
	// and the API never wait for a lane that is being opened.
	lane   atomic.Pointer[sourceLane]
	failed atomic.Pointer[string] // why the lane could not be opened
}

// sourceRow is one destination of one flow.
type sourceRow struct {
	id       string
	key      rowKey
	group    *sourceGroup
	target   netip.AddrPort // where the destination listens; zero when its address is none of these
	bootID   string         // destination's boot id where it said so
	askedAt  time.Time
	linkDown string // reason; non-empty while our link to the destination is down
	failed   string // why the target could not be added
	errors   uint64 // failures that no lane counts
	fallback bool
}

// sources is the table of flows this host sends. The HTTP handlers, the reconcile
// loop and the API read and change it; mu guards the maps and the rows.
type sources struct {
	open func(domainPath string, flow uuid.UUID, provider fabrics.Provider, address string) (sourceLane, error)
	// ended gets the last counts of a lane that has gone.
	ended func(g groupKey, id string, continuous bool, st fabrics.SourceStats)
	now   func() time.Time
	log   *slog.Logger

	mu     sync.Mutex
	rows   map[rowKey]*sourceRow
	groups map[groupKey]*sourceGroup
	closed bool
}

func newSources(log *slog.Logger, now func() time.Time, ended func(g groupKey, id string, continuous bool, st fabrics.SourceStats), open func(string, uuid.UUID, fabrics.Provider, string) (sourceLane, error)) *sources {
	return &sources{
		open: open, ended: ended, now: now, log: log,
		rows:   map[rowKey]*sourceRow{},
		groups: map[groupKey]*sourceGroup{},
	}
}

// has says whether the table has the destination of the flow.
func (s *sources) has(flow uuid.UUID, dest string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.rows[rowKey{Flow: flow, Dest: dest}] != nil
}

// ask handles one POST /api/v1/replications. The same question gives the same
// answer and changes nothing. domainPath is the local domain's directory.
func (s *sources) ask(req peers.ReplicationRequest, domainPath string, info fabrics.TargetInfo, route sourceRoute) (peers.ReplicationAnswer, error) {
	flow, err := uuid.Parse(req.FlowID)
	if err != nil {
		return peers.ReplicationAnswer{}, fmt.Errorf("flow_id %q: not a UUID", req.FlowID)
	}
	provider := route.Provider
	fallback := false
	if p := fabrics.Provider(info.Provider); p != provider && route.Fallback && p == fabrics.TCP {
		// The destination fell back; a verbs initiator could never reach it.
		provider, fallback = p, true
	}
	gk := groupKey{Flow: flow, Domain: req.DomainID, Address: route.Address, Provider: provider}
	rk := rowKey{Flow: flow, Dest: req.DestHostID}

	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return peers.ReplicationAnswer{}, errors.New("shutting down")
	}
	row := s.rows[rk]
	var left *sourceGroup
	if row == nil {
		if n := s.destinations(flow); n >= maxDestinations {
			s.mu.Unlock()
			return peers.ReplicationAnswer{}, fmt.Errorf("flow %s already has %d destinations", flow, n)
		}
		group := s.group(gk)
		row = &sourceRow{id: group.id, key: rk, group: group}
		s.rows[rk] = row
	} else if row.group.key != gk {
		left = row.group
		row.group = s.group(gk)
	}
	if fallback && !row.fallback {
		s.log.Warn("provider_fallback", "from", route.Provider, "to", provider, "flow_id", flow, "role", "source", "peer", rk.Dest)
	}
	row.askedAt, row.bootID, row.fallback = s.now(), req.DestBootID, fallback
	row.target, _ = info.AddrPort() // of another kind: the lane says what is wrong with it
	row.linkDown = ""
	if !route.LinkUp {
		row.linkDown = cmp.Or(route.LinkReason, "link down")
	}
	group, linkDown := row.group, row.linkDown
	group.continuous.Store(info.Bounce != nil)
	s.mu.Unlock()

	if left != nil {
		s.drop(left, rk.Dest)
	}
	if linkDown != "" {
		group.removeTarget(rk.Dest)
		return peers.ReplicationAnswer{ReplicationID: row.id, State: stateLinkDown, Error: linkDown}, nil
	}
	err = s.setTarget(group, domainPath, rk.Dest, info)
	if errors.Is(err, errGroupEnded) {
		// The last destination before this one was just released; begin anew.
		s.mu.Lock()
		if s.groups[gk] == group {
			delete(s.groups, gk)
		}
		group = s.group(gk)
		row.group = group
		s.mu.Unlock()
		err = s.setTarget(group, domainPath, rk.Dest, info)
	}
	s.mu.Lock()
	if s.rows[rk] != row {
		// A DELETE or a sweep came in between: nobody else would ever take the target away.
		s.mu.Unlock()
		s.drop(group, rk.Dest)
		return peers.ReplicationAnswer{}, errReleased
	}
	defer s.mu.Unlock()
	if err != nil {
		row.errors++
		if row.failed != err.Error() {
			s.log.Warn("add_target_failed", "flow_id", flow, "peer", rk.Dest, "error", err)
		}
		row.failed = err.Error()
		return peers.ReplicationAnswer{
			ReplicationID: row.id, State: stateError, Error: row.failed,
			Provider: string(otherProvider(err, route, fabrics.Provider(info.Provider))),
		}, err
	}
	row.failed = ""
	answer := s.answer(row)
	answer.TargetSecret = info.Secret != [16]byte{}
	return answer, nil
}

// destinations counts the rows of a flow. s.mu is held.
func (s *sources) destinations(flow uuid.UUID) (n int) {
	for k := range s.rows {
		if k.Flow == flow {
			n++
		}
	}
	return n
}

// group returns the group named k, making it when it is new. s.mu is held.
func (s *sources) group(k groupKey) *sourceGroup {
	g := s.groups[k]
	if g == nil {
		g = &sourceGroup{key: k, id: uuid.NewString()}
		s.groups[k] = g
	}
	return g
}

func (s *sources) setTarget(g *sourceGroup, domainPath, dest string, info fabrics.TargetInfo) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return errGroupEnded
	}
	lane := g.open()
	if lane == nil {
		var err error
		lane, err = s.open(domainPath, g.key.Flow, g.key.Provider, g.key.Address)
		if err != nil {
			reason := err.Error()
			g.failed.Store(&reason)
			return err
		}
		g.failed.Store(nil)
		g.lane.Store(&lane)
	}
	err := lane.SetTarget(dest, info)
	if (err != nil || lane.Stats().State == fabrics.StateError) && s.renew(g, domainPath, dest, info) {
		return nil
	}
	return err
}

// open is the group's lane, nil while there is none.
func (g *sourceGroup) open() sourceLane {
	if p := g.lane.Load(); p != nil {
		return *p
	}
	return nil
}

func (g *sourceGroup) removeTarget(dest string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if lane := g.open(); lane != nil {
		lane.RemoveTarget(dest)
	}
}

func (g *sourceGroup) stats() (fabrics.SourceStats, bool) {
	if lane := g.open(); lane != nil {
		return lane.Stats(), true
	}
	st := fabrics.SourceStats{State: fabrics.StatePending, Head: mxl.UndefinedIndex}
	if p := g.failed.Load(); p != nil {
		st.LastError = *p
	}
	return st, false
}

// end closes the group's lane for good; g.mu is held.
func (s *sources) end(g *sourceGroup) {
	g.closed = true
	lane := g.open()
	if lane == nil {
		return
	}
	g.lane.Store(nil)
	if err := lane.Close(); err != nil {
		s.log.Warn("source_close_failed", "flow_id", g.key.Flow, "error", err)
	}
	s.ended(g.key, g.id, g.continuous.Load(), lane.Stats())
}

func (s *sources) answer(row *sourceRow) peers.ReplicationAnswer {
	a := peers.ReplicationAnswer{ReplicationID: row.id}
	st, open := row.group.stats()
	a.State, a.Error = sourceRowState(row, st, open)
	if open && st.Head != mxl.UndefinedIndex {
		head := st.Head
		a.OriginHead = &head
	}
	return a
}

// sourceRowState is the state word and reason of a row.
func sourceRowState(row *sourceRow, st fabrics.SourceStats, open bool) (state, reason string) {
	if row.linkDown != "" {
		return stateLinkDown, row.linkDown
	}
	if row.failed != "" {
		return stateError, row.failed
	}
	if !open {
		return statePending, ""
	}
	if st.State == fabrics.StateError {
		return stateError, st.LastError
	}
	for _, t := range st.Targets {
		if t.Key == row.key.Dest {
			if t.State == fabrics.StateError {
				return stateError, t.LastError
			}
			return t.State.String(), ""
		}
	}
	return stateIdle, ""
}

// release ends what the destination named dest gets under id.
func (s *sources) release(id, dest string) bool {
	s.mu.Lock()
	var found *sourceRow
	for _, row := range s.rows {
		if row.id == id && row.key.Dest == dest {
			found = row
			break
		}
	}
	if found == nil {
		s.mu.Unlock()
		return false
	}
	delete(s.rows, found.key)
	group := found.group
	s.mu.Unlock()
	s.drop(group, dest)
	s.log.Info("replication_target_released", "replication_id", id, "flow_id", found.key.Flow, "peer", dest)
	return true
}

// drop takes dest off a group's lane and ends the lane when nobody is left on it.
// A destination that has asked again meanwhile keeps its target.
func (s *sources) drop(g *sourceGroup, dest string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	s.mu.Lock()
	used, asked := false, false
	for _, row := range s.rows {
		if row.group == g {
			used = true
			asked = asked || row.key.Dest == dest
		}
	}
	if !used && s.groups[g.key] == g {
		delete(s.groups, g.key)
	}
	s.mu.Unlock()
	switch {
	case !used:
		s.end(g)
	case !asked:
		if lane := g.open(); lane != nil {
			lane.RemoveTarget(dest)
		}
	}
}
