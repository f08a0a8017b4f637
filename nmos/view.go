package nmos

import (
	"errors"
	"reflect"
	"time"
)

// view is what the registry said, kept over its absences. It is a state machine
// without I/O: passes, messages and the clock go in. One goroutine owns it.
//
// Fail static. Something that a working registry no longer lists is kept, marked
// as missing, and let go when
//   - it has been missing for removeHold (12 s, a registry's collection interval:
//     nodes that the registry lost come back on their next heartbeat), and
//   - the registry answers and lists at least one node, and
//   - no sign of a restart was seen for restartHold (30 s).
//
// Signs of a restart: the registry came (back) up, another Query API is used,
// our own node went from the list or came back to it, a registry took our node
// as new (epoch), the list of nodes was empty and is not any more. Where our own
// node was never listed, nothing tells a quick restart, and restartHold is the
// hold for everything. (NMOS reference §7.3, §10; contract: nothing that runs is
// stopped by a registry outage.)
//
// What was lost at such a sign was forgotten by the registry, not removed from
// it: a receiver whose own /active still answers stays after the holds too, with
// its device and node, until it is listed again or stops answering.
type view struct {
	removeHold  time.Duration
	restartHold time.Duration
	ownNodeID   string

	entries [kinds]map[string]*entry
	gone    [kinds]map[string]*entry // those with a missing time
	kin     kin

	up     bool
	err    string
	base   string
	sign   time.Time // last sign of a restart
	epoch  uint64
	own    ownListing
	listed bool      // the last pass had at least one node
	passed time.Time // when the last pass was taken over

	changed changes // since they were last taken
	// look: expire may find something whatever the time is. soonest: not before that,
	// else; zero when nothing is missing, or nothing may go before the next pass.
	look    bool
	soonest time.Time
}

type entry struct {
	res     resource
	touched time.Time // last change by a subscription
	missing time.Time // since when it is not listed; zero: listed
	forgot  bool      // lost in a pass that showed a restart
}

// ownListing is how the registry lists our own node.
type ownListing int

const (
	ownNeverListed ownListing = iota
	ownListed
	ownVanished
)

func newView(removeHold, restartHold time.Duration, ownNodeID string) *view {
	v := &view{removeHold: removeHold, restartHold: restartHold, ownNodeID: ownNodeID, kin: newKin()}
	for k := range kinds {
		v.entries[k], v.gone[k] = map[string]*entry{}, map[string]*entry{}
	}
	return v
}

// touched collects the receivers whose /active is to be read.
type touched map[string]bool

// applyPass merges a complete reading. An entry that a subscription changed
// after the reading started wins over it.
func (v *view) applyPass(p pass, epoch uint64, now time.Time) touched {
	v.look = true
	if p.err != nil {
		v.passFailed(p.err)
		return nil
	}
	if !v.up || v.base != p.base || v.epoch != epoch {
		v.sign = now
	}
	if !v.up || v.err != "" || v.base != p.base {
		v.changed.all = true
	}
	v.up, v.err, v.base, v.epoch = true, "", p.base, epoch

	t := touched{}
	devices := map[string]bool{}
	for k := range kinds {
		present := make(map[string]bool, len(p.lists[k]))
		for _, r := range p.lists[k] {
			if r.id == "" {
				continue
			}
			present[r.id] = true
			if e := v.entries[k][r.id]; e != nil && !e.touched.Before(p.started) {
				continue
			}
			v.upsert(k, r, time.Time{}, t, devices)
		}
		for id, e := range v.entries[k] {
			if !present[id] && e.touched.Before(p.started) {
				v.lose(k, id, e, now)
			}
		}
	}
	nodesListed := len(p.lists[kindNode]) > 0
	if nodesListed && !v.listed {
		v.sign = now
	}
	v.listed = nodesListed
	v.noteOwn(now)
	if v.sign.Equal(now) || !v.listed {
		v.markForgotten(now)
	}
	v.passed = now
	v.touchDevices(devices, t)
	return t
}

// markForgotten marks what this pass lost, and the one before it: the registry may
// have lost everything between the lists that make a pass, which then shows no sign.
func (v *view) markForgotten(now time.Time) {
	for k := range kinds {
		for _, e := range v.gone[k] {
			e.forgot = e.forgot || e.missing.Equal(now) || e.missing.Equal(v.passed)
		}
	}
}

func (v *view) passFailed(err error) {
	text := err.Error()
	if errors.Is(err, errNoRegistry) {
		text = "" // down, but nothing is wrong
	}
	if v.up || v.err != text {
		v.up, v.err, v.changed.all = false, text, true
	}
}

// applyMessage merges the entries of one subscription message, strictly in order.
// Every entry of a receiver asks for a read, whatever its version says: versions
// may be too coarse (NMOS reference §12).
func (v *view) applyMessage(m message, now time.Time) touched {
	t := touched{}
	devices := map[string]bool{}
	for _, c := range m.changes {
		if c.removed {
			if e := v.entries[m.kind][c.res.id]; e != nil {
				e.touched = now
				v.lose(m.kind, c.res.id, e, now)
			}
			continue
		}
		v.upsert(m.kind, c.res, now, t, devices)
		if m.kind == kindReceiver && !c.res.bad {
			t[c.res.id] = true
		}
	}
	if m.kind == kindNode {
		v.noteOwn(now)
	}
	v.touchDevices(devices, t)
	return t
}

