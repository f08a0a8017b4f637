package peers

import (
	"cmp"
	"fmt"
	"slices"
)

// What all peers together may cost. One answer is bounded by itself; these bound a
// registry that invents agents, each of which answers as much as it may.
const (
	// maxDiscovered is how many agents of the registry are polled. Those of PEERS
	// come on top.
	maxDiscovered = 1024
	// modest is a size that answers and inventories may have whatever the others do:
	// a host of 500 flows stays below it.
	modest = 1 << 20
	// maxArriving bounds the answers that are beyond it while they are read, and
	// maxHeld the inventories that are kept, in bytes.
	maxArriving = 128 << 20
	maxHeld     = 256 << 20
)

// fewest keeps the first of too many discovered agents, by their host ids, so that
// they are the same ones every time.
func fewest(list []Discovered) []Discovered {
	if len(list) <= maxDiscovered {
		return list
	}
	list = slices.SortedStableFunc(slices.Values(list), func(a, b Discovered) int { return cmp.Compare(a.HostID, b.HostID) })
	return list[:maxDiscovered]
}

// size is about what an inventory holds in memory.
func (i *Inventory) size() int {
	if i == nil {
		return 0
	}
	const record = 256 // of a Flow or Domain with its slices
	n := len(i.HostID)
	for d := range i.Domains {
		domain := &i.Domains[d]
		n += record + len(domain.ID) + len(domain.Path) + len(domain.Options)
		for f := range domain.Flows {
			flow := &domain.Flows[f]
			n += record + len(flow.ID) + len(flow.Def) + len(flow.DefText) + len(flow.MediaType)
		}
	}
	return n
}

// roomFor refuses an inventory for which there is no room beside those of the other
// peers. The table's lock is held.
func (t *Table) roomFor(e *entry, inv *Inventory) (size int, err error) {
	size = inv.size()
	if size <= modest {
		return size, nil
	}
	others := 0
	for _, other := range t.entries {
		if other != e {
			others += other.held
		}
	}
	for _, p := range t.past {
		others += p.Inventory.size()
	}
	if others+size > maxHeld {
		return 0, &CallError{Word: ErrTooLarge, Cause: fmt.Errorf("an inventory of %d bytes beside %d of the other peers, more than %d", size, others, maxHeld)}
	}
	return size, nil
}
