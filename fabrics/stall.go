package fabrics

import (
	"sync/atomic"
	"time"
)

// stallFloor is how long a lane with work may go without a pass (contract, "Audio timing").
const stallFloor = int64(20 * time.Millisecond)

// task is what a lane's thread is doing.
type task int

const (
	taskNone task = iota // the thread got no CPU
	taskPost
	taskPoll
	taskCommit
	taskOrigin
	taskConnect
	taskCount
)

var taskNames = [taskCount]string{"pass", "post", "poll", "commit", "origin", "connect"}

// stallWatch measures a lane's passes. The lane calls begin, then lap after each
// call that may hold it, then end with what it knows about its wait.
type stallWatch struct {
	tasks [taskCount]histogram
	// worst of the stalls nobody has logged yet, for the control side
	pendingGap  atomic.Int64
	pendingTask atomic.Int32
	pendingHeld atomic.Int64

	starved       starvation
	began         int64
	started, last int64 // started: began, later by what the wait allowed for
	spent         [taskCount]int64
}

func (w *stallWatch) begin(now int64) {
	w.began, w.started, w.last = now, now, now
	w.starved.note(now)
	w.spent = [taskCount]int64{}
}

// resume begins the pass that a run of many ended with.
func (w *stallWatch) resume(began int64) { w.began, w.started, w.last = began, began, began }

// lap adds the time since the last lap to t.
func (w *stallWatch) lap(t task, now int64) {
	w.spent[t] += now - w.last
	w.last = now
}

// waited takes a wait of at most allowed out of the account: only what went beyond
// it counts, as the thread's own.
func (w *stallWatch) waited(allowed, now int64) {
	w.started += min(now-w.last, allowed)
	w.last = now
}

// end judges the pass. busy is whether there was work that a pass would have done.
func (w *stallWatch) end(busy bool, now int64) {
	gap, starved := now-w.started, int64(0)
	if busy && now-w.began > stallFloor {
		starved = w.starved.since(w.began, now)
	}
	if !busy || max(gap, starved) <= stallFloor {
		return
	}
	held := taskNone
	for t := range taskCount {
		if w.spent[t] > w.spent[held] {
			held = t
		}
	}
	if starved > gap/2 || w.spent[held] < gap/2 {
		held = taskNone
	}
	gap = max(gap, starved)
	w.tasks[held].observe(gap, now)
	if gap > w.pendingGap.Load() {
		w.pendingTask.Store(int32(held))
		w.pendingHeld.Store(w.spent[held])
		w.pendingGap.Store(gap)
	}
}

// Stall is a time in which a lane with work made no pass.
type Stall struct {
	Gap  time.Duration // without a pass
	Task string        // the call that held the thread; "pass": none, the thread got no CPU
	Held time.Duration // of Gap spent in Task, 0 for "pass"
}

// take returns the longest stall since the last call.
func (w *stallWatch) take() (s Stall, ok bool) {
	g := w.pendingGap.Swap(0)
	return Stall{Gap: time.Duration(g), Task: taskNames[w.pendingTask.Load()], Held: time.Duration(w.pendingHeld.Load())}, g > 0
}

func (w *stallWatch) snapshot(now int64) map[string]Histogram {
	m := make(map[string]Histogram)
	for t := range taskCount {
		if s := w.tasks[t].snapshot(now); s.Count > 0 {
			m[taskNames[t]] = s
		}
	}
	return m
}
