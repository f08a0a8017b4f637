package agent

import (
	"time"

	"github.com/google/uuid"

	"github.com/mxl-stack/mxl-fabrics-agent/fabrics"
)

// renewEvery is the least time between two tries to replace a lane: a
// destination that asks for what can never be must not cost the others anything.
const renewEvery = time.Second

// renew opens the origin anew where the lane cannot serve a destination: a lane
// keeps the geometry that its flow had when it was opened, and an origin that
// comes back with another one has mirrors made anew for it. When the flow as it
// is now suits the destination, its lane takes the place of the old one, for all
// destinations: they notice the lost connection and ask again. g.mu is held.
func (s *sources) renew(g *sourceGroup, domainPath, dest string, info fabrics.TargetInfo) bool {
	now := s.now()
	if !g.renewed.IsZero() && now.Sub(g.renewed) < renewEvery {
		return false
	}
	g.renewed = now
	lane, err := s.open(domainPath, g.key.Flow, g.key.Provider, g.key.Address)
	if err != nil {
		return false
	}
	if err := lane.SetTarget(dest, info); err != nil {
		if err := lane.Close(); err != nil {
			s.log.Warn("source_close_failed", "flow_id", g.key.Flow, "error", err)
		}
		return false
	}
	next := &sourceGroup{key: g.key, id: uuid.NewString(), renewed: now}
	next.continuous.Store(info.Bounce != nil)
	next.lane.Store(&lane)
	s.mu.Lock()
	// A shutdown that came meanwhile has taken its list of lanes already.
	installed := !s.closed && s.groups[g.key] == g
	if installed {
		s.groups[g.key] = next
		for _, row := range s.rows {
			if row.group == g {
				row.group = next
			}
		}
	}
	s.mu.Unlock()
	if !installed {
		if err := lane.Close(); err != nil {
			s.log.Warn("source_close_failed", "flow_id", g.key.Flow, "error", err)
		}
		return false
	}
	s.log.Info("source_renewed", "replication_id", next.id, "flow_id", g.key.Flow, "peer", dest)
	s.end(g)
	return true
}
