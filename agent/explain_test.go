package agent

import (
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/mxl-stack/mxl-fabrics-agent/fabrics"
	"github.com/mxl-stack/mxl-fabrics-agent/mirror"
	"github.com/mxl-stack/mxl-fabrics-agent/mxl"
	"github.com/mxl-stack/mxl-fabrics-agent/nmos"
	"github.com/mxl-stack/mxl-fabrics-agent/peers"
)

const (
	explainedDomain = "1b4f5c8e-3c4e-4a6e-9f10-2f6a8d7c9b01"
	explainedFlow   = "7f0d9c52-8a3b-4c7e-b6d1-0e5f4a3b2c11"
)

// situation is a host on which everything is in order, for a case to spoil.
type situation struct {
	pass  passFacts
	pull  *destinationView // nil: none
	lag   flowLag
	route sourceRoute

	nmosOff       bool
	registryError string
	mirrorError   string
	local         *mxl.DomainRecord
	sends         []sourceView
	notPassed     bool
}

func (s *situation) peer() *peers.Peer { return &s.pass.Peers[0] }
func (s *situation) flow() *peers.Flow { return &s.peer().Inventory.Domains[0].Flows[0] }

func (s *situation) down(word string) {
	s.peer().Up, s.peer().Error, s.peer().Settled = false, word, false
}

func (s *situation) noMirror() { s.pass.OnDisk, s.pull = nil, nil }

func orderly() *situation {
	now := time.Unix(1_800_000_000, 0)
	tai := uint64(now.UnixNano()) + 37e9
	rate := mxl.Rational{Numerator: 50, Denominator: 1}
	head := rate.IndexAt(tai) - 1
	id := uuid.MustParse(explainedFlow)
	def := []byte(`{"id":"` + explainedFlow + `","label":"x","description":"","tags":{"urn:x-nmos:tag:grouphint/v1.0":["x:Data"]},"parents":[],
		"format":"urn:x-nmos:format:data","media_type":"video/smpte291","grain_rate":{"numerator":50,"denominator":1}}`)
	key := mirror.Key{DomainID: explainedDomain, FlowID: id}
	return &situation{
		pass: passFacts{
			Now: now, TAI: tai, Started: now.Add(-time.Hour), FreeBytes: 1 << 30, NMOS: true, RegistryAnswers: true,
			Settings:  mirror.Settings{Eager: true, Grace: 10 * time.Second, IdleGrace: 5 * time.Minute, ReleaseGrace: 2 * time.Second, StaleAfter: 2 * time.Second, ReserveMB: 512},
			Receivers: []nmos.Receiver{{ID: "r1", Label: "monitor", Local: true, ActiveKnown: true, MasterEnable: true, DomainID: explainedDomain, FlowID: explainedFlow}},
			Peers: []peers.Peer{{
				HostID: "node-a", ControlURL: "http://192.0.2.1:8095/api/v1", Up: true, Settled: true, BootID: "b", Link: peers.Link{Up: true}, ReceivedAt: now.Add(-time.Second),
				Info: peers.Info{Version: "1.0.0", TAIOffsetSeconds: 37},
				Inventory: &peers.Inventory{HostID: "node-a", Revision: 3, Domains: []peers.Domain{{ID: explainedDomain, Path: "/mxl/a", Flows: []peers.Flow{{
					ID: explainedFlow, Def: def, DefText: string(def), Format: "discrete", MediaType: "video/smpte291", Active: true, Live: true,
					GrainRate: peers.Rational{Numerator: 50, Denominator: 1}, RingDepth: 10, PayloadSize: 4096, HeadIndex: &head,
				}}}}},
			}},
			OnDisk: []mirror.DomainOnDisk{{DomainID: explainedDomain, Path: "/mxl/mirror-" + explainedDomain, SourceHost: "node-a", Made: now.Add(-time.Minute),
				Flows: []mirror.FlowOnDisk{{Key: key, Inode: 7, Head: head, Rate: rate, Format: mxl.FormatData, MediaType: "video/smpte291", Held: true}}}},
			Readers: &mirror.ReaderReport{},
		},
		pull: &destinationView{Key: pullKey{Peer: "node-a", Domain: explainedDomain, Flow: id}, State: stateActive, Provider: fabrics.TCP, HasLane: true, Grains: 100,
			Stats: fabrics.TargetStats{Connected: true}},
		lag:   flowLag{Grains: 1, MS: 20},
		route: sourceRoute{Provider: fabrics.TCP, Address: "192.0.2.2", LinkUp: true},
	}
}

