package agent

import (
	"fmt"
	"strings"
	"time"

	"github.com/mxl-stack/mxl-fabrics-agent/mirror"
)

// rootSettles is how long the path of the MXL root must have named the same
// usable directory before a restart on it: whoever mounts may not be finished.
const rootSettles = 2 * time.Second

// rootRestartFacts is what a restart on another MXL root is decided by.
type rootRestartFacts struct {
	Usable bool      // the path names another directory, in which the agent could work
	Since  time.Time // when that was first seen there
	Last   time.Time // the restart before; zero without one
	// Reads says who reads a mirror of the old root that grains still come to, and
	// would read no further; empty: nobody.
	Reads string
	Now   time.Time
}

// rootRestartStep says whether to restart now, or else why not; both are empty
// where a restart would not help, or not yet. What this host sends does not keep it:
// a flow that is written into a root that nobody can reach ends anyhow, because
// the inventory lists it no more, and another one is interrupted for as long as
// its connection takes.
func rootRestartStep(f rootRestartFacts) (now bool, waits string) {
	switch {
	case !f.Usable || f.Now.Sub(f.Since) < rootSettles:
		return false, ""
	case restartedLately(f.Last, f.Now):
		return false, waitsForInterval
	case f.Reads != "":
		return false, f.Reads + "; end the readers, or restart the agent when that is acceptable"
	}
	return true, ""
}

// restartOnRoot restarts when the path of the MXL root names another usable
// directory than the one the agent works in. The old one stays as it is, readers
// and all. It says whether it has.
func (a *Agent) restartOnRoot(now time.Time) bool {
	f := rootRestartFacts{Usable: a.root.usable, Since: a.root.since, Last: a.restarts.last.At, Now: now}
	if f.Usable {
		f.Reads = a.readOnOldRoot(now)
	}
	due, waits := a.unlessInvalid(rootRestartStep(f))
	if waits != *a.root.waits.Load() {
		a.root.waits.Store(&waits)
		if waits != "" {
			a.log.Warn("restart_in_place_deferred", "path", a.root.path, "reason", waits)
		}
	}
	if !due {
		return false
	}
	a.log.Warn("restart_in_place", "reason", restartForRoot, "path", a.root.path)
	a.endForRestart(now, restartForRoot, nil)
	return true
}

// readOnOldRoot names a mirror that grains come to and that a process reads, or
// may read for all that is known.
func (a *Agent) readOnOldRoot(now time.Time) string {
	first, report := "", a.readers.Latest()
	for _, p := range a.pullIndex.all() {
		v := p.seen.Load()
		if !v.HasHead || now.Sub(v.HeadMovedAt) >= restartQuiet {
			continue
		}
		// One name, and always the same: the reason is logged when it changes.
		if name := p.key.String(); first == "" || name < first {
			if readers := readersText(report.FlowFacts(p.key.mirror())); readers != "" {
				first = name + " " + readers
			}
		}
	}
	return first
}

// readersText says who reads, empty when nobody does.
func readersText(f mirror.ReaderFacts) string {
	if len(f.Mapped) == 0 {
		if f.Known {
			return ""
		}
		return "runs in the old directory, and who reads it is not known: " + f.Why
	}
	names := make([]string, len(f.Mapped))
	for i, r := range f.Mapped {
		names[i] = fmt.Sprintf("%d (%s)", r.PID, r.Comm)
	}
	return "runs in the old directory and is read by " + strings.Join(names, ", ")
}
