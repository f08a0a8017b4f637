package agent

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/mxl-stack/mxl-fabrics-agent/mirror"
	"github.com/mxl-stack/mxl-fabrics-agent/mxl"
	"github.com/mxl-stack/mxl-fabrics-agent/nmos"
	"github.com/mxl-stack/mxl-fabrics-agent/peers"
)

// Names of the steps of an explanation, in their order. A flow goes through all
// of them on the host that receives it; on the host that sends it through
// origin and demand, and then through peer, link and lane of each destination.
const (
	stepReceiver   = "receiver"
	stepConnection = "connection"
	stepOrigin     = "origin"
	stepDemand     = "demand"
	stepPeer       = "peer"
	stepLink       = "link"
	stepLane       = "lane"
	stepMirror     = "mirror"
)

// explainFacts is everything that the explanation of one flow follows from: what
// the last pass saw and decided, and the lanes of that flow. It is a snapshot.
type explainFacts struct {
	HostID  string
	Key     mirror.Key
	Passed  bool // a pass has been made
	NMOSOff bool
	// RegistryError says why the registry does not answer; empty while it does.
	RegistryError string
	TAIOffset     int // of this host, seconds

	Receivers []nmos.Receiver
	Peers     []peers.Peer
	Routes    map[string]sourceRoute
	Plan      plan
	// MirrorError is the last failure to make, open or remove the mirror.
	MirrorError string

	Local *mxl.DomainRecord  // the domain, when it is written on this host
	Pulls []*destinationView // of this flow
	Lag   map[pullKey]flowLag
	Sends []sourceView // of this flow
}

// flowLag is how far a mirror is behind TAI.
type flowLag struct{ Grains, MS float64 }

// explainStep is one link of the chain. OK is null when it cannot be told as long
// as a step before it is broken.
type explainStep struct {
	Step   string `json:"step"`
	Peer   string `json:"peer,omitempty"` // the destination, on the host that sends
	OK     *bool  `json:"ok"`
	What   string `json:"what"`
	Remedy string `json:"remedy,omitempty"` // of a step that is not in order
}

// explanation is the answer of GET /api/v1/explain/{domain}/{flow}.
type explanation struct {
	HostID   string        `json:"host_id"`
	DomainID string        `json:"domain_id"`
	FlowID   string        `json:"flow_id"`
	Role     string        `json:"role"` // destination, or source when the domain is on this host
	OK       bool          `json:"ok"`
	Broken   string        `json:"broken"` // name of the first broken step, empty when all is well
	Summary  string        `json:"summary"`
	Steps    []explainStep `json:"steps"`
}

// chain collects steps.
type chain struct{ steps []explainStep }

func (c *chain) good(step, format string, args ...any) {
	ok := true
	c.steps = append(c.steps, explainStep{Step: step, OK: &ok, What: fmt.Sprintf(format, args...)})
}

func (c *chain) bad(step, remedy, format string, args ...any) {
	ok := false
	c.steps = append(c.steps, explainStep{Step: step, OK: &ok, What: fmt.Sprintf(format, args...), Remedy: remedy})
}

func (c *chain) open(step, format string, args ...any) {
	c.steps = append(c.steps, explainStep{Step: step, What: fmt.Sprintf(format, args...)})
}

// unwanted is a step that nobody has asked for: no fault, and nothing flows.
func (c *chain) unwanted(step, remedy, format string, args ...any) {
	c.open(step, format, args...)
	c.steps[len(c.steps)-1].Remedy = remedy
}

// nobodyAsks says whether the step is an unwanted one.
func (s *explainStep) nobodyAsks() bool { return s.OK == nil && s.Remedy != "" }

// follows is bad, unless a step before it is broken already, or nobody asks for the
// flow: then it may be no more than what follows from that, and needs no remedy of
// its own. from is where the steps begin that it depends on.
func (c *chain) follows(from int, step, remedy, format string, args ...any) {
	for i := range c.steps[from:] {
		if s := &c.steps[from+i]; s.OK != nil && !*s.OK || s.nobodyAsks() {
			c.open(step, format, args...)
			return
		}
	}
	c.bad(step, remedy, format, args...)
}

// explain walks the chain of one flow. It is pure.
func explain(f explainFacts) explanation {
	e := explanation{HostID: f.HostID, DomainID: f.Key.DomainID, FlowID: f.Key.FlowID.String(), Role: roleDestination}
	var c chain
	switch {
	case !f.Passed:
		c.bad(stepReceiver, "Wait for the first pass: /readyz says when.", "The agent has just started and has not looked at anything yet.")
	case f.Local != nil:
		e.Role = roleSource
		f.explainSource(&c)
	default:
		f.explainDestination(&c)
	}
	e.Steps = c.steps
	e.OK = true
	for _, s := range c.steps {
		if s.OK == nil || !*s.OK {
			e.OK = false
		}
		if s.OK != nil && !*s.OK && e.Broken == "" {
			e.Broken = s.Step
			e.Summary = s.Step + ": " + s.What
		}
	}
	switch {
	case e.OK:
		e.Summary = "Everything is in order: " + c.steps[len(c.steps)-1].What
	case e.Broken == "":
		for _, s := range c.steps {
			if s.OK == nil {
				e.Summary = "Nothing is broken. " + s.What
				break
			}
		}
	default:
		// What is broken is in the way of whoever asks; here nobody does.
		for i := range c.steps {
			if s := &c.steps[i]; s.Step == stepConnection && s.nobodyAsks() {
				e.Summary += " " + s.What
			}
		}
	}
	return e
}