func (s *situation) receiver() *nmos.Receiver { return &s.pass.Receivers[0] }

func (s *situation) facts() explainFacts {
	p := makePlan(s.pass, map[nmos.FlowKey]string{})
	p.Outcome = mirror.NewLedger().Pass(p.Facts)
	f := explainFacts{
		HostID: "node-b", Key: mirror.Key{DomainID: explainedDomain, FlowID: uuid.MustParse(explainedFlow)}, Passed: !s.notPassed,
		NMOSOff: s.nmosOff, RegistryError: s.registryError, TAIOffset: 37, Receivers: s.pass.Receivers, Peers: s.pass.Peers,
		Routes: map[string]sourceRoute{}, Plan: p, MirrorError: s.mirrorError, Local: s.local, Lag: map[pullKey]flowLag{}, Sends: s.sends,
	}
	for _, peer := range s.pass.Peers {
		f.Routes[peer.HostID] = s.route
	}
	if s.pull != nil {
		f.Pulls, f.Lag[s.pull.Key] = []*destinationView{s.pull}, s.lag
	}
	return f
}

func TestExplainDestination(t *testing.T) {
	for _, c := range []struct {
		name   string
		spoil  func(*situation)
		broken string
		what   string // of the first broken step
		remedy string
	}{
		{"in order", func(*situation) {}, "", "", ""},
		{"no pass yet", func(s *situation) { s.notPassed = true }, stepReceiver, "has not looked", "/readyz"},
		{"nmos off", func(s *situation) { s.nmosOff, s.pass.Receivers = true, nil }, stepReceiver, "NMOS is off", "NMOS_ENABLE"},
		{"registry silent", func(s *situation) { s.registryError, s.pass.Receivers = "connection refused", nil }, stepReceiver, "connection refused", "NMOS_REGISTRY_ADDRESS"},
		{"receiver unknown", func(s *situation) { s.pass.Receivers = nil }, stepReceiver, "no MXL receiver at all", "register a receiver"},
		{"receiver not local", func(s *situation) { s.pass.Receivers[0].Local = false }, stepReceiver, "none on a node that counts", "LOCAL_NODE_CIDRS"},
		{"active not read", func(s *situation) { s.pass.Receivers[0].ActiveKnown = false }, stepConnection, "monitor cannot be read", "nmos_active_unavailable"},
		{"unresolved", func(s *situation) { s.noMirror(); s.peer().Inventory.Domains = nil }, stepOrigin, "unresolved: no peer that answers lists the domain; 1 of 1", "/api/v1/peers"},
		{"no peers", func(s *situation) { s.noMirror(); s.pass.Peers = nil }, stepOrigin, "unresolved", "Configure PEERS"},
		{"stale reference", func(s *situation) { s.flow().ID = uuid.NewString() }, stepOrigin, "stale_reference: node-a lists the domain with 1 flow", "ids are old"},
		{"not replicable", func(s *situation) {
			d := &s.peer().Inventory.Domains[0]
			d.Flows, d.NotReplicable = nil, []peers.Unusable{{Name: explainedFlow + mxl.FlowSuffix, Reason: "flow_def.json: width: 0"}}
		}, stepOrigin, "width: 0", "Correct"},
		{"record left out", func(s *situation) {
			s.peer().Inventory.Domains = nil
			s.peer().Inventory.Problems = []peers.Problem{{DomainID: explainedDomain, Reason: "flows is no array"}}
		}, stepOrigin, "flows is no array", "node-a"},
		{"origin inactive", func(s *situation) { s.flow().Active, s.flow().Live = false, false }, stepOrigin, "no writer holds it", "Start its writer on node-a"},
		{"origin silent", func(s *situation) { s.flow().Live = false }, stepOrigin, "writes nothing now", "signal"},
		{"origin never written", func(s *situation) { s.flow().Live, s.flow().HeadIndex = false, nil }, stepOrigin, "no grain yet", "signal"},
		{"origin silent, lane waits", func(s *situation) { s.flow().Live = false; s.pull.State = statePending }, stepOrigin, "writes nothing now: its head", "signal"},
		{"no peer answers", func(s *situation) { s.noMirror(); s.peer().Inventory = nil; s.down("http 404") }, stepOrigin, "0 of 1 answer, not node-a (http 404)", "/api/v1"},
		{"peer down", func(s *situation) { s.down("connect") }, stepPeer, "does not answer at http://192.0.2.1:8095/api/v1: connect", "Start its agent"},
		{"peer without url", func(s *situation) { s.down("no control url") }, stepPeer, "no control url", "control_url"},
		{"peer of the wrong path", func(s *situation) { s.down("http 404") }, stepPeer, "http 404", "/api/v1"},
		{"link down", func(s *situation) { s.route.LinkUp, s.route.LinkReason = false, "no carrier on eth1 (down)" }, stepLink, "no carrier on eth1", "cable"},
		{"no route address", func(s *situation) {
			s.route.LinkUp, s.route.LinkReason = false, "no local fabric address: set FABRIC_INTERFACE or the peer's local_fabric_addr"
		}, stepLink, "no local fabric address", "FABRIC_INTERFACE"},
		{"link of the source down", func(s *situation) { s.pull.State, s.pull.Error = stateLinkDown, "no carrier on eth7 (down)" }, stepLane, "no carrier on eth7", "cable"},
		{"handshake failed", func(s *situation) {
			s.pull.State, s.pull.Error = stateError, "http 500: provider verbs has no interface for 192.0.2.1"
		}, stepLane, "http 500: provider verbs has no interface", "FABRIC_INTERFACE"},
		{"source has no domain", func(s *situation) { s.pull.State, s.pull.Error = stateError, "http 404: domain not local" }, stepLane, "domain not local", "inventory"},
		{"target error", func(s *situation) {
			s.pull.State, s.pull.Error = stateError, "all 100 fabric ports from 23500 are in use"
		}, stepLane, "fabric ports", "FABRIC_PORT_COUNT"},
		{"no target", func(s *situation) { s.pull.State, s.pull.HasLane = statePending, false }, stepLane, "no target yet", "second"},
		{"not connected", func(s *situation) { s.pull.State, s.pull.Stats.Connected = statePending, false }, stepLane, "has not connected", "last_error"},
		{"no grain yet", func(s *situation) { s.pull.State = statePending }, stepLane, "no grain has come", "explain the flow on node-a"},
		{"insufficient space", func(s *situation) { s.noMirror(); s.pass.FreeBytes = 100 << 20 }, stepMirror, "insufficient_space", "tmpfs"},
		{"foreign directory", func(s *situation) { s.noMirror(); s.pass.Foreign = []string{explainedDomain} }, stepMirror, "not this agent's", "HOST_ID"},
		{"excluded", func(s *situation) { s.noMirror(); s.pass.Settings.Filter.ExcludeFlows = []string{explainedFlow} }, stepMirror, "filter", "MIRROR_EXCLUDE"},
		{"mirror cannot be made", func(s *situation) { s.noMirror(); s.mirrorError = "mkdir /mxl/mirror-x: permission denied" }, stepMirror, "permission denied", "write below the MXL root"},
		{"mirror being made", func(s *situation) { s.noMirror() }, stepMirror, "being made", "second"},
		{"mirror pending", func(s *situation) { s.pass.OnDisk[0].Flows[0].Head = 0 }, stepMirror, "first new grain", "MIRROR_STALE_MS"},
		{"late", func(s *situation) { s.lag.MS = 150 }, stepMirror, "150ms behind TAI", "clocks agree"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := orderly()
			c.spoil(s)
			checkExplanation(t, explain(s.facts()), roleDestination, c.broken, c.what, c.remedy)
		})
	}
}

