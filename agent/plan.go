package agent

import (
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/mxl-stack/mxl-fabrics-agent/mirror"
	"github.com/mxl-stack/mxl-fabrics-agent/nmos"
	"github.com/mxl-stack/mxl-fabrics-agent/peers"
)

// passFacts is everything one pass follows from. It is a snapshot: nothing in it
// changes while the pass is made.
type passFacts struct {
	Now     time.Time
	TAI     uint64 // ns, of the same moment
	Started time.Time

	LocalDomains []string // ids of the domains written on this host
	Foreign      []string // ids of mirror domains below our root that are not ours
	Receivers    []nmos.Receiver
	Peers        []peers.Peer
	OnDisk       []mirror.DomainOnDisk
	Readers      *mirror.ReaderReport
	FreeBytes    uint64

	Settings        mirror.Settings
	NMOS            bool // NMOS is on and a registry is configured
	RegistryAnswers bool
}

// offer is an origin flow as the chosen peer lists it.
type offer struct {
	Source string
	Domain *peers.Domain
	Flow   *peers.Flow
}

// origin is the flow as the mirror room takes it.
func (o offer) origin(k mirror.Key) mirror.Origin {
	return mirror.Origin{Key: k, SourceHost: o.Source, FlowDef: o.Flow.Definition(), Options: o.Domain.Options}
}

// plan is what the receivers want joined with what the peers offer, and the
// facts that the mirror decisions need of it.
type plan struct {
	Demand  nmos.Demand
	Offers  map[mirror.Key]offer
	Facts   mirror.Facts
	Chosen  map[nmos.FlowKey]string // the choice that the next plan keeps among equals
	Outcome mirror.Outcome
	Steps   map[mirror.Key]*mirror.FlowStep
}

// makePlan joins the facts. It is pure: the same facts and earlier choice give
// the same plan. The decisions about mirrors are the ledger's.
func makePlan(f passFacts, chosen map[nmos.FlowKey]string) plan {
	p := plan{Offers: map[mirror.Key]offer{}, Chosen: map[nmos.FlowKey]string{}}
	p.Facts = mirror.Facts{
		Now: f.Now, TAI: f.TAI, Started: f.Started, Settings: f.Settings, NMOS: f.NMOS, RegistryAnswers: f.RegistryAnswers,
		LocalDomains: set(f.LocalDomains), Foreign: set(f.Foreign), Peers: map[string]mirror.PeerFacts{},
		Offers: map[mirror.Key]mirror.Offer{}, Demand: map[mirror.Key]bool{}, OnDisk: f.OnDisk, Readers: f.Readers, FreeBytes: f.FreeBytes,
	}
	var inventories []nmos.PeerInventory
	for i := range f.Peers {
		peer := &f.Peers[i]
		facts := mirror.PeerFacts{Up: peer.Up, LinkUp: peer.Link.Up, Settled: peer.Settled}
		_, facts.CountsAsDown = peer.Decides(f.Now)
		if inv := peer.Offers(); inv != nil {
			inventories = append(inventories, offered(peer.HostID, inv))
			facts.Lists = listed(inv)
		}
		p.Facts.Peers[peer.HostID] = facts
	}
	p.Demand = nmos.ComputeDemand(nmos.DemandFacts{
		Receivers: f.Receivers, LocalDomains: f.LocalDomains, Peers: inventories, Chosen: chosen,
	})
	onDisk := map[mirror.Key]bool{}
	names := map[string]string{} // domain ids as they are spelled on disk or by a peer, by their lower case
	for _, d := range f.OnDisk {
		names[strings.ToLower(d.DomainID)] = d.DomainID
		for _, flow := range d.Flows {
			onDisk[flow.Key] = flow.Inode != 0
		}
	}
	for i := range f.Peers {
		p.takeOffers(&f.Peers[i], onDisk, names)
	}
	for _, e := range p.Demand.Entries {
		id, err := uuid.Parse(e.Key.FlowID)
		if err != nil {
			continue
		}
		domain, known := names[e.Key.DomainID]
		if !known {
			domain = e.Key.DomainID
		}
		p.Facts.Demand[mirror.Key{DomainID: domain, FlowID: id}] = true
	}
	// A source that does not answer keeps its choice until another one offers
	// the flow: it may merely be restarting.
	for key, host := range chosen {
		if _, have := p.Chosen[key]; !have {
			if facts, known := p.Facts.Peers[host]; known && !facts.Up {
				p.Chosen[key] = host
			}
		}
	}
	return p
}

// takeOffers adds the flows for which the peer was chosen.
func (p *plan) takeOffers(peer *peers.Peer, onDisk map[mirror.Key]bool, names map[string]string) {
	inv := peer.Offers()
	if inv == nil {
		return
	}
	for i := range inv.Domains {
		domain := &inv.Domains[i]
		names[strings.ToLower(domain.ID)] = domain.ID
		for j := range domain.Flows {
			flow := &domain.Flows[j]
			key := nmos.NewFlowKey(domain.ID, flow.ID)
			if o, ok := p.Demand.Origins[key]; !ok || o.HostID != peer.HostID {
				continue
			}
			id, err := uuid.Parse(flow.ID)
			if err != nil {
				continue
			}
			k := mirror.Key{DomainID: domain.ID, FlowID: id}
			o := offer{Source: peer.HostID, Domain: domain, Flow: flow}
			p.Offers[k] = o
			p.Chosen[key] = peer.HostID
			facts := mirror.Offer{Host: peer.HostID, Active: flow.Active, Live: flow.Live, Head: flow.HeadIndex, PolledAt: peer.ReceivedAt}
			if !onDisk[k] {
				// An invalid definition needs nothing; making the mirror says what
				// is wrong with it.
				facts.NeedBytes, _ = o.origin(k).NeedBytes()
			}
			p.Facts.Offers[k] = facts
		}
	}
}

// decide adds what the ledger decided.
func (p *plan) decide(outcome mirror.Outcome) {
	p.Outcome = outcome
	p.Steps = make(map[mirror.Key]*mirror.FlowStep, len(outcome.Flows))
	for i := range outcome.Flows {
		p.Steps[outcome.Flows[i].Key] = &outcome.Flows[i]
	}
}

func offered(host string, inv *peers.Inventory) nmos.PeerInventory {
	out := nmos.PeerInventory{HostID: host, Domains: make([]nmos.PeerDomain, len(inv.Domains))}
	for i := range inv.Domains {
		d := &inv.Domains[i]
		flows := make([]nmos.PeerFlow, len(d.Flows))
		for j := range d.Flows {
			flows[j] = nmos.PeerFlow{ID: d.Flows[j].ID, Live: d.Flows[j].Live, Active: d.Flows[j].Active}
		}
		out.Domains[i] = nmos.PeerDomain{ID: d.ID, Flows: flows}
	}
	return out
}

func listed(inv *peers.Inventory) map[string]map[uuid.UUID]bool {
	out := make(map[string]map[uuid.UUID]bool, len(inv.Domains))
	for i := range inv.Domains {
		flows := make(map[uuid.UUID]bool, len(inv.Domains[i].Flows))
		for j := range inv.Domains[i].Flows {
			if id, err := uuid.Parse(inv.Domains[i].Flows[j].ID); err == nil {
				flows[id] = true
			}
		}
		out[inv.Domains[i].ID] = flows
	}
	return out
}

func set(list []string) map[string]bool {
	out := make(map[string]bool, len(list))
	for _, s := range list {
		out[s] = true
	}
	return out
}
