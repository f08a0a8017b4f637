package agent

import (
	"github.com/mxl-stack/mxl-fabrics-agent/mxl"
)

// Roles of a replication row.
const (
	roleSource      = "source"
	roleDestination = "destination"
)

// replicationRow is one row of GET /api/v1/replications (agent API reference
// §8.1). Every field is always there; none is null.
type replicationRow struct {
	ReplicationID string  `json:"replication_id"`
	Role          string  `json:"role"` // source or destination
	DomainID      string  `json:"domain_id"`
	FlowID        string  `json:"flow_id"`
	Peer          string  `json:"peer"`
	Provider      string  `json:"provider"`
	State         string  `json:"state"`
	Grains        uint64  `json:"grains"` // continuous flows: transfers
	Bytes         uint64  `json:"bytes"`
	Errors        uint64  `json:"errors"`
	Restarts      uint64  `json:"restarts"`
	HeadIndex     uint64  `json:"head_index"`
	LagGrains     float64 `json:"lag_grains"`
	LagMS         float64 `json:"lag_ms"`
	OriginGaps    uint64  `json:"origin_gaps"`
	LastError     string  `json:"last_error"`
	Fallback      bool    `json:"fallback"`
}

func sourceRowView(v sourceView) replicationRow {
	grains := v.Target.Grains
	if grains == 0 {
		grains = v.Target.Transfers
	}
	return replicationRow{
		ReplicationID: v.ID, Role: roleSource, DomainID: v.Domain, FlowID: v.Flow.String(), Peer: v.Dest,
		Provider: v.Provider, State: v.State, Grains: grains, Bytes: v.Target.Bytes, Errors: v.Errors,
		HeadIndex: v.Head, OriginGaps: v.OriginGaps, LastError: v.Error, Fallback: v.Fallback,
	}
}

// unmade shows why there is no mirror to write to, where nothing else is wrong:
// without one no target is set up.
func (r *replicationRow) unmade(why string) {
	if why != "" && r.State == statePending {
		r.State = stateError
		if r.LastError == "" {
			r.LastError = why
		}
	}
}

// pulledRow shows a pull as the last pass and its mirror are.
func (a *Agent) pulledRow(p *pull, view *passView, tai uint64) (*destinationView, replicationRow) {
	v := p.shown()
	row := destinationRow(v, view.lagFacts(v), tai)
	row.unmade(a.mirrors.unmade(v.Key.mirror()))
	return v, row
}

// destinationRow shows a pull; the lag is that of the moment of the question.
func destinationRow(v *destinationView, f lagFacts, tai uint64) replicationRow {
	row := replicationRow{
		ReplicationID: v.Key.String(), Role: roleDestination, DomainID: v.Key.Domain, FlowID: v.Key.Flow.String(),
		Peer: v.Key.Peer, Provider: string(v.Provider), State: v.State, Grains: v.Grains, Bytes: v.Bytes,
		Errors: v.Errors, Restarts: v.Restarts, LastError: v.Error, Fallback: v.Fallback,
	}
	if v.HasHead && v.Head != mxl.UndefinedIndex {
		row.HeadIndex = v.Head
	}
	row.LagGrains, row.LagMS = lag(f, tai)
	return row
}
