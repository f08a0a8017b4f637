package agent

import (
	"log/slog"
	"os"
	"runtime"
)

const (
	// processorStep is how many of the runtime's processors come at once: each
	// change stops all goroutines for a moment.
	processorStep = 8
	// mostLaneProcessors bounds them: the collector's workers are a share of them.
	mostLaneProcessors = 128
)

// processors keeps as many of the Go runtime's processors (GOMAXPROCS) as there are
// lanes, beside those of the host. A lane waits in C. Where processors are short the
// runtime takes its away meanwhile, and the lane's return is a wait for another one:
// two futex calls and a second thread woken for every transfer.
type processors struct {
	own   int // the runtime's choice at the start
	now   int
	fixed bool // the operator set GOMAXPROCS
}

func newProcessors() processors {
	n := runtime.GOMAXPROCS(0)
	_, fixed := os.LookupEnv("GOMAXPROCS")
	return processors{own: n, now: n, fixed: fixed}
}

// fit makes room for lanes. It shrinks late, so that a flow that comes and goes does
// not change anything.
func (p *processors) fit(lanes int, log *slog.Logger) {
	want := processorsFor(p.own, lanes)
	if p.fixed || want <= p.now && want > p.own+(p.now-p.own)/2 || want == p.now {
		return
	}
	runtime.GOMAXPROCS(want)
	log.Debug("processors_changed", "lanes", lanes, "from", p.now, "to", want)
	p.now = want
}

// processorsFor is the number of the runtime's processors for a number of lanes.
func processorsFor(own, lanes int) int {
	return own + min((lanes+processorStep-1)/processorStep*processorStep, mostLaneProcessors)
}