// A flow that no receiver is connected to is not broken: the answer says so, and what
// to do. What is broken besides is named first.
func TestExplainNobodyConnected(t *testing.T) {
	const said = "No receiver on this host is connected to this flow: "
	for _, c := range []struct {
		name, what string
		spoil      func(*situation)
		broken     string
	}{
		{"master_enable false", "monitor has these ids, but its master_enable is false.", func(s *situation) { s.receiver().MasterEnable = false }, ""},
		{"ids unset", "the mxl_domain_id or mxl_flow_id of each is unset.", func(s *situation) { s.receiver().DomainID = "" }, ""},
		{"connected elsewhere", "1 to others, 0 to none.", func(s *situation) { s.receiver().FlowID = uuid.NewString() }, ""},
		{"and the mirror is being made", "1 to others", func(s *situation) { s.receiver().FlowID = uuid.NewString(); s.noMirror() }, ""},
		{"and the lane has no target any more", "1 to others", func(s *situation) {
			s.receiver().FlowID = uuid.NewString()
			s.pull.State, s.pull.HasLane = statePending, false
		}, ""},
		{"and nobody writes it", "1 to others", func(s *situation) {
			s.receiver().FlowID = uuid.NewString()
			s.flow().Active, s.flow().Live = false, false
		}, stepOrigin},
		{"and the link is down", "is unset", func(s *situation) {
			s.receiver().DomainID = ""
			s.route.LinkUp, s.route.LinkReason = false, "no carrier on eth1 (down)"
		}, stepLink},
	} {
		s := orderly()
		c.spoil(s)
		e := explain(s.facts())
		if e.OK || e.Broken != c.broken {
			t.Errorf("%s: ok %v, broken %q, want %q\n%+v", c.name, e.OK, e.Broken, c.broken, e.Steps)
		}
		step := e.Steps[1]
		if step.Step != stepConnection || step.OK != nil || !strings.HasPrefix(step.What, said) || !strings.Contains(step.What, c.what) || !strings.Contains(step.Remedy, "activate the receiver") {
			t.Errorf("%s: %+v", c.name, step)
		}
		before := c.broken + ": "
		if c.broken == "" {
			before = "Nothing is broken. "
		}
		if !strings.HasPrefix(e.Summary, before) || !strings.HasSuffix(e.Summary, step.What) {
			t.Errorf("%s: summary %q", c.name, e.Summary)
		}
	}
}

