package fabrics

import (
	"slices"
	"time"
)

const (
	// lateFloor is the least gap that counts as late (contract, "Audio timing").
	lateFloor = int64(10 * time.Millisecond)
	// usualGaps is how many gaps the usual one is taken from.
	usualGaps = 256

	audioStall = int64(25 * time.Millisecond)
	grainStall = int64(40 * time.Millisecond)
)

// usualGap keeps a flow's last gaps and knows their 98th percentile.
type usualGap struct {
	ring   [usualGaps]int64
	sorted [usualGaps]int64
	count  int
	next   int
}

// late tells whether gap is late measured by the gaps before it, then takes it in.
// Nothing is late before there is a gap to compare with.
func (u *usualGap) late(gap int64) bool {
	late := u.count > 0 && gap >= lateFloor && gap > 2*u.usual()
	u.add(gap)
	return late
}

// usual is the 98th percentile (nearest rank) of the gaps kept.
func (u *usualGap) usual() int64 {
	if u.count == 0 {
		return 0
	}
	return u.sorted[(u.count*98+99)/100-1]
}

func (u *usualGap) add(gap int64) {
	sorted := u.sorted[:u.count]
	if u.count == usualGaps {
		at, _ := slices.BinarySearch(sorted, u.ring[u.next])
		copy(sorted[at:], sorted[at+1:])
		sorted = sorted[:usualGaps-1]
	}
	at, _ := slices.BinarySearch(sorted, gap)
	sorted = u.sorted[:len(sorted)+1]
	copy(sorted[at+1:], sorted[at:])
	sorted[at] = gap
	u.count = len(sorted)
	u.ring[u.next] = gap
	u.next = (u.next + 1) % usualGaps
}

// lateGrain tells whether two committing passes of a discrete flow were too far
// apart: more than two grain periods and at least 10 ms.
func lateGrain(gap, period int64) bool { return gap >= lateFloor && gap > 2*period }
