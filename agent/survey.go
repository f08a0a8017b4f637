package agent

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/mxl-stack/mxl-fabrics-agent/mirror"
)

// A survey of the mirrors on disk takes some microseconds a flow. Another one is
// made after surveyShare times that long, so that it never costs more than that
// part of a processor, and at the latest after surveyLatest.
const (
	surveyShare  = 400
	surveyLatest = 2 * time.Second
)

// surveyedRoom is what the surveys need of a mirror.Room.
type surveyedRoom interface {
	Survey() ([]mirror.DomainOnDisk, error)
	Refresh(list []mirror.DomainOnDisk) []mirror.DomainOnDisk
}

// surveys looks at the mirrors on disk beside the reconcile loop. What this agent
// changes itself is in the next look; what others change, within surveyLatest.
type surveys struct {
	room   surveyedRoom
	latest atomic.Pointer[survey]
	good   atomic.Pointer[survey] // the latest that did not fail
	// changes counts the deeds of this agent that have ended: a survey that began
	// before one is not good any more.
	changes atomic.Uint64
}

type survey struct {
	list    []mirror.DomainOnDisk
	err     error
	changes uint64
	took    time.Duration
}

// look makes one survey.
func (s *surveys) look() *survey {
	out := &survey{changes: s.changes.Load()}
	began := time.Now()
	out.list, out.err = s.room.Survey()
	out.took = time.Since(began)
	s.latest.Store(out)
	if out.err == nil {
		s.good.Store(out)
	}
	return out
}

// now is the mirrors on disk with their present heads. When this process cannot
// look, that of the last look is what there is to go by: a mirror that cannot be
// seen is not one that has gone.
func (s *surveys) now() ([]mirror.DomainOnDisk, error) {
	last := s.latest.Load()
	if last == nil || last.err != nil || last.changes != s.changes.Load() {
		if last = s.look(); last.err == nil {
			return last.list, nil
		}
		if good := s.good.Load(); good != nil {
			return s.room.Refresh(good.list), last.err
		}
		return nil, last.err
	}
	return s.room.Refresh(last.list), nil
}

// changed says that this agent has changed mirrors.
func (s *surveys) changed() { s.changes.Add(1) }

// run surveys until ctx ends.
func (s *surveys) run(ctx context.Context) {
	for {
		last := s.look()
		timer := time.NewTimer(min(surveyLatest, max(passEvery, surveyShare*last.took)))
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
		}
	}
}
