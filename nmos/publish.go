package nmos

import (
	"cmp"
	"slices"
)

// publish posts what changed and tells about it.
func (o *Observer) publish() {
	if !o.dirty {
		return
	}
	if o.agents {
		o.listed = o.view.agents(o.cfg.OwnHostID, o.cfg.OwnNodeID)
	}
	if o.allRows {
		for id := range o.view.entries[kindReceiver] {
			o.rows[id] = true
		}
	}
	rows := make(map[string]*Receiver, len(o.rows))
	for id := range o.rows {
		rows[id] = nil
		if e := o.view.entries[kindReceiver][id]; e != nil && e.res.receiver.mxl {
			r := o.receiver(id, e)
			rows[id] = &r
		}
	}
	o.board.post(Snapshot{
		RegistryUp: o.view.up, RegistryError: o.view.err, QueryURL: o.view.base,
		Subscribed: o.subs.allOpen(), Stale: o.view.stale(), Agents: o.listed,
	}, rows)
	o.dirty, o.allRows, o.agents, o.rows = false, false, false, map[string]bool{}
	select {
	case o.changed <- struct{}{}:
	default:
	}
}

func (o *Observer) receiver(id string, e *entry) Receiver {
	r := Receiver{ID: id, Label: cmp.Or(e.res.receiver.label, id), Stale: !o.view.up || !e.missing.IsZero()}
	if d := o.view.device(e.res.receiver.deviceID); d != nil {
		if n := o.view.node(d.nodeID); n != nil {
			r.NodeID, r.NodeLabel = d.nodeID, cmp.Or(n.label, d.nodeID)
			r.LocalRule = o.locality[d.nodeID]
			r.Local = r.LocalRule != ""
		}
	}
	if a := o.plan.reads[id]; a != nil && a.known {
		r.ActiveKnown, r.ActiveStale = true, a.stale
		r.MasterEnable, r.DomainID, r.FlowID = a.facts.masterEnable, a.facts.domainID, a.facts.flowID
	}
	return r
}

// agents lists the other agents. When several nodes claim one host id, the one
// that is listed now wins, then the lowest node id.
func (v *view) agents(ownHostID, ownNodeID string) []Agent {
	var list []Agent
	for id := range v.kin.agents {
		e := v.entries[kindNode][id]
		n := e.res.node
		if n.hostID == ownHostID || id == ownNodeID {
			continue
		}
		list = append(list, Agent{HostID: n.hostID, ControlURL: n.control, NodeID: id, Stale: !v.up || !e.missing.IsZero()})
	}
	slices.SortFunc(list, func(a, b Agent) int {
		return cmp.Or(cmp.Compare(a.HostID, b.HostID), compareBool(a.Stale, b.Stale), cmp.Compare(a.NodeID, b.NodeID))
	})
	return slices.CompactFunc(list, func(a, b Agent) bool { return a.HostID == b.HostID })
}

func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	default:
		return 1
	}
}
