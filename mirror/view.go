package mirror

import (
	"time"
)

// DomainView is one entry of GET /api/v1/mirrors (agent API reference §6.1).
type DomainView struct {
	DomainID     string      `json:"domain_id"`
	Path         string      `json:"path"`
	Origin       OriginView  `json:"origin"`
	State        DomainState `json:"state"`
	OnDisk       bool        `json:"on_disk"`
	Demand       bool        `json:"demand"`
	IdleSince    *int64      `json:"idle_since"` // Unix seconds
	AgeS         int64       `json:"age_s"`
	Readers      []Reader    `json:"readers"`
	ReadersKnown bool        `json:"readers_known"`
	ReadersError string      `json:"readers_error"`
	RemovalError string      `json:"removal_error"` // why its removal, which is due, failed; empty: it did not
	Flows        []FlowView  `json:"flows"`
}

// OriginView says where the origin of a mirror domain is.
type OriginView struct {
	HostID string `json:"host_id"`
	PeerUp bool   `json:"peer_up"`
	OnPeer bool   `json:"on_peer"` // an up peer lists it
	Local  bool   `json:"local"`   // it is on this node
}

// FlowView is one flow of a DomainView.
type FlowView struct {
	FlowID       string     `json:"flow_id"`
	Label        string     `json:"label"` // the first labelMost characters
	MediaType    string     `json:"media_type"`
	Format       string     `json:"format"`
	Active       bool       `json:"active"` // the mirror is on disk
	State        FlowState  `json:"state"`
	RemovalError string     `json:"removal_error"` // as of a domain
	Health       HealthView `json:"health"`
	Peer         string     `json:"-"` // where its grains come from
}

// HealthView is the health of a flow and its rebuilds.
type HealthView struct {
	State             HealthState `json:"state"`
	Reason            string      `json:"reason"`
	LastGrainAgeMS    *int64      `json:"last_grain_age_ms"` // null before the first grain
	StaleSince        *int64      `json:"stale_since"`       // Unix seconds
	StaleAfterMS      int64       `json:"stale_after_ms"`
	Rebuilds          int         `json:"rebuilds"`
	LastRebuild       *int64      `json:"last_rebuild"` // Unix seconds
	LastRebuildReason *string     `json:"last_rebuild_reason"`
}

// EventView is the data of the SSE event mirror.
type EventView struct {
	Event    string `json:"event"`
	DomainID string `json:"domain_id"`
	FlowID   string `json:"flow_id"`
	Peer     string `json:"peer"`
	HealthView
}

// ViewHealth gives the health fields of a flow.
func ViewHealth(h Health, m RebuildMemory, staleAfter time.Duration) HealthView {
	v := HealthView{
		State: h.State, Reason: h.Reason, StaleSince: unixSeconds(h.StaleSince),
		StaleAfterMS: staleAfter.Milliseconds(), Rebuilds: m.Count, LastRebuild: unixSeconds(m.Last),
	}
	if h.HasGrain {
		ms := h.GrainAge.Milliseconds()
		v.LastGrainAgeMS = &ms
	}
	if m.LastReason != "" {
		reason := string(m.LastReason)
		v.LastRebuildReason = &reason
	}
	return v
}

// View gives the data of the SSE event mirror; only for an event with a Name.
func (e Event) View() EventView {
	return EventView{
		Event: e.Name(), DomainID: e.DomainID, FlowID: e.FlowID.String(), Peer: e.Peer,
		HealthView: ViewHealth(e.Health, e.Memory, e.StaleAfter),
	}
}

// ViewMirrors gives the body of GET /api/v1/mirrors from the facts of a pass
// and what it decided. Never nil: an empty list is [].
func ViewMirrors(f Facts, out Outcome) []DomainView {
	f.listings = listingsOf(f.Peers)
	views := []DomainView{}
	where := map[string]int{}
	onDisk := map[string]DomainOnDisk{}
	for _, d := range f.OnDisk {
		onDisk[d.DomainID] = d
	}
	for _, step := range out.Domains {
		d := onDisk[step.DomainID]
		readers := f.readersOf(d)
		v := f.view(step.DomainID, d.SourceHost)
		v.Path, v.State, v.OnDisk, v.Demand = d.Path, step.State, true, step.Demand
		v.RemovalError = step.Blocked
		v.IdleSince, v.AgeS = unixSeconds(step.IdleSince), int64(age(f.Now, d.Made)/time.Second)
		v.Readers = append(v.Readers, readers.Mapped...)
		v.ReadersKnown = readers.Known
		if !readers.Known {
			v.ReadersError = readers.Why
		}
		where[step.DomainID] = len(views)
		views = append(views, v)
	}
	wanted := map[string]bool{} // domains of which a receiver here wants a flow
	for k, demand := range f.Demand {
		if demand {
			wanted[k.DomainID] = true
		}
	}
	named := map[string]bool{} // domains whose origin a flow has told; the marker does where none is on disk
	for _, step := range out.Flows {
		i, found := where[step.DomainID]
		if !found {
			if step.untold() {
				continue
			}
			i = len(views)
			where[step.DomainID] = i
			v := f.view(step.DomainID, step.Peer)
			v.Demand = step.Pull || wanted[step.DomainID]
			v.State = DomainIdle
			if v.Demand && v.Origin.OnPeer || step.Do == Ensure {
				v.State = DomainActive
			}
			if v.Origin.Local {
				v.State = DomainSameNode
			}
			v.ReadersKnown = true // there is nothing to map
			views = append(views, v)
		}
		if step.untold() {
			continue
		}
		if step.OnDisk && !named[step.DomainID] {
			named[step.DomainID] = true
			views[i].Origin.HostID, views[i].Origin.PeerUp = step.Peer, f.Peers[step.Peer].Up
		}
		views[i].Flows = append(views[i].Flows, FlowView{
			Peer:   step.Peer,
			FlowID: step.FlowID.String(), Label: step.Label, MediaType: step.MediaType, Format: step.Format,
			Active: step.OnDisk, State: step.State,
			RemovalError: step.Blocked,
			Health:       ViewHealth(step.Health, step.Rebuilds, f.StaleAfter),
		})
	}
	return views
}

// untold says whether there is nothing to show of a flow: no mirror, none to be, none
// remembered.
func (s *FlowStep) untold() bool {
	return s.State == FlowAbsent && !s.OnDisk && !s.Unmade && s.Rebuilds.Gone() == ""
}

func (f *Facts) readersOf(d DomainOnDisk) ReaderFacts {
	report := f.Readers
	if report == nil {
		report = &ReaderReport{Why: "no reader check yet"}
	}
	keys := make([]Key, 0, len(d.Flows))
	for _, on := range d.Flows {
		keys = append(keys, on.Key)
	}
	return report.DomainFacts(d.DomainID, keys)
}

func (f *Facts) view(domainID, source string) DomainView {
	return DomainView{
		DomainID: domainID, Readers: []Reader{}, Flows: []FlowView{},
		Origin: OriginView{
			HostID: source, PeerUp: f.Peers[source].Up,
			OnPeer: f.listed(domainID), Local: f.LocalDomains[domainID],
		},
	}
}

// unixSeconds gives Unix seconds, null for the zero time.
func unixSeconds(t time.Time) *int64 {
	if t.IsZero() {
		return nil
	}
	s := t.Unix()
	return &s
}
