package agent

import (
	"time"

	"github.com/mxl-stack/mxl-fabrics-agent/agent/logging"
	"github.com/mxl-stack/mxl-fabrics-agent/fabrics"
)

// stallsEvery is the least time between two lines about one lane's thread
// (contract, "Audio timing"): of each span the longest stall is logged.
const stallsEvery = time.Second

// stallingLane is a lane that tells when its thread stood still.
type stallingLane interface {
	TakeStall() (fabrics.Stall, bool)
}

// lookAtLanes writes the longest thread stall of every lane since the last look, and
// fits the runtime's processors to their number.
func (a *Agent) lookAtLanes(now time.Time) {
	if now.Sub(a.loop.stallsAt) < stallsEvery {
		return
	}
	a.loop.stallsAt = now
	lanes := 0
	tell := func(lane any, role, flowID, peer string) {
		lanes++
		l, ok := lane.(stallingLane)
		if !ok {
			return
		}
		if s, ok := l.TakeStall(); ok {
			a.log.Warn("fabric_thread_stall", "role", role, "flow_id", flowID, "peer", peer,
				"gap_ms", logging.Elapsed(s.Gap), "task", s.Task, "task_ms", logging.Elapsed(s.Held))
		}
	}
	for _, p := range a.pullIndex.all() {
		if v := p.seen.Load(); v.lane != nil {
			tell(v.lane, roleDestination, p.key.Flow.String(), p.key.Peer)
		}
	}
	for key, lane := range a.sources.lanes() {
		tell(lane, roleSource, key.Flow.String(), "")
	}
	a.loop.processors.fit(lanes, a.log)
}

// any tells whether anything is sent or to be sent.
func (s *sources) any() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.groups) > 0
}

// lanes gives the open lanes by what they send.
func (s *sources) lanes() map[groupKey]sourceLane {
	s.mu.Lock()
	defer s.mu.Unlock()
	open := make(map[groupKey]sourceLane, len(s.groups))
	for k, g := range s.groups {
		if lane := g.open(); lane != nil {
			open[k] = lane
		}
	}
	return open
}
