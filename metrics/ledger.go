package metrics

import "maps"

// ledger turns the counts of lanes, which come and go, into totals that only
// grow.
type ledger struct {
	live   map[string]Lane
	folded account
	// ended are the last lanes that were retired, by key: a snapshot that was made
	// before still lists them. Two sets, so that the older one can be forgotten.
	ended, endedBefore map[string]bool
}

// endedKept is how many of them each set takes.
const endedKept = 4096

func newLedger() *ledger {
	return &ledger{live: make(map[string]Lane), folded: newAccount(), ended: make(map[string]bool)}
}

// take replaces the lanes. A lane that is gone, or that started over under
// its key, leaves the last counts seen.
func (l *ledger) take(lanes []Lane) {
	next := make(map[string]Lane, len(lanes))
	for _, lane := range lanes {
		if !l.ended[lane.Key] && !l.endedBefore[lane.Key] {
			next[lane.Key] = lane
		}
	}
	for key, before := range l.live {
		if now, ok := next[key]; !ok || now.fell(before) {
			l.fold(before)
		}
	}
	l.live = next
}

// retire folds a lane's final counts, which are newer than those last seen. Its key
// does not come again.
func (l *ledger) retire(lane Lane) {
	if before, ok := l.live[lane.Key]; ok && lane.fell(before) {
		l.fold(before)
	}
	delete(l.live, lane.Key)
	l.fold(lane)
	if len(l.ended) >= endedKept {
		l.ended, l.endedBefore = make(map[string]bool), l.ended
	}
	l.ended[lane.Key] = true
}

// fold keeps a lane's counts. What its last 10 s were is over.
func (l *ledger) fold(lane Lane) {
	for _, b := range []*Buckets{&lane.Transfer, &lane.AgeOrigin, &lane.AgeSent, &lane.AgeDelivered, &lane.DeliveryGap} {
		b.Max = 0
	}
	l.folded.add(lane)
}

// total is everything ever counted.
func (l *ledger) total() account {
	sum := l.folded.clone()
	for _, lane := range l.live {
		sum.add(lane)
	}
	return sum
}

func (l Lane) fell(before Lane) bool {
	return l.Transfer.fell(before.Transfer) || l.TransferStalls < before.TransferStalls ||
		l.AgeOrigin.fell(before.AgeOrigin) || l.AgeSent.fell(before.AgeSent) || l.AgeDelivered.fell(before.AgeDelivered) ||
		l.DeliveryGap.fell(before.DeliveryGap) || l.LateDeliveries < before.LateDeliveries || l.Strangers < before.Strangers || l.stallsFell(before)
}

func (l Lane) stallsFell(before Lane) bool {
	for task, b := range before.ThreadStall {
		if l.ThreadStall[task].fell(b) {
			return true
		}
	}
	return false
}

// account is counts added up over lanes.
type account struct {
	grainTransfer  map[string]Buckets // by provider
	grainStalls    map[string]uint64  // by provider
	sampleTransfer Buckets
	sampleStalls   map[string]uint64  // by provider
	age            map[string]Buckets // by stage
	gap            Buckets
	late           uint64
	strangers      uint64
	threadStall    map[string]Buckets // by task
	delivers       bool               // some lane was a destination
}

func newAccount() account {
	return account{
		grainTransfer: make(map[string]Buckets), grainStalls: make(map[string]uint64), sampleStalls: make(map[string]uint64),
		age: make(map[string]Buckets), threadStall: make(map[string]Buckets),
	}
}

func (a account) clone() account {
	a.grainTransfer, a.grainStalls = maps.Clone(a.grainTransfer), maps.Clone(a.grainStalls)
	a.sampleStalls, a.age, a.threadStall = maps.Clone(a.sampleStalls), maps.Clone(a.age), maps.Clone(a.threadStall)
	return a
}

// The stages of a sample's age.
const (
	stageOrigin    = "origin"
	stageSent      = "sent"
	stageDelivered = "delivered"
)

func (a *account) add(l Lane) {
	a.late += l.LateDeliveries
	a.strangers += l.Strangers
	a.delivers = a.delivers || l.Role == "destination"
	for task, b := range l.ThreadStall {
		a.threadStall[task] = a.threadStall[task].plus(b)
	}
	if !l.Continuous {
		if len(l.Transfer.Counts) > 0 {
			a.grainTransfer[l.Provider] = a.grainTransfer[l.Provider].plus(l.Transfer)
			a.grainStalls[l.Provider] += l.TransferStalls
		}
		return
	}
	if len(l.Transfer.Counts) > 0 {
		a.sampleTransfer = a.sampleTransfer.plus(l.Transfer)
		a.sampleStalls[l.Provider] += l.TransferStalls
	}
	a.gap = a.gap.plus(l.DeliveryGap)
	for stage, b := range map[string]Buckets{stageOrigin: l.AgeOrigin, stageSent: l.AgeSent, stageDelivered: l.AgeDelivered} {
		if len(b.Counts) > 0 {
			a.age[stage] = a.age[stage].plus(b)
		}
	}
}

// tally is one counter over rows that come and go.
type tally struct {
	last   map[string]uint64
	folded uint64
}

func (t *tally) take(now map[string]uint64) {
	for key, before := range t.last {
		if n, ok := now[key]; !ok || n < before {
			t.folded += before
		}
	}
	t.last = now
}

func (t *tally) total() uint64 {
	sum := t.folded
	for _, n := range t.last {
		sum += n
	}
	return sum
}
