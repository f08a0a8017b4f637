package agent

import (
	"cmp"
	"time"

	"github.com/mxl-stack/mxl-fabrics-agent/fabrics"
)

// sourceFacts is what sweep judges by.
type sourceFacts struct {
	Boots map[string]peerBoot // of peers that are up, by host id
	Link  map[string]sourceRoute
}

// peerBoot is the boot id of a peer and when it was heard.
type peerBoot struct {
	ID      string
	HeardAt time.Time
}

// sweep drops rows whose destination has restarted, has let go without saying so,
// or whose link is down. The loop calls it each pass; lanes are closed elsewhere.
func (s *sources) sweep(f sourceFacts) {
	type end struct {
		group *sourceGroup
		dest  string
	}
	var ends, unlinked []end
	now := s.now()
	readings := groupStats{}
	s.mu.Lock()
	for k, row := range s.rows {
		// A destination that has just restarted asks before it is polled again:
		// an older poll says nothing about it.
		boot := f.Boots[k.Dest]
		restarted := row.bootID != "" && boot.ID != "" && boot.ID != row.bootID && boot.HeardAt.After(row.askedAt)
		expired := now.Sub(row.askedAt) > sourceLease && !rowConnected(row, readings)
		if restarted || expired {
			delete(s.rows, k)
			ends = append(ends, end{row.group, k.Dest})
			s.log.Info("replication_target_dropped", "replication_id", row.id, "flow_id", k.Flow, "peer", k.Dest,
				"reason", map[bool]string{true: "peer_restarted", false: "not asked for"}[restarted])
			continue
		}
		if l, ok := f.Link[k.Dest]; ok && !l.LinkUp && row.linkDown == "" {
			row.linkDown = cmp.Or(l.LinkReason, "link down")
			unlinked = append(unlinked, end{row.group, k.Dest})
		}
	}
	s.mu.Unlock()
	for _, e := range unlinked {
		go e.group.removeTarget(e.dest)
	}
	for _, e := range ends {
		go s.drop(e.group, e.dest)
	}
}

func rowConnected(row *sourceRow, readings groupStats) bool {
	st, _ := readings.of(row.group)
	for _, t := range st.Targets {
		if t.Key == row.key.Dest {
			return t.State == fabrics.StateActive
		}
	}
	return false
}
