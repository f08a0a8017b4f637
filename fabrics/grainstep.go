package fabrics

// undefinedIndex is an index that no grain has (MXL format reference §5).
const undefinedIndex = ^uint64(0)

// grainCursor is where one destination is in the origin: the next index and the
// slices of it that were sent.
type grainCursor struct {
	index  uint64
	slices int
}

// grainView is what the origin shows when a destination's next step is decided:
// its head, its depth, how many grains it makes while one is sent, and the header in
// the cursor's slot.
type grainView struct {
	head, depth  uint64
	spare        uint64
	index        uint64
	invalid      bool
	valid, total int
}

type grainAction int

const (
	grainWait   grainAction = iota // nothing to send yet
	grainSend                      // slices [start, end) of index
	grainSkip                      // index was never written and never will be
	grainFinish                    // index ended incomplete and all of it was sent
	grainJump                      // the cursor is outside the ring: go to the head
)

// grainStep is one decision. last means that the grain is finished by it.
type grainStep struct {
	action     grainAction
	start, end int
	last       bool
}

// nextGrain decides the next step of a destination at c. partial destinations get
// slices as they are committed, others whole grains only.
//
// An index is unwritten when a later head exists and its slot holds another index
// (MXL format reference §7.2). One that is flagged invalid travels as its header
// alone. What is left in the ring's last slot is not begun any more: the writer may
// open it at any moment.
func nextGrain(c grainCursor, v grainView, partial bool) grainStep {
	switch {
	case v.head == undefinedIndex:
		return grainStep{action: grainWait}
	case c.index == undefinedIndex:
		return grainStep{action: grainJump}
	case c.index > v.head:
		if c.index-v.head > 1 {
			return grainStep{action: grainJump}
		}
		return grainStep{action: grainWait}
	case v.head-c.index >= usableDepth(v.depth, v.spare):
		return grainStep{action: grainJump}
	}
	later := v.head > c.index
	if v.index != c.index {
		switch {
		case !later:
			return grainStep{action: grainWait}
		case v.index > c.index && v.index != undefinedIndex:
			return grainStep{action: grainJump}
		case c.slices > 0:
			return grainStep{action: grainFinish, last: true}
		}
		return grainStep{action: grainSkip, last: true}
	}
	if v.invalid {
		return grainStep{action: grainSend, last: true}
	}
	valid := min(v.valid, v.total)
	if valid == v.total {
		return grainStep{action: grainSend, start: c.slices, end: valid, last: true}
	}
	switch {
	case later && valid > c.slices:
		return grainStep{action: grainSend, start: c.slices, end: valid, last: true}
	case later && c.slices > 0:
		return grainStep{action: grainFinish, last: true}
	case later:
		return grainStep{action: grainSkip, last: true}
	case partial && valid > c.slices:
		return grainStep{action: grainSend, start: c.slices, end: valid}
	}
	return grainStep{action: grainWait}
}

// usableDepth is how many indexes back from the head are still sent: the oldest slot
// may be opened by the writer at any moment, and spare more until a transfer is done.
// At least half the ring is used.
func usableDepth(depth, spare uint64) uint64 {
	half := (depth + 1) / 2
	if depth < 2 || spare+1 >= depth-half {
		return max(half, 1)
	}
	return depth - 1 - spare
}
