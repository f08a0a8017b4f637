package agent

import (
	"bytes"
	"cmp"
	"log/slog"
	"slices"
	"sync"

	"github.com/google/uuid"

	"github.com/mxl-stack/mxl-fabrics-agent/fabrics"
	"github.com/mxl-stack/mxl-fabrics-agent/mxl"
)

// sourceView is one row as the API and the metrics show it.
type sourceView struct {
	ID, Domain, Dest, Provider, State, Error string
	Flow                                     uuid.UUID
	Fallback                                 bool
	Head                                     uint64
	HasHead                                  bool
	OriginGaps                               uint64
	Errors                                   uint64
	Target                                   fabrics.TargetStatus
	Stats                                    fabrics.SourceStats
	LaneKey                                  string
	Continuous                               bool
}

// groupStats remembers the numbers of lanes, so that the destinations of one lane
// share one reading: each reading lists all of them.
type groupStats map[*sourceGroup]groupReading

type groupReading struct {
	stats fabrics.SourceStats
	open  bool
}

func (r groupStats) of(g *sourceGroup) (fabrics.SourceStats, bool) {
	got, ok := r[g]
	if !ok {
		got.stats, got.open = g.stats()
		r[g] = got
	}
	return got.stats, got.open
}

// list gives every row, ordered by flow and destination.
func (s *sources) list() []sourceView {
	s.mu.Lock()
	rows := make([]sourceRow, 0, len(s.rows))
	for _, row := range s.rows {
		rows = append(rows, *row)
	}
	s.mu.Unlock()
	views := make([]sourceView, 0, len(rows))
	readings := groupStats{}
	for i := range rows {
		row := &rows[i]
		st, open := readings.of(row.group)
		v := sourceView{
			ID: row.id, Domain: row.group.key.Domain, Dest: row.key.Dest, Flow: row.key.Flow,
			Provider: string(row.group.key.Provider), Fallback: row.fallback, Errors: row.errors, Stats: st,
			LaneKey: row.group.id, Continuous: row.group.continuous.Load(),
		}
		v.State, v.Error = sourceRowState(row, st, open)
		if open {
			v.OriginGaps = st.OriginGaps
			v.Errors += st.Errors
			if st.Head != mxl.UndefinedIndex {
				v.Head, v.HasHead = st.Head, true
			}
		}
		for _, t := range st.Targets {
			if t.Key == row.key.Dest {
				v.Target = t
				v.Errors += t.Errors
			}
		}
		views = append(views, v)
	}
	slices.SortFunc(views, func(a, b sourceView) int {
		return cmp.Or(bytes.Compare(a.Flow[:], b.Flow[:]), cmp.Compare(a.Dest, b.Dest))
	})
	return views
}

// logEvents writes what the lanes reported.
func (s *sources) logEvents() {
	s.mu.Lock()
	groups := make([]*sourceGroup, 0, len(s.groups))
	for _, g := range s.groups {
		groups = append(groups, g)
	}
	s.mu.Unlock()
	for _, g := range groups {
		for lane := g.open(); lane != nil; {
			select {
			case e, ok := <-lane.Events():
				if ok {
					logSourceEvent(s.log, g, e)
					continue
				}
			default:
			}
			lane = nil
		}
	}
}

func logSourceEvent(log *slog.Logger, g *sourceGroup, e fabrics.SourceEvent) {
	args := []any{"replication_id", g.id, "flow_id", g.key.Flow}
	if e.Key != "" {
		args = append(args, "peer", e.Key)
	}
	if e.Detail != "" {
		args = append(args, "reason", e.Detail)
	}
	switch e.Name {
	case "target_connected", "origin_reopened":
		log.Info(e.Name, args...)
	case "origin_deleted": // the contract has one name for a file that is gone and one that is another; the reason tells
		log.Warn("origin_changed", args...)
	default:
		log.Warn(e.Name, args...)
	}
}

// close ends every lane. It waits for them.
func (s *sources) close() {
	s.mu.Lock()
	s.closed = true
	groups := make([]*sourceGroup, 0, len(s.groups))
	for _, g := range s.groups {
		groups = append(groups, g)
	}
	s.rows, s.groups = map[rowKey]*sourceRow{}, map[groupKey]*sourceGroup{}
	s.mu.Unlock()
	var wg sync.WaitGroup
	for _, g := range groups {
		wg.Go(func() {
			g.mu.Lock()
			defer g.mu.Unlock()
			s.end(g)
		})
	}
	wg.Wait()
}
