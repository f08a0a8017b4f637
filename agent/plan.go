package agent

import (
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
	Facts   mirror.Facts
	Chosen  map[nmos.FlowKey]string // the choice that the next plan keeps among equals
	Outcome mirror.Outcome

	offers []offer
	index  map[mirror.Key]int // of offers
}

// offer is the flow as the peer that was chosen for it lists it.
func (p *plan) offer(k mirror.Key) (offer, bool) {
	i, offered := p.index[k]
	if !offered {
		return offer{}, false
	}
	return p.offers[i], true
}

// active says whether the flow is offered with a writer.
func (p *plan) active(k mirror.Key) bool {
	o, offered := p.offer(k)
	return offered && o.Flow.Active
}

// makePlan joins the facts. It is pure: the same facts and earlier choice give
// the same plan. The decisions about mirrors are the ledger's.
func makePlan(f passFacts, chosen map[nmos.FlowKey]string) plan {
	p := newPlanner()
	p.chosen = chosen
	return p.plan(f)
}

func newPlanner() *planner {
	return &planner{listings: map[string]*listing{}, needs: map[mirror.Key]mirrorNeed{}}
}

// plan joins the facts of one pass.
func (p *planner) plan(f passFacts) plan {
	facts := mirror.Facts{
		Now: f.Now, TAI: f.TAI, Started: f.Started, Settings: f.Settings, NMOS: f.NMOS, RegistryAnswers: f.RegistryAnswers,
		LocalDomains: set(f.LocalDomains), Foreign: set(f.Foreign), Peers: make(map[string]mirror.PeerFacts, len(f.Peers)),
		OnDisk: f.OnDisk, Readers: f.Readers, FreeBytes: f.FreeBytes,
	}
	now := joined{
		listings: make([]*listing, len(f.Peers)), up: make([]peerUp, len(f.Peers)),
		receivers: f.Receivers, local: f.LocalDomains, onDisk: make([]string, len(f.OnDisk)),
	}
	for i := range f.Peers {
		peer := &f.Peers[i]
		about := mirror.PeerFacts{Up: peer.Up, LinkUp: peer.Link.Up, Settled: peer.Settled}
		_, about.CountsAsDown = peer.Decides(f.Now)
		now.up[i] = peerUp{peer.HostID, peer.Up}
		if inv := peer.Offers(); inv != nil {
			now.listings[i] = p.listing(peer.HostID, inv)
			about.Lists = now.listings[i].lists
		}
		facts.Peers[peer.HostID] = about
	}
	flows := 0
	for i := range f.OnDisk {
		now.onDisk[i] = f.OnDisk[i].DomainID
		flows += len(f.OnDisk[i].Flows)
	}
	if p.onDisk == nil {
		p.onDisk = make(map[mirror.Key]bool, flows)
	}
	clear(p.onDisk)
	for i := range f.OnDisk {
		for j := range f.OnDisk[i].Flows {
			if flow := &f.OnDisk[i].Flows[j]; flow.Inode != 0 {
				p.onDisk[flow.Key] = true
			}
		}
	}
	j := p.join(&f, now)
	facts.Demand, facts.Offers = j.wanted, make([]mirror.Offer, 0, len(j.picks))
	out := plan{Demand: j.demand, Chosen: j.chosen, offers: make([]offer, 0, len(j.picks)), index: j.index}
	for _, chosen := range j.picks {
		peer := &f.Peers[chosen.peer]
		domain := &peer.Inventory.Domains[chosen.flow.domain]
		flow := &domain.Flows[chosen.flow.flow]
		k := chosen.flow.key
		o := offer{Source: peer.HostID, Domain: domain, Flow: flow}
		of := mirror.Offer{Key: k, Host: peer.HostID, Active: flow.Active, Live: flow.Live, Head: flow.HeadIndex, PolledAt: peer.ReceivedAt}
		if !p.onDisk[k] {
			of.NeedBytes = p.need(k, o)
		}
		out.offers, facts.Offers = append(out.offers, o), append(facts.Offers, of)
	}
	p.forget(&facts, j.index)
	out.Facts = facts
	return out
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
