package agent

import (
	"maps"
	"time"

	"github.com/mxl-stack/mxl-fabrics-agent/mirror"
)

// lossCalm is how long a mirror must have been whole for its next loss to count as the
// first. It is longer than the longest wait.
const lossCalm = 2 * backoffMax

// mirrorLoss is how often a mirror's files were cut off while they were mapped. The
// first time it is made anew at once; what goes on being cut off waits longer each time.
type mirrorLoss struct {
	wait backoff
	at   time.Time
}

// again is the loss after one more at now.
func (l mirrorLoss) again(now time.Time) mirrorLoss {
	if l.at.IsZero() || l.over(now) {
		return mirrorLoss{at: now}
	}
	l.wait.failed(now)
	l.at = now
	return l
}

func (l mirrorLoss) over(now time.Time) bool { return now.Sub(l.at) >= lossCalm }

// lose gives the writer of a mirror flow up: what it has mapped is not the flow's files
// any more. Generation is that of the writer; a later one is not meant. The flow is
// made anew by the next passes.
func (m *mirrorDeeds) lose(k mirror.Key, generation uint64, cause error) {
	m.mu.Lock()
	f := m.held[k]
	if f == nil || m.gens[k] != generation || f.Lost() {
		m.mu.Unlock()
		return
	}
	f.Lose()
	now := m.now()
	loss := m.losses[k].again(now)
	maps.DeleteFunc(m.losses, func(_ mirror.Key, l mirrorLoss) bool { return l.over(now) })
	m.losses[k] = loss
	m.mu.Unlock()
	m.log.Warn("mirror_lost", "domain_id", k.DomainID, "flow_id", k.FlowID, "error", cause, "retry_ms", loss.wait.wait.Milliseconds())
	m.wake()
}

// resting says whether a mirror that was lost again and again is left alone for now.
func (m *mirrorDeeds) resting(k mirror.Key) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	f, loss := m.held[k], m.losses[k]
	return f != nil && f.Lost() && !loss.wait.ready(m.now())
}
