package agent

import (
	"maps"
	"slices"
	"strings"

	"github.com/google/uuid"

	"github.com/mxl-stack/mxl-fabrics-agent/mirror"
	"github.com/mxl-stack/mxl-fabrics-agent/nmos"
	"github.com/mxl-stack/mxl-fabrics-agent/peers"
)

// planner makes the plans of the passes. Between two passes hardly anything but
// the heads of the flows changes, so it keeps what does not follow from them. It
// gives what makePlan gives, and belongs to one goroutine.
type planner struct {
	chosen   map[nmos.FlowKey]string // by the plan before
	listings map[string]*listing     // of the peers that are up, by host id
	last     joined
	needs    map[mirror.Key]mirrorNeed
	onDisk   map[mirror.Key]bool // flows of this pass
}

// listing is a peer's inventory as a plan uses it. Everything but inv stays as it
// was made: published plans hold it.
type listing struct {
	inv    *peers.Inventory
	offers nmos.PeerInventory
	lists  map[string]map[uuid.UUID]bool
	flows  []listedFlow
}

// listedFlow is a flow with its ids parsed, and where it is in the inventory.
type listedFlow struct {
	key          mirror.Key
	demand       nmos.FlowKey
	domain, flow int
}

// joined is a join of demand and offers, with what it was made of.
type joined struct {
	listings  []*listing // of the peers in their order, nil for one that offers nothing
	up        []peerUp
	receivers []nmos.Receiver
	local     []string
	onDisk    []string // domain ids

	demand nmos.Demand
	wanted map[mirror.Key]bool
	chosen map[nmos.FlowKey]string
	picks  []pick
	index  map[mirror.Key]int // of picks
	// settled says that the choice came out as it went in, so that the same facts
	// give the same again.
	settled bool
}

type peerUp struct {
	host string
	up   bool
}

// pick is a flow for which a peer was chosen.
type pick struct {
	peer int
	flow *listedFlow
}

// mirrorNeed is the room that a mirror of a definition takes.
type mirrorNeed struct {
	text, def, options string
	bytes              uint64
}

// listing digests the inventory of a peer, or finds that it is as before but for
// heads.
func (p *planner) listing(host string, inv *peers.Inventory) *listing {
	known := p.listings[host]
	if known != nil && (known.inv == inv || sameFlows(known.inv, inv)) {
		known.inv = inv
		return known
	}
	l := &listing{inv: inv, offers: offered(host, inv), lists: listed(inv)}
	for i := range inv.Domains {
		d := &inv.Domains[i]
		for j := range d.Flows {
			if id, err := uuid.Parse(d.Flows[j].ID); err == nil {
				l.flows = append(l.flows, listedFlow{
					key: mirror.Key{DomainID: d.ID, FlowID: id}, demand: nmos.NewFlowKey(d.ID, d.Flows[j].ID), domain: i, flow: j,
				})
			}
		}
	}
	p.listings[host] = l
	return l
}

// sameFlows says whether two inventories list the same flows in the same states.
func sameFlows(a, b *peers.Inventory) bool {
	return slices.EqualFunc(a.Domains, b.Domains, func(a, b peers.Domain) bool {
		return a.ID == b.ID && slices.EqualFunc(a.Flows, b.Flows, func(a, b peers.Flow) bool {
			return a.ID == b.ID && a.Active == b.Active && a.Live == b.Live
		})
	})
}

// join gives what the receivers want and who is chosen for what: that of the last
// plan, or another one when something it follows from has changed.
func (p *planner) join(f *passFacts, now joined) *joined {
	last := &p.last
	if last.settled && slices.Equal(last.listings, now.listings) && slices.Equal(last.up, now.up) &&
		slices.Equal(last.local, now.local) && slices.Equal(last.onDisk, now.onDisk) && slices.Equal(last.receivers, now.receivers) {
		return last
	}
	inventories := make([]nmos.PeerInventory, 0, len(now.listings))
	names := map[string]string{} // domain ids as they are spelled on disk or by a peer, by their lower case
	for _, id := range now.onDisk {
		names[strings.ToLower(id)] = id
	}
	for _, l := range now.listings {
		if l == nil {
			continue
		}
		inventories = append(inventories, l.offers)
		for i := range l.inv.Domains {
			id := l.inv.Domains[i].ID
			names[strings.ToLower(id)] = id
		}
	}
	now.demand = nmos.ComputeDemand(nmos.DemandFacts{
		Receivers: f.Receivers, LocalDomains: f.LocalDomains, Peers: inventories, Chosen: p.chosen,
	})
	now.wanted = make(map[mirror.Key]bool, len(now.demand.Entries))
	for _, e := range now.demand.Entries {
		id, err := uuid.Parse(e.Key.FlowID)
		if err != nil {
			continue
		}
		domain, known := names[e.Key.DomainID]
		if !known {
			domain = e.Key.DomainID
		}
		now.wanted[mirror.Key{DomainID: domain, FlowID: id}] = true
	}
	now.choose(p.chosen)
	now.index = make(map[mirror.Key]int, len(now.picks))
	for i := range now.picks {
		now.index[now.picks[i].flow.key] = i
	}
	now.settled = maps.Equal(now.chosen, p.chosen)
	p.chosen, p.last = now.chosen, now
	return &p.last
}

// choose lists the flows with the peer that was chosen for each.
func (j *joined) choose(before map[nmos.FlowKey]string) {
	j.chosen = make(map[nmos.FlowKey]string, len(j.demand.Origins))
	for i, l := range j.listings {
		if l == nil {
			continue
		}
		for n := range l.flows {
			flow := &l.flows[n]
			if o, ok := j.demand.Origins[flow.demand]; ok && o.HostID == j.up[i].host {
				j.picks = append(j.picks, pick{peer: i, flow: flow})
				j.chosen[flow.demand] = o.HostID
			}
		}
	}
	// A source that does not answer keeps its choice until another one offers
	// the flow: it may merely be restarting.
	down := map[string]bool{}
	for _, p := range j.up {
		down[p.host] = !p.up
	}
	for key, host := range before {
		if _, have := j.chosen[key]; !have && down[host] {
			j.chosen[key] = host
		}
	}
}

// need is the room that a mirror of the offer takes. An invalid definition needs
// nothing; making the mirror says what is wrong with it.
func (p *planner) need(k mirror.Key, o offer) uint64 {
	known, have := p.needs[k]
	if !have || known.text != o.Flow.DefText || known.def != string(o.Flow.Def) || known.options != string(o.Domain.Options) {
		known = mirrorNeed{text: o.Flow.DefText, def: string(o.Flow.Def), options: string(o.Domain.Options)}
		known.bytes, _ = o.origin(k).NeedBytes()
		p.needs[k] = known
	}
	return known.bytes
}

// forget drops what is kept of peers and flows that are not there any more.
func (p *planner) forget(facts *mirror.Facts, offered map[mirror.Key]int) {
	if len(p.listings) > len(facts.Peers) {
		maps.DeleteFunc(p.listings, func(host string, _ *listing) bool { return !facts.Peers[host].Up })
	}
	if len(p.needs) > len(offered) {
		maps.DeleteFunc(p.needs, func(k mirror.Key, _ mirrorNeed) bool { _, there := offered[k]; return !there })
	}
}
