package agent

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/mxl-stack/mxl-fabrics-agent/fabrics"
)

// stalledLane has one stall to tell.
type stalledLane struct {
	stalls int
}

func (s *stalledLane) TakeStall() (fabrics.Stall, bool) {
	s.stalls--
	return fabrics.Stall{Gap: 70 * time.Millisecond, Task: "post", Held: 60 * time.Millisecond}, s.stalls >= 0
}

func TestStallsAreLoggedOnceASecond(t *testing.T) {
	var text bytes.Buffer
	a := &Agent{log: slog.New(slog.NewTextHandler(&text, nil)), loop: newLoop(), sources: newSources(slog.New(slog.DiscardHandler), time.Now, nil, nil)}
	key := pullKey{Peer: "node-a", Domain: "d", Flow: uuid.New()}
	p := newPull(key, pullDeps{})
	destination := &stalledLane{stalls: 2}
	p.seen.Store(&destinationView{Key: key, lane: targetOnly{destination}})
	a.pullIndex.store(map[pullKey]*pull{key: p})
	var source sourceLane = sourceOnly{&stalledLane{stalls: 1}}
	g := &sourceGroup{key: groupKey{Flow: uuid.New()}}
	g.lane.Store(&source)
	a.sources.groups[g.key] = g

	now := time.Now()
	for range 5 {
		a.lookAtLanes(now)
		now = now.Add(passEvery)
	}
	a.lookAtLanes(now)
	lines := strings.Split(strings.TrimSpace(text.String()), "\n")
	if len(lines) != 3 {
		t.Fatalf("%d lines, want two of the target and one of the source:\n%s", len(lines), text.String())
	}
	for _, want := range []string{"msg=fabric_thread_stall", "gap_ms=70", "task=post", "task_ms=60", key.Flow.String(), "role=destination"} {
		if !strings.Contains(lines[0]+lines[1], want) {
			t.Errorf("no %s in %s", want, text.String())
		}
	}
}

type targetOnly struct{ *stalledLane }

func (t targetOnly) Info() fabrics.TargetInfo   { return fabrics.TargetInfo{} }
func (t targetOnly) Stats() fabrics.TargetStats { return fabrics.TargetStats{} }
func (t targetOnly) RequireSecret()             {}
func (t targetOnly) CheckMirror() error         { return nil }
func (t targetOnly) CheckMirrorFile() error     { return nil }
func (t targetOnly) Close() error               { return nil }

type sourceOnly struct{ *stalledLane }

func (s sourceOnly) Stats() fabrics.SourceStats                 { return fabrics.SourceStats{} }
func (s sourceOnly) SetTarget(string, fabrics.TargetInfo) error { return nil }
func (s sourceOnly) RemoveTarget(string)                        {}
func (s sourceOnly) Events() <-chan fabrics.SourceEvent         { return nil }
func (s sourceOnly) Close() error                               { return nil }
