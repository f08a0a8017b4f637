package mirror

import "time"

// RebuildKept is how long counts and reasons are kept after a mirror was last
// seen (contract, "Mirror health").
const RebuildKept = 24 * time.Hour

// RebuildMemory notices that a mirror's data file is a new one, for one flow.
// It is a value: Step gives the next one.
type RebuildMemory struct {
	Count      int
	Last       time.Time // zero before the first rebuild
	LastReason Reason

	inode    uint64 // last inode seen; 0: never seen
	gone     bool   // it is not on disk now
	reason   Reason // noted by Removed, not used yet
	lastSeen time.Time
}

// Rebuild is one rebuild that was noticed.
type Rebuild struct {
	Reason             Reason
	OldInode, NewInode uint64
	Count              int
}

// Removed notes why this agent removed the mirror, or is about to replace it.
func (m RebuildMemory) Removed(reason Reason) RebuildMemory {
	m.reason = reason
	return m
}

// Gone is the reason an absent mirror shows: why this agent removed it, else
// replaced; empty while it was never there.
func (m RebuildMemory) Gone() Reason {
	switch {
	case m.inode == 0:
		return ""
	case m.reason != "":
		return m.reason
	}
	return Replaced
}

// Step looks at the mirror's data file: its inode, or 0 when there is none.
func (m RebuildMemory) Step(inode uint64, now time.Time) (RebuildMemory, *Rebuild) {
	if inode == 0 {
		m.gone = m.inode != 0
		return m, nil
	}
	old, wasGone := m.inode, m.gone
	m.inode, m.gone, m.lastSeen = inode, false, now
	if old == 0 || (old == inode && !wasGone) {
		return m, nil
	}
	reason := m.reason
	if reason == "" {
		reason = Replaced
	}
	m.reason = ""
	m.Count++
	m.Last, m.LastReason = now, reason
	return m, &Rebuild{Reason: reason, OldInode: old, NewInode: inode, Count: m.Count}
}

// Forgettable says whether nothing needs to be remembered of the mirror.
func (m RebuildMemory) Forgettable(now time.Time) bool {
	return m.inode == 0 || (m.gone && now.Sub(m.lastSeen) > RebuildKept)
}
