package agent

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/mxl-stack/mxl-fabrics-agent/fabrics"
	"github.com/mxl-stack/mxl-fabrics-agent/peers"
)

const (
	// restartEvery is the least time between two restarts in place.
	restartEvery = time.Minute
	// restartQuiet is how long no flow may have moved before one: whatever runs
	// would lose what comes until its connection stands again.
	restartQuiet = 2 * time.Second
	// movedEvery is how often it is looked at whether flows move while no restart
	// is due.
	movedEvery = time.Second
)

// errRestart ends Run for a restart in place.
var errRestart = errors.New("restart in place")

// restartVariable hands a [Restart] to the process that begins.
const restartVariable = "MXL_FABRICS_AGENT_RESTARTED"

// Restart is what a process that restarted in place hands to itself.
type Restart struct {
	Count     int       `json:"count"` // restarts in place so far
	At        time.Time `json:"at"`
	Reason    string    `json:"reason"`    // of the last one
	Addresses []string  `json:"addresses"` // what they were for, where it was a fabric address
}

// Reasons of a restart in place.
const (
	restartForAddress = "fabric_address"
	restartForRoot    = "mxl_root"
)

// TakeRestart reads from an environment what the process before has handed over,
// and gives the environment without it. Without any, or with one that cannot be
// read, it is the zero Restart.
func TakeRestart(environ []string) (Restart, []string) {
	var r Restart
	rest := slices.DeleteFunc(slices.Clone(environ), func(entry string) bool {
		text, ours := strings.CutPrefix(entry, restartVariable+"=")
		if ours && json.Unmarshal([]byte(text), &r) != nil {
			r = Restart{}
		}
		return ours
	})
	return r, rest
}

// Give adds the Restart to an environment.
func (r Restart) Give(environ []string) ([]string, error) {
	text, err := json.Marshal(r)
	if err != nil {
		return nil, err
	}
	return append(slices.Clone(environ), restartVariable+"="+string(text)), nil
}

// restarts is what the agent knows of restarts in place. Once it runs only the
// reconcile loop touches it, until Run has returned.
type restarts struct {
	last     Restart // of the process before; the next one when wanted
	wanted   bool
	moved    uint64 // grains and transfers of all lanes, in and out
	movedAt  time.Time
	lookedAt time.Time // when moved was added up
	waits    string    // why a restart for an address waits, as last logged
}

// Restarted tells the agent, before Start, that its process has restarted in
// place.
func (a *Agent) Restarted(r Restart) {
	a.restarts.last = r
	a.late.restarted(r.Addresses)
	if r.Count > 0 {
		a.log.Info("restarted_in_place", "reason", r.Reason, "addresses", r.Addresses, "restarts", r.Count, "took_ms", time.Since(r.At).Milliseconds())
	}
}

// RestartWanted says, after Run has returned, whether the process is to restart in
// place, and what it then hands over.
func (a *Agent) RestartWanted() (Restart, bool) { return a.restarts.last, a.restarts.wanted }

// restartFacts is what a restart is decided by.
type restartFacts struct {
	Visible []lateAddress // what a restart would find
	Last    time.Time     // the restart before; zero without one
	MovedAt time.Time     // when a flow last moved, in or out; zero: never
	Now     time.Time
}

// restartStep says whether to restart now, or else why not; both are empty where
// nothing would be found.
func restartStep(f restartFacts) (now bool, waits string) {
	switch {
	case len(f.Visible) == 0:
		return false, ""
	case restartedLately(f.Last, f.Now):
		return false, waitsForInterval
	case !f.MovedAt.IsZero() && f.Now.Sub(f.MovedAt) < restartQuiet:
		return false, "flows are running that would be interrupted; restart the agent when that is acceptable"
	}
	return true, ""
}

// waitsForInterval is why a restart waits within restartEvery of the last one.
const waitsForInterval = "the last restart in place was less than a minute ago"

// restartedLately: a last restart that is to come was taken before the clock was
// set back, as it may be while a host starts.
func restartedLately(last, now time.Time) bool {
	return !last.IsZero() && !last.After(now) && now.Sub(last) < restartEvery
}

// restartInPlace ends Run when a restart would help with something, and nothing
// runs that it would disturb.
func (a *Agent) restartInPlace(ctx context.Context, now time.Time) {
	if !a.restarts.wanted && !a.restartOnRoot(now) && !a.late.canRescan {
		a.restartWithAddress(ctx, now)
	}
}

// unlessInvalid puts a restart off whose process would end with exit code 78.
func (a *Agent) unlessInvalid(due bool, waits string) (bool, string) {
	if due {
		if err := a.store.NextStart(); err != nil {
			return false, err.Error()
		}
	}
	return due, waits
}

// endForRestart ends Run.
func (a *Agent) endForRestart(now time.Time, reason string, addresses []string) {
	r := &a.restarts
	r.last = Restart{Count: r.last.Count + 1, At: now, Reason: reason, Addresses: append(a.late.without(), addresses...)}
	r.wanted = true
	a.endRun(errRestart)
}

// restartWithAddress restarts when that would find an address that is wanted.
func (a *Agent) restartWithAddress(ctx context.Context, now time.Time) {
	r := &a.restarts
	visible := a.late.tend(ctx, a.poke)
	// Adding up is work on a host with many flows: often only while it matters.
	if len(visible) > 0 || now.Sub(r.lookedAt) >= movedEvery {
		r.lookedAt = now
		if moved := a.moved(); moved != r.moved {
			r.moved, r.movedAt = moved, now
		}
	}
	due, waits := restartStep(restartFacts{Visible: visible, Last: r.last.At, MovedAt: r.movedAt, Now: now})
	due, waits = a.unlessInvalid(due, waits)
	if !due {
		if waits != "" && waits != r.waits {
			a.log.Warn("restart_in_place_deferred", "provider", visible[0].Provider, "address", visible[0].Address,
				"interface", visible[0].Interface, "reason", waits)
		}
		r.waits = waits
		return
	}
	var found []string
	for _, v := range visible {
		found = append(found, v.Address)
		a.log.Warn("restart_in_place", "reason", restartForAddress, "provider", v.Provider, "address", v.Address, "interface", v.Interface,
			"libfabric", fabrics.Version())
	}
	a.endForRestart(now, restartForAddress, found)
}

// moved is how much the lanes have carried so far, in both directions.
func (a *Agent) moved() (units uint64) {
	for _, p := range a.pullIndex.all() {
		units += p.seen.Load().Grains
	}
	for _, v := range a.sources.list() {
		units += v.Target.Grains
	}
	return units
}

// without lists the addresses for which a restart did not help.
func (l *lateAddresses) without() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Sorted(maps.Keys(l.tried))
}

// lookFromOutside asks a process of this program that begins now whether it sees
// the address.
func lookFromOutside(ctx context.Context, p fabrics.Provider, address string) bool {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	look := exec.CommandContext(ctx, "/proc/self/exe", "interface", string(p), address)
	_, look.Env = TakeRestart(os.Environ())
	return look.Run() == nil
}

// newLateAddresses looks at this host.
func newLateAddresses(a *Agent) *lateAddresses {
	return &lateAddresses{
		canRescan: fabrics.CanRescan(), version: fabrics.Version(), rescan: fabrics.Rescan, look: lookFromOutside,
		link: func(address string) peers.Link { return peers.LinkOf(address, a.links.Interfaces()) },
		now:  time.Now, log: a.log, spawn: a.pullsRunning.Go,
		said: map[lateAddress]string{}, late: map[lateAddress]*lateState{}, tried: map[string]bool{},
	}
}
