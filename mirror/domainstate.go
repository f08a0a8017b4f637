package mirror

import "time"

// DomainState is the cleanup state of one mirror domain (contract, "Mirror cleanup").
type DomainState string

// States of a mirror domain.
const (
	DomainSameNode DomainState = "same_node"
	DomainOrphan   DomainState = "orphan"
	DomainActive   DomainState = "active"
	DomainIdle     DomainState = "idle"
)

// PeerSight is what is known about the source peer of a mirror domain.
type PeerSight int

// Sights of a peer.
const (
	PeerUnknown PeerSight = iota // no peer of that host id
	PeerDown                     // known, does not answer
	PeerUp                       // known and answers
)

// DomainFacts is what the cleanup of one mirror domain depends on.
type DomainFacts struct {
	Local     bool      // the origin domain is on this node
	Listed    bool      // an up peer lists the origin domain
	Source    PeerSight // the peer the marker names
	Settled   bool      // the source peer's inventory is settled; counts only while it is up
	Demand    bool      // a receiver here wants one of its flows
	Hold      bool      // a replication of one of its flows is held
	LiveEager bool      // eager mode mirrors a live origin of the domain

	IdleFor   time.Duration // how long there has been neither demand nor hold nor live origin
	IdleGrace time.Duration // MIRROR_IDLE_GRACE_S; 0: never
}

// DomainVerdict is the decision for one mirror domain.
type DomainVerdict struct {
	State  DomainState
	Reason Reason // why it is to go; empty: it is kept
	Guard  Guard  // what still holds it back
}

// Go says whether the domain is to be removed now.
func (v DomainVerdict) Go() bool { return v.Reason != "" && v.Guard == NoGuard }

// StateOf gives the cleanup state alone.
func (f DomainFacts) StateOf() DomainState {
	switch {
	case f.Local:
		return DomainSameNode
	case !f.Listed && f.Source != PeerDown:
		return DomainOrphan
	case f.Demand || f.Hold || f.LiveEager:
		return DomainActive
	}
	return DomainIdle
}

// JudgeDomain decides whether a mirror domain goes (contract, "Mirror
// cleanup"). The settled rule of the single flows also gates orphans: an up
// source whose inventory is not settled yet may still list the domain.
func JudgeDomain(f DomainFacts, around Surroundings, readers ReaderFacts) DomainVerdict {
	v := DomainVerdict{State: f.StateOf()}
	needsRegistry := false
	switch v.State {
	case DomainActive:
		return v
	case DomainSameNode:
		v.Reason = SameNode
	case DomainOrphan:
		v.Reason = Orphan
		needsRegistry = true
	case DomainIdle:
		if f.IdleGrace == 0 {
			return v
		}
		v.Reason = IdleLong
		needsRegistry = true // without the registry demand is not known
	}
	v.Guard = around.holds(needsRegistry)
	switch {
	case v.Guard != NoGuard:
	case v.State == DomainOrphan && f.Source == PeerUp && !f.Settled:
		v.Guard = NotSettled
	case v.State == DomainIdle && f.IdleFor < f.IdleGrace:
		v.Guard = GraceRuns
	default:
		v.Guard = readers.holds(mustBeFree)
	}
	if v.Guard == NoGuard && around.DryRun {
		v.Guard = DryRun
	}
	return v
}
