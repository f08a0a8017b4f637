package mirror

import "time"

// FlowState is the state of one mirror flow in GET /api/v1/mirrors
// (agent API reference §15.2).
type FlowState string

// States of a mirror flow.
const (
	FlowConflict    FlowState = "conflict"           // the domain is local here, or the directory is not ours
	FlowAbsent      FlowState = "absent"             // no mirror, and none is to be made, or it cannot be
	FlowPeerDown    FlowState = "peer_down"          // mirror there, its source is not
	FlowNoSpace     FlowState = "insufficient_space" // it would cross TMPFS_RESERVE_MB
	FlowOrphaned    FlowState = "orphaned"           // wanted, origin inactive for longer than MIRROR_GRACE_S
	FlowIdle        FlowState = "idle"               // mirror there, nothing moves
	FlowReplicating FlowState = "replicating"        // mirror there, a replication is held
)

// Action is what is to be done with a mirror flow or domain.
type Action int

// Actions of a plan.
const (
	Leave  Action = iota // nothing
	Ensure               // make it or keep it open
	Remove               // remove it, for the plan's reason
)

// FlowFacts is what the plan of one flow depends on.
type FlowFacts struct {
	Local    bool // the origin domain is on this node
	Foreign  bool // the mirror directory exists and is not ours
	Excluded bool // the filter excludes the flow
	PeerUp   bool // the source peer answers
	Offered  bool // an up peer lists the flow
	Active   bool // a writer holds the origin
	OnDisk   bool // the mirror exists
	Demand   bool // a receiver on this host wants it
	Hold     bool // demand now, or lost for less than RELEASE_GRACE_MS
	Fits     bool // there is room for it ([Fits]); counts only while it is not on disk
	Eager    bool // MIRROR_MODE=eager

	InactiveFor time.Duration // how long the origin has had no writer
	Grace       time.Duration // MIRROR_GRACE_S
}

// FlowPlan is the decision for one flow.
type FlowPlan struct {
	State  FlowState
	Action Action
	Reason Reason // of Remove
	Pull   bool   // a replication is to run
}

// PlanFlow decides one flow; the first condition that holds wins
// (agent API reference §15.2).
func PlanFlow(f FlowFacts) FlowPlan {
	switch {
	case f.Local, f.Foreign:
		return FlowPlan{State: FlowConflict}
	case f.Excluded:
		if f.OnDisk {
			return FlowPlan{State: FlowAbsent, Action: Remove, Reason: Excluded}
		}
		return FlowPlan{State: FlowAbsent}
	case !f.PeerUp:
		return FlowPlan{State: present(f.OnDisk, FlowPeerDown)}
	case !f.Offered:
		// A missing origin is the business of the MissingClock.
		return FlowPlan{State: present(f.OnDisk, FlowIdle)}
	case !f.Active:
		return planInactive(f)
	case !f.Eager && !f.Hold:
		if f.OnDisk {
			return FlowPlan{State: FlowAbsent, Action: Remove, Reason: NoDemand}
		}
		return FlowPlan{State: FlowAbsent}
	case !f.OnDisk && !f.Fits:
		return FlowPlan{State: FlowNoSpace}
	case f.Hold:
		return FlowPlan{State: FlowReplicating, Action: Ensure, Pull: true}
	}
	return FlowPlan{State: FlowIdle, Action: Ensure}
}

// planInactive leaves a kept mirror as it is: its writer holds the lock, and a
// definition that a dead writer left behind is no reason to rebuild.
func planInactive(f FlowFacts) FlowPlan {
	late := f.InactiveFor > f.Grace
	switch {
	case !f.OnDisk && (f.Eager || f.Hold) && !f.Fits:
		return FlowPlan{State: FlowNoSpace}
	case !f.OnDisk:
		return FlowPlan{State: FlowAbsent}
	case late && f.Demand:
		return FlowPlan{State: FlowOrphaned}
	case late:
		return FlowPlan{State: FlowAbsent, Action: Remove, Reason: OriginGone}
	}
	return FlowPlan{State: FlowIdle}
}

func present(onDisk bool, state FlowState) FlowState {
	if onDisk {
		return state
	}
	return FlowAbsent
}
