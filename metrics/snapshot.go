package metrics

import "time"

// Snapshot is everything the page shows that is a state rather than a count
// kept here. Two rows with the same labels are added up.
type Snapshot struct {
	PerFlow bool // METRICS_PER_FLOW

	HostID           string
	Version          string
	MXLVersion       string
	LibfabricVersion string

	DomainsLocal, DomainsMirror, DomainsConflict int
	FlowsActive, FlowsInactive                   int // of local domains
	TmpfsFree, TmpfsSize                         uint64
	TAIOffset                                    int // seconds

	Peers           []Peer
	OriginConflicts int
	RegistryUp      bool
	NMOSPollErrors  uint64
	Demand          map[string]int // state to entries

	Replications []Replication
	Lanes        []Lane

	RequestedACKTimeout time.Duration // 0: left to rdma_cm
	RequestedRetries    int
	// QueuePairsUnreported counts those that were not read back in time.
	QueuePairsUnreported uint64

	Mirrors       []Mirror
	MirrorDomains map[string]int // state to domains
}

// Peer is one row of peer_up.
type Peer struct {
	HostID    string
	Interface string
	Up        bool // control plane and link
	// Device and Retransmits are of the RDMA device of the link; nil where
	// there is no such counter.
	Device      string
	Retransmits *uint64
}

// Replication is one row of the replication table.
type Replication struct {
	FlowID, Peer string
	Role         string // "source" or "destination"
	Provider     string
	State        string

	Grains, Bytes, Errors uint64
	Restarts              uint64  // destination
	OriginGaps            uint64  // source
	LagGrains, LagMS      float64 // destination
	QueueDepth            int     // 0 on sources
}

// Lane is what one lane, or one target of a source lane, counted so far.
// Unused histograms stay zero.
type Lane struct {
	// Key identifies the lane over its life; a new lane of the same flow has
	// another.
	Key        string
	FlowID     string
	Role       string // "source" or "destination"
	Provider   string
	Continuous bool

	Transfer       Buckets // source: post to completion
	TransferStalls uint64
	AgeOrigin      Buckets // continuous flows only, as the rest
	AgeSent        Buckets
	AgeDelivered   Buckets
	DeliveryGap    Buckets
	LateDeliveries uint64 // discrete flows too
	Strangers      uint64 // destination: connections refused because of who made them
	ThreadStall    map[string]Buckets
}

// Mirror is one mirror flow's health. Absent ones are rows too, for their
// rebuilds.
type Mirror struct {
	DomainID, FlowID, Peer string
	State                  string         // "live", "pending", "stale", "idle", "absent"
	LastGrainAge           *time.Duration // nil before the first grain
	Rebuilds               uint64
}