// maxEntries bounds what messages add: a pass reads no more than half of it, and what
// it no longer lists is kept for a while.
const maxEntries = 2 * maxResources

func (v *view) upsert(k kind, r resource, byMessage time.Time, t touched, devices map[string]bool) {
	e := v.entries[k][r.id]
	switch {
	case e == nil && (r.bad || len(v.entries[k]) >= maxEntries):
		return
	case e == nil:
		e = &entry{res: resource{id: r.id}}
		v.entries[k][r.id] = e
		v.take(k, e, r)
	default:
		if !e.missing.IsZero() {
			e.missing, e.forgot = time.Time{}, false
			delete(v.gone[k], r.id)
			v.mark(k, r.id)
		}
		if r.bad || sameResource(e.res, r) {
			if !byMessage.IsZero() {
				e.touched = byMessage
			}
			return // a bad entry leaves what was known
		}
		v.take(k, e, r)
	}
	if !byMessage.IsZero() {
		e.touched = byMessage
	}
	switch k {
	case kindReceiver:
		t[r.id] = true
	case kindDevice:
		devices[r.id] = true
	}
}

func (v *view) lose(k kind, id string, e *entry, now time.Time) {
	if e.missing.IsZero() {
		e.missing = now
		v.gone[k][id] = e
		v.soonest = earlier(v.soonest, now.Add(v.removeHold))
		v.mark(k, id)
	}
}

// take replaces what is known of an entry.
func (v *view) take(k kind, e *entry, r resource) {
	v.mark(k, r.id) // as what it was, too
	v.kin.drop(k, e.res)
	e.res = r
	v.kin.add(k, r)
	v.mark(k, r.id)
}

// mark notes that an entry is another one than before, or is about to be.
func (v *view) mark(k kind, id string) {
	v.changed.add(k, id)
	v.changed.agents = v.changed.agents || k == kindNode && v.kin.agents[id]
}

// touchDevices adds the receivers of devices that are new or changed: their
// control hrefs may be others now.
func (v *view) touchDevices(devices map[string]bool, t touched) {
	for device := range devices {
		for id := range v.kin.receivers[device] {
			t[id] = true
		}
	}
}

func (v *view) noteOwn(now time.Time) {
	if v.ownNodeID == "" {
		return
	}
	e := v.entries[kindNode][v.ownNodeID]
	listed := e != nil && e.missing.IsZero()
	switch {
	case listed && v.own == ownVanished, !listed && v.own == ownListed:
		v.sign = now
	}
	was := v.own
	if listed {
		v.own = ownListed
	} else if v.own == ownListed {
		v.own = ownVanished
	}
	v.look = v.look || v.own != was
}

// expireDue says whether expire may find something: it goes through everything that
// is missing, which is not to happen with each message.
func (v *view) expireDue(now time.Time) bool {
	return v.look || !v.soonest.IsZero() && !now.Before(v.soonest)
}

// expire lets go of what has been missing long enough and notes when to look again.
// answers tells whether the last /active read of a receiver succeeded.
func (v *view) expire(now time.Time, answers func(receiverID string) bool) {
	v.look, v.soonest = false, time.Time{}
	if !v.missing() || !v.up || !v.listed {
		return
	}
	kept := v.answering(answers)
	hold := v.removeHold
	if v.own == ownNeverListed {
		hold = max(v.restartHold, v.removeHold)
	}
	calm := v.sign.Add(v.restartHold)
	for k := range kinds {
		for id, e := range v.gone[k] {
			if kept[k][id] {
				continue
			}
			at := e.missing.Add(hold)
			if at.Before(calm) {
				at = calm
			}
			if !now.Before(at) {
				v.mark(k, id)
				v.kin.drop(k, e.res)
				delete(v.entries[k], id)
				delete(v.gone[k], id)
			} else {
				v.soonest = earlier(v.soonest, at)
			}
		}
	}
}

func (v *view) missing() bool {
	for k := range kinds {
		if len(v.gone[k]) > 0 {
			return true
		}
	}
	return false
}

// answering lists the forgotten receivers that still answer, and their devices
// and nodes.
func (v *view) answering(answers func(string) bool) (kept [kinds]map[string]bool) {
	for k := range kinds {
		kept[k] = map[string]bool{}
	}
	for id, e := range v.gone[kindReceiver] {
		if !e.forgot || !answers(id) {
			continue
		}
		deviceID := e.res.receiver.deviceID
		kept[kindReceiver][id], kept[kindDevice][deviceID] = true, true
		if d := v.device(deviceID); d != nil {
			kept[kindNode][d.nodeID] = true
		}
	}
	return kept
}

// stale: something is kept although the registry does not answer or list it.
func (v *view) stale() bool {
	if v.missing() {
		return true
	}
	return !v.up && len(v.entries[kindNode])+len(v.entries[kindReceiver]) > 0
}

func (v *view) node(id string) *nodeFacts {
	if e := v.entries[kindNode][id]; e != nil {
		return e.res.node
	}
	return nil
}

func (v *view) device(id string) *deviceFacts {
	if e := v.entries[kindDevice][id]; e != nil {
		return e.res.device
	}
	return nil
}

func sameResource(a, b resource) bool {
	if a.node == b.node && a.device == b.device && a.receiver == b.receiver {
		return true
	}
	return reflect.DeepEqual(a, b)
}
