package mirrors

import (
	"encoding/json"
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/mxl-stack/mxl-fabrics-agent/tests/mesh"
)

// health waits for the state and reason of a flow's health.
func (s *site) health(f mesh.Flow, want string, limit time.Duration) {
	s.Helper()
	s.eventually(limit, f.Name+" is "+want, func() error {
		row, err := s.B.Mirror(s.ctx, f.DomainID)
		if err != nil {
			return err
		}
		for _, flow := range row.Flows {
			got := flow.Health.State
			if flow.Health.Reason != "" {
				got += " " + flow.Health.Reason
			}
			if flow.FlowID == f.ID {
				if got == want {
					return nil
				}
				return fmt.Errorf("health %q", got)
			}
		}
		return fmt.Errorf("%+v", row)
	})
}

// heard waits for the SSE event mirror of a flow and gives its data.
func (s *site) heard(events <-chan mesh.Event, f mesh.Flow, name string) map[string]any {
	s.Helper()
	limit := time.After(10 * time.Second)
	for {
		select {
		case e := <-events:
			var data map[string]any
			if e.Name == "mirror" && json.Unmarshal([]byte(e.Data), &data) == nil && data["event"] == name && data["flow_id"] == f.ID {
				return data
			}
		case <-limit:
			s.Fatalf("no SSE event mirror with event = %s", name)
		}
	}
}

// A mirror whose source goes is stale, and live again in the same file when the
// source is back; an origin that writes nothing is idle, not stale.
func TestStaleAndRecovered(t *testing.T) {
	t.Parallel()
	s := start(t, map[string]string{"MIRROR_STALE_MS": "1000"}, nil)
	f := flowOf("video", 1)
	writer := s.write(f)
	s.must(s.Connect(s.ctx, 0, f))
	s.flows(f, 20*time.Second)
	s.health(f, "live", 10*time.Second)
	inode := s.inode(f)
	events, err := s.B.Events(s.ctx)
	s.must(err)

	s.A.Signal(syscall.SIGKILL)
	s.health(f, "stale peer_down", 10*time.Second)
	if data := s.heard(events, f, "stale"); data["reason"] != "peer_down" && data["reason"] != "no_new_grains" {
		t.Errorf("event %v", data)
	}
	s.logged("mirror_stale", "flow_id", f.ID, "stale_after_ms", "1000")
	s.counts(`mirrors_stale`, 1)
	s.counts(`mirror_stale{domain_id="`+domainID+`",flow_id="`+f.ID+`"`, 1)

	s.must(s.A.Start(s.ctx))
	s.health(f, "live", 15*time.Second)
	if data := s.heard(events, f, "recovered"); data["state"] != "live" && data["state"] != "pending" {
		t.Errorf("event %v", data)
	}
	s.logged("mirror_recovered", "flow_id", f.ID)
	s.counts(`mirrors_stale`, 0)
	if s.inode(f) != inode || len(s.B.Logged("mirror_rebuilt")) > 0 {
		t.Errorf("inode %d became %d", inode, s.inode(f))
	}
	s.flows(f, 5*time.Second)

	// A writer that holds its flow and writes nothing: no fault of the mirror.
	stales := len(s.B.Logged("mirror_stale"))
	writer.Signal(syscall.SIGSTOP)
	s.eventually(15*time.Second, "the silent origin is told from a stale mirror", func() error {
		row, err := s.B.Mirror(s.ctx, domainID)
		if err != nil {
			return err
		}
		h := row.Flows[0].Health
		if h.State != "idle" || h.Reason != "origin_silent" && h.Reason != "origin_not_live" {
			return fmt.Errorf("health %s %s", h.State, h.Reason)
		}
		return nil
	})
	if n := len(s.B.Logged("mirror_stale")) - stales; n != 0 {
		t.Errorf("%d lines mirror_stale about an origin without signal", n)
	}
	writer.Signal(syscall.SIGCONT)
	s.health(f, "live", 15*time.Second)
}