// What follows from a broken step is not called broken too, and a lane says that
// nothing moves when nothing does.
func TestExplainWhatFollows(t *testing.T) {
	for _, c := range []struct {
		name  string
		spoil func(*situation)
		step  string
		what  string
	}{
		{"the writer ended", func(s *situation) { s.flow().Active, s.flow().Live = false, false }, stepLane, "stands, and nothing moves"},
		{"the writer hangs", func(s *situation) { s.flow().Live, s.pull.State = false, statePending }, stepLane, "stands, and nothing moves"},
		{"the peer is down", func(s *situation) { s.down("connect") }, stepLane, "The last that was known"},
		{"our link is down", func(s *situation) {
			s.route.LinkUp, s.route.LinkReason, s.pull.State, s.pull.Error = false, "no carrier on eth1", stateLinkDown, "no carrier on eth1"
		}, stepLane, "no carrier on eth1"},
		{"the handshake fails", func(s *situation) {
			s.pull.State, s.pull.Error, s.pass.OnDisk[0].Flows[0].Head = stateError, "http 500: x", 0
		}, stepMirror, "first new grain"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := orderly()
			c.spoil(s)
			e := explain(s.facts())
			for _, step := range e.Steps {
				if step.Step != c.step {
					continue
				}
				if step.OK != nil || step.Remedy != "" || !strings.Contains(step.What, c.what) {
					t.Errorf("%+v", step)
				}
			}
			if e.Broken == "" || e.Broken == c.step {
				t.Errorf("broken %q", e.Broken)
			}
		})
	}
	if got := pullRemedy("node-a", "http 404: domain not local"); !strings.HasPrefix(got, "On node-a: ") {
		t.Error(got)
	}
}

