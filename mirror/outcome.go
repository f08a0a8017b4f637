package mirror

import (
	"sort"
	"time"
)

// FlowStep is what one pass decided about one flow.
type FlowStep struct {
	Key
	Peer      string // source host
	State     FlowState
	Do        Action
	Reason    Reason        // of Remove
	Guard     Guard         // what holds a due removal back
	Blocked   string        // why a due removal failed at the last try
	Pull      bool          // a replication is to run
	Missing   time.Duration // how long its origin has been missing, for missing_s
	OnDisk    bool
	Unmade    bool   // it is not on disk because it could not be made
	Inode     uint64 // of its data file, 0 when it is not on disk
	MediaType string
	Label     string
	Format    string // "discrete" or "continuous"
	Health    Health
	Rebuilds  RebuildMemory
}

// DomainStep is what one pass decided about one mirror domain on disk.
type DomainStep struct {
	DomainID string
	DomainVerdict
	IdleSince time.Time // zero while it is active
	Demand    bool
	Blocked   string // why a due removal failed at the last try
	Source    string // the host that its marker should name, empty when it does
}

// Outcome is what one pass decided. Flows and domains are sorted.
type Outcome struct {
	Flows   []FlowStep
	Domains []DomainStep
	Events  []Event
	Stale   int // mirror flows that are stale
}

// Flow gives what the pass decided about a flow, nil when it did not look at it.
func (o *Outcome) Flow(k Key) *FlowStep {
	i := sort.Search(len(o.Flows), func(i int) bool { return compareKeys(o.Flows[i].Key, k) >= 0 })
	if i == len(o.Flows) || o.Flows[i].Key != k {
		return nil
	}
	return &o.Flows[i]
}