// peer finds a peer by its host id.
func (f *explainFacts) peer(host string) *peers.Peer {
	for i := range f.Peers {
		if f.Peers[i].HostID == host {
			return &f.Peers[i]
		}
	}
	return nil
}

// explainPeer and explainLink are the same at both ends.
func (f *explainFacts) explainPeer(c *chain, host string) {
	p := f.peer(host)
	switch {
	case p == nil:
		c.bad(stepPeer, "Add it to PEERS, or have its agent register with the same registry.", "%s is not known here as an agent.", host)
	case !p.Up:
		c.bad(stepPeer, peerRemedy(p.Error), "%s does not answer at %s: %s.", host, orNothing(p.ControlURL), orNothing(p.Error))
	default:
		c.good(stepPeer, "%s answers at %s, version %s%s%s.", host, p.ControlURL, orNothing(p.Info.Version), f.clockNote(p), identityNote(p))
	}
}

// identityNote names an agent that is not the expected one. It is no break: the
// peer is used all the same.
func identityNote(p *peers.Peer) string {
	if p.Warning == "" {
		return ""
	}
	return "; but " + p.Warning + ": compare HOST_ID there with host_id and control_url in PEERS here"
}

// clockNote names a TAI offset that differs from ours: grain indexes are then
// whole seconds apart.
func (f *explainFacts) clockNote(p *peers.Peer) string {
	if p.Info.TAIOffsetSeconds == f.TAIOffset {
		return ""
	}
	return fmt.Sprintf("; its TAI offset is %d s, ours %d s", p.Info.TAIOffsetSeconds, f.TAIOffset)
}

func (f *explainFacts) explainLink(c *chain, host string) {
	route, known := f.Routes[host]
	switch {
	case !known:
		c.open(stepLink, "Nothing is known of the way to %s.", host)
	case !route.LinkUp:
		c.bad(stepLink, linkRemedy(route.LinkReason), "The fabric link to %s is down on this host: %s.", host, orNothing(route.LinkReason))
	default:
		c.good(stepLink, "%s is reached over %s from %s.", host, route.Provider, route.Address)
	}
}

func orNothing(text string) string {
	if text == "" {
		return "nothing is known"
	}
	return text
}

// sameID compares ids that users, controllers and disks may spell in either case.
func sameID(a, b string) bool { return strings.EqualFold(a, b) }

// count is "1 receiver", "3 receivers".
func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// explainable gathers the facts of one flow.
func (a *Agent) explainable(domainID string, flow uuid.UUID) explainFacts {
	cfg := a.store.Config()
	view := a.view.load()
	f := explainFacts{
		HostID: cfg.HostID, Key: mirror.Key{DomainID: domainID, FlowID: flow}, Passed: view.plan.index != nil,
		NMOSOff: a.nmos == nil, TAIOffset: a.tai, Receivers: view.facts.Receivers, Peers: view.facts.Peers,
		Routes: a.routes(cfg, view.facts.Peers), Plan: view.plan, Lag: map[pullKey]flowLag{},
	}
	if a.nmos != nil {
		if observed := a.observed(); !observed.RegistryUp {
			f.RegistryError = observed.RegistryError
			if f.RegistryError == "" {
				f.RegistryError = "no answer yet"
			}
			if !a.nmos.observes {
				f.RegistryError = "no registry is configured"
			}
		}
	}
	// A domain is known by its own spelling from here on.
	for i := range view.plan.Outcome.Flows {
		if known := view.plan.Outcome.Flows[i].DomainID; sameID(known, domainID) {
			f.Key.DomainID = known
			break
		}
	}
	snapshot := a.scanner.Snapshot()
	for i := range snapshot.Domains {
		if d := &snapshot.Domains[i]; d.Class == mxl.DomainLocal && sameID(d.ID, domainID) {
			f.Local, f.Key.DomainID = d, d.ID
		}
	}
	f.MirrorError = a.mirrors.problem(f.Key)
	tai := mxl.Now()
	for _, p := range a.pullIndex.all() {
		if p.key.mirror() == f.Key {
			v := p.shown()
			f.Pulls = append(f.Pulls, v)
			grains, ms := lag(view.lagFacts(v), tai)
			f.Lag[p.key] = flowLag{grains, ms}
		}
	}
	for _, v := range a.sources.list() {
		if v.Flow == flow && sameID(v.Domain, domainID) {
			f.Sends = append(f.Sends, v)
		}
	}
	return f
}

// problem is the last failure to change a mirror flow, or its whole domain.
func (m *mirrorDeeds) problem(k mirror.Key) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	if text := m.failed[k]; text != "" {
		return text
	}
	return m.failed[mirror.Key{DomainID: k.DomainID}]
}

// ago is a time in the past in words.
func ago(now, then time.Time) string {
	if then.IsZero() {
		return "never"
	}
	return now.Sub(then).Round(100*time.Millisecond).String() + " ago"
}

// fewOf joins the first few of a list.
func fewOf(list []string) string {
	const most = 5
	list = slices.Clone(list)
	slices.Sort(list)
	if len(list) > most {
		return strings.Join(list[:most], ", ") + fmt.Sprintf(" and %d more", len(list)-most)
	}
	return strings.Join(list, ", ")
}
