package agent

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/mxl-stack/mxl-fabrics-agent/mirror"
	"github.com/mxl-stack/mxl-fabrics-agent/nmos"
	"github.com/mxl-stack/mxl-fabrics-agent/peers"
)

const (
	domA  = "6a5b1d2e-7a3b-4c6d-9e8f-0a1b2c3d4e5f"
	flowA = "0d9f6c3a-2b71-4f5e-8a64-1c2d3e4f5a01"
)

func peerWith(host string, up bool, flows ...peers.Flow) peers.Peer {
	return peers.Peer{
		HostID: host, ControlURL: "http://192.0.2.9:8095/api/v1", Up: up, BootID: "boot-" + host, Link: peers.Link{Up: true}, ReceivedAt: t0,
		Inventory: &peers.Inventory{Revision: 1, HostID: host, Domains: []peers.Domain{{ID: domA, Options: json.RawMessage("{}"), Flows: flows}}},
	}
}

func flowOf(id string, active, live bool) peers.Flow {
	return peers.Flow{ID: id, Def: json.RawMessage(`{}`), Active: active, Live: live, GrainRate: peers.Rational{Numerator: 50, Denominator: 1}}
}

func wants(domain, flow string) nmos.Receiver {
	return nmos.Receiver{ID: "r1", Local: true, ActiveKnown: true, MasterEnable: true, DomainID: domain, FlowID: flow}
}

func keyA() mirror.Key { return mirror.Key{DomainID: domA, FlowID: uuid.MustParse(flowA)} }

func TestPlanOffersTheChosenOrigin(t *testing.T) {
	f := passFacts{Now: t0, Peers: []peers.Peer{
		peerWith("b", true, flowOf(flowA, true, false)),
		peerWith("c", true, flowOf(flowA, true, true)),
	}, Receivers: []nmos.Receiver{wants(domA, flowA)}}
	p := makePlan(f, nil)
	if got, _ := p.offer(keyA()); got.Source != "c" {
		t.Errorf("source %q, want the host that writes now", got.Source)
	}
	if len(p.Demand.Conflicts) != 1 || !p.Facts.Demand[keyA()] {
		t.Errorf("conflicts %v, demand %v", p.Demand.Conflicts, p.Facts.Demand)
	}
	// Among equals the choice stays.
	f.Peers[0].Inventory.Domains[0].Flows[0].Live = true
	again := makePlan(f, p.Chosen)
	if got, _ := again.offer(keyA()); got.Source != "c" {
		t.Errorf("source %q, want the present choice kept", got.Source)
	}
}

func TestPlanKeepsTheChoiceOfAPeerThatIsDown(t *testing.T) {
	f := passFacts{Now: t0, Peers: []peers.Peer{peerWith("b", true, flowOf(flowA, true, true))}, Receivers: []nmos.Receiver{wants(domA, flowA)}}
	p := makePlan(f, nil)
	f.Peers[0].Up = false
	down := makePlan(f, p.Chosen)
	if len(down.offers) != 0 || !down.Facts.Demand[keyA()] {
		t.Errorf("offers %v, demand %v", down.offers, down.Facts.Demand)
	}
	if down.Chosen[nmos.NewFlowKey(domA, flowA)] != "b" {
		t.Error("the choice was forgotten while its host is down")
	}
	if down.Demand.Receivers[0].State != nmos.StateUnresolved {
		t.Errorf("receiver %s, want unresolved", down.Demand.Receivers[0].State)
	}
}

func TestPlanSpellsDomainIDsAsTheOriginDoes(t *testing.T) {
	const spelled = "6A5B1D2E-7A3B-4C6D-9E8F-0A1B2C3D4E5F"
	peer := peerWith("b", true, flowOf(flowA, true, true))
	peer.Inventory.Domains[0].ID = spelled
	p := makePlan(passFacts{Now: t0, Peers: []peers.Peer{peer}, Receivers: []nmos.Receiver{wants(domA, flowA)}}, nil)
	k := mirror.Key{DomainID: spelled, FlowID: uuid.MustParse(flowA)}
	if o, _ := p.offer(k); !p.Facts.Demand[k] || o.Source != "b" {
		t.Errorf("demand %v, offers %v: want both under %s", p.Facts.Demand, p.offers, spelled)
	}
}

func TestPlanOfALocalDomain(t *testing.T) {
	f := passFacts{Now: t0, LocalDomains: []string{domA}, Peers: []peers.Peer{peerWith("b", true, flowOf(flowA, true, true))}, Receivers: []nmos.Receiver{wants(domA, flowA)}}
	p := makePlan(f, nil)
	p.Outcome = mirror.NewLedger().Pass(p.Facts)
	if p.Facts.Demand[keyA()] {
		t.Error("a receiver of a local domain is demand")
	}
	if s := p.Outcome.Flow(keyA()); s == nil || s.Pull || s.Do == mirror.Ensure {
		t.Errorf("step %+v: nothing is mirrored from another host while the domain is here", s)
	}
}

func TestPlanAndLedgerPullWhatIsWanted(t *testing.T) {
	f := passFacts{Now: t0, Started: t0.Add(-time.Hour), FreeBytes: 1 << 40, Settings: mirror.Settings{Eager: true, ReleaseGrace: 2 * time.Second, Grace: 10 * time.Second},
		Peers: []peers.Peer{peerWith("b", true, flowOf(flowA, true, true))}, RegistryAnswers: true}
	ledger := mirror.NewLedger()
	step := func(receivers ...nmos.Receiver) *mirror.FlowStep {
		f.Receivers = receivers
		p := makePlan(f, nil)
		p.Outcome = ledger.Pass(p.Facts)
		return p.Outcome.Flow(keyA())
	}
	if s := step(); s.Do != mirror.Ensure || s.Pull {
		t.Errorf("eager without a receiver: %+v, want a mirror and no pull", s)
	}
	if s := step(wants(domA, flowA)); !s.Pull {
		t.Error("a receiver and no pull")
	}
	f.Now = f.Now.Add(time.Second)
	if s := step(); !s.Pull {
		t.Error("released within RELEASE_GRACE_MS")
	}
	f.Now = f.Now.Add(2 * time.Second)
	if s := step(); s.Pull {
		t.Error("still pulled after RELEASE_GRACE_MS")
	}
}