func checkExplanation(t *testing.T, e explanation, role, broken, what, remedy string) {
	t.Helper()
	if e.Role != role || e.Broken != broken || e.OK != (broken == "") {
		t.Fatalf("role %s, broken %q, ok %v; want %s, %q\n%+v", e.Role, e.Broken, e.OK, role, broken, e.Steps)
	}
	if broken == "" {
		return
	}
	for _, s := range e.Steps {
		if s.OK == nil || *s.OK {
			if s.Remedy != "" {
				t.Errorf("step %s is not broken and has a remedy", s.Step)
			}
			continue
		}
		if !strings.Contains(s.What, what) {
			t.Errorf("%s says %q, want %q", s.Step, s.What, what)
		}
		if s.Remedy == "" || !strings.Contains(s.Remedy, remedy) {
			t.Errorf("%s: remedy %q, want %q", s.Step, s.Remedy, remedy)
		}
		if e.Summary != s.Step+": "+s.What {
			t.Errorf("summary %q", e.Summary)
		}
		return
	}
}

func TestExplainStale(t *testing.T) {
	for _, c := range []struct {
		name, reason, remedy string
		spoil                func(*situation)
	}{
		{"nothing arrives", mirror.NoNewGrains, "last_error", func(*situation) {}},
		{"link gone", mirror.LinkIsDown, "fabric link back", func(s *situation) { s.peer().Link = peers.Link{Error: "no carrier on eth1"} }},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := orderly()
			old := s.pass.OnDisk[0].Flows[0].Head - 500
			s.pass.OnDisk[0].Flows[0].Head = old
			c.spoil(s)
			ledger := mirror.NewLedger()
			var p plan
			for range 5 {
				p = makePlan(s.pass, map[nmos.FlowKey]string{})
				p.Outcome = ledger.Pass(p.Facts)
				s.pass.Now, s.pass.TAI = s.pass.Now.Add(time.Second), s.pass.TAI+1e9
				head := *s.flow().HeadIndex + 50
				s.flow().HeadIndex = &head
				s.peer().ReceivedAt = s.pass.Now
			}
			f := s.facts()
			f.Plan = p
			checkExplanation(t, explain(f), roleDestination, stepMirror, "stale ("+c.reason+")", c.remedy)
		})
	}
}

func TestExplainSource(t *testing.T) {
	id := uuid.MustParse(explainedFlow)
	domain := func() *mxl.DomainRecord {
		return &mxl.DomainRecord{ID: explainedDomain, Class: mxl.DomainLocal, Path: "/mxl/studio",
			Flows: []mxl.FlowRecord{{ID: id, Directory: explainedFlow + mxl.FlowSuffix, Active: true, Live: true, Def: &mxl.FlowDef{}}}}
	}
	sends := func() []sourceView {
		return []sourceView{{Dest: "node-a", Domain: explainedDomain, Flow: id, Provider: "tcp", State: stateActive}}
	}
	for _, c := range []struct {
		name                 string
		spoil                func(*situation)
		broken, what, remedy string
	}{
		{"in order", func(*situation) {}, "", "", ""},
		{"flow not there", func(s *situation) { s.local.Flows = nil }, stepOrigin, "with 0 flows", "writer is running"},
		{"not replicable", func(s *situation) { s.local.Flows[0].Reason = "header of another version" }, stepOrigin, "another version", "made these files"},
		{"no writer", func(s *situation) { s.local.Flows[0].Active = false }, stepOrigin, "no writer holds it", "Start its writer"},
		{"silent", func(s *situation) { s.local.Flows[0].Live = false }, stepOrigin, "writes nothing now", "clock"},
		{"nobody asks for what nobody writes", func(s *situation) { s.sends, s.local.Flows[0].Active = nil, false }, stepOrigin, "no writer holds it", "Start its writer"},
		{"destination unknown", func(s *situation) { s.sends[0].Dest = "node-z" }, stepPeer, "node-z is not known", "PEERS"},
		{"destination down", func(s *situation) { s.down("recv") }, stepPeer, "recv", "load"},
		{"own link down", func(s *situation) { s.route.LinkUp, s.route.LinkReason = false, "no carrier on eth1" }, stepLink, "no carrier", "cable"},
		{"connection refused", func(s *situation) { s.sends[0].State, s.sends[0].Error = stateError, "Connection refused" }, stepLane, "Connection refused", "fabric ports"},
		{"providers differ", func(s *situation) {
			s.sends[0].State, s.sends[0].Error = stateError, "target info: provider: tcp, want verbs"
		}, stepLane, "want verbs", "same provider"},
		{"link down", func(s *situation) { s.sends[0].State, s.sends[0].Error = stateLinkDown, "no carrier on eth1" }, stepLane, "link is down", "cable"},
		{"pending", func(s *situation) { s.sends[0].State = statePending }, stepLane, "not made yet", "fabric ports"},
		{"between targets", func(s *situation) { s.sends[0].State = stateIdle }, stepLane, "not open", "asks again"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := orderly()
			s.local, s.sends = domain(), sends()
			s.pass.LocalDomains = []string{explainedDomain}
			s.noMirror()
			c.spoil(s)
			e := explain(s.facts())
			checkExplanation(t, e, roleSource, c.broken, c.what, c.remedy)
			for _, step := range e.Steps {
				served := step.Step == stepPeer || step.Step == stepLink || step.Step == stepLane
				if served != (step.Peer != "") {
					t.Errorf("step %s names the destination %q", step.Step, step.Peer)
				}
			}
		})
	}
}

// A flow that nobody asks for is not broken; the answer says that nobody asks, and
// who could.
func TestExplainUnwantedSource(t *testing.T) {
	for _, c := range []struct {
		name, what string
		spoil      func(*situation)
	}{
		{"nobody asks", "known and answering: node-a", func(*situation) {}},
		{"nobody there", "not answering: node-a", func(s *situation) { s.down("connect") }},
		{"nobody known", "no other agent is known", func(s *situation) { s.pass.Peers = nil }},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := orderly()
			s.local = &mxl.DomainRecord{ID: explainedDomain, Class: mxl.DomainLocal, Path: "/mxl/studio",
				Flows: []mxl.FlowRecord{{ID: uuid.MustParse(explainedFlow), Directory: explainedFlow + mxl.FlowSuffix, Active: true, Live: true, Def: &mxl.FlowDef{}}}}
			s.pass.LocalDomains = []string{explainedDomain}
			s.noMirror()
			c.spoil(s)
			e := explain(s.facts())
			last := e.Steps[len(e.Steps)-1]
			if e.OK || e.Broken != "" || last.Step != stepDemand || last.OK != nil {
				t.Fatalf("%+v", e)
			}
			if !strings.HasPrefix(e.Summary, "Nothing is broken. Nobody asks for this flow") || !strings.Contains(last.What, c.what) || !strings.Contains(last.Remedy, "whose receiver") {
				t.Errorf("%q, %+v", e.Summary, last)
			}
		})
	}
}
