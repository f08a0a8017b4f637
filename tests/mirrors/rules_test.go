package mirrors

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/mxl-stack/mxl-fabrics-agent/tests/mesh"
)

// An origin that comes back under the same id with another definition rebuilds
// the mirror at once, readers or not; one whose label alone is new does not.
func TestOriginComesBackAsAnother(t *testing.T) {
	t.Parallel()
	s := start(t, nil, nil)
	options := func(height, label string) []string {
		return []string{"--format", "v210", "--width", "320", "--height", height, "--rate", "50", "--history-ms", "400", "--flow-label", label}
	}
	f := flowOf("first", 1, options("180", "one")...)
	writer := s.write(f)
	s.must(s.Connect(s.ctx, 0, f))
	s.flows(f, 20*time.Second)
	first := s.inode(f)
	s.hold(f)

	writer.Stop(5 * time.Second)
	f.Name, f.Options = "second", options("180", "two")
	writer = s.write(f)
	s.flows(f, 10*time.Second)
	if s.inode(f) != first {
		t.Error("another label rebuilt the mirror")
	}

	writer.Stop(5 * time.Second)
	f.Name, f.Options = "third", options("90", "two")
	began := time.Now()
	s.write(f)
	s.rebuilt(f, 1, "origin_config_changed")
	s.flows(f, 10*time.Second)
	t.Logf("grains of the new definition after %v", time.Since(began).Round(time.Millisecond))
	if s.inode(f) == first {
		t.Error("the mirror of the old definition is still there")
	}
	s.nothingHalfMade(f)
	// What arrives is right, byte for byte.
	reader, err := s.Read(s.B, f, time.Second)
	s.must(err)
	got, err := mesh.Result[mesh.Totals](reader)
	s.must(err)
	if got.Bad > 0 || got.Verified == 0 {
		t.Errorf("%+v", got)
	}
}

// The rules for whole domains, after the first 30 s of the agent: an origin
// domain that is gone, one that a reader still has, and one that moved here.
func TestDomainRules(t *testing.T) {
	t.Parallel()
	s := start(t, map[string]string{"MIRROR_IDLE_GRACE_S": "300"}, nil)
	began := time.Now()
	orphan, busy, moved := flowOf("orphan", 1), flowOf("busy", 2), flowOf("moved", 3)
	orphan.DomainID, orphan.Domain = "5f4c1d2e-7a3b-4c6d-9e8f-0a1b2c3d4e41", "orphan"
	busy.DomainID, busy.Domain = "5f4c1d2e-7a3b-4c6d-9e8f-0a1b2c3d4e42", "busy"
	moved.DomainID, moved.Domain = "5f4c1d2e-7a3b-4c6d-9e8f-0a1b2c3d4e43", "moved"
	writers := map[string]*mesh.Process{}
	for _, f := range []mesh.Flow{orphan, busy, moved} {
		writers[f.Name] = s.write(f)
	}
	for _, f := range []mesh.Flow{orphan, busy, moved} {
		s.must(s.Mirrored(s.ctx, f, 20*time.Second))
	}
	reader := s.hold(busy)
	if !s.seesAll {
		t.Log("not every process can be seen here: what is checked is that nothing is removed")
	}
	// The functions end and take their domains with them, as mxl-replay does; one
	// starts again on B.
	for _, f := range []mesh.Flow{orphan, busy} {
		writers[f.Name].Stop(5 * time.Second)
		s.must(os.RemoveAll(filepath.Join(s.A.Root, f.Domain)))
	}
	here := moved
	here.Name = "moved-here"
	_, err := s.Write(s.B, here)
	s.must(err)
	for f, state := range map[*mesh.Flow]string{&orphan: "orphan", &busy: "orphan", &moved: "same_node"} {
		s.eventually(10*time.Second, f.Name+" is "+state, func() error {
			row, err := s.B.Mirror(s.ctx, f.DomainID)
			if err == nil && row.State != state {
				err = fmt.Errorf("state %s", row.State)
			}
			return err
		})
	}
	// Nothing goes in the first 30 s.
	s.eventually(40*time.Second, "the start guard is nearly over", func() error {
		for _, f := range []mesh.Flow{orphan, busy, moved} {
			if s.inode(f) == 0 && time.Since(began) < 29*time.Second {
				t.Fatalf("mirror %s was removed %v after the start", f.Name, time.Since(began))
			}
		}
		return elapsed(began, 28*time.Second)()
	})
	if !s.seesAll {
		s.logged("mirror_domain_busy", "domain", orphan.DomainID)
		if s.inode(orphan) == 0 || s.inode(moved) == 0 {
			t.Error("removed without seeing every process")
		}
		return
	}
	s.removed(orphan, "orphan")
	s.removed(moved, "same_node")
	s.logged("mirror_domain_busy", "domain", busy.DomainID, "reason", "orphan", "readers", fmt.Sprintf("%d (mxl-pattern)", reader.PID()))
	if s.inode(busy) == 0 {
		t.Error("a domain went under its reader")
	}
	reader.Stop(5 * time.Second)
	s.removed(busy, "orphan")
	s.counts(`mirror_domains_removed_total{reason="orphan"}`, 2)
	s.counts(`mirror_domains_removed_total{reason="same_node"}`, 1)
	// The origins that there are were not touched.
	for _, path := range []string{filepath.Join(s.A.Root, moved.Domain), filepath.Join(s.B.Root, moved.Domain)} {
		if _, err := os.Stat(filepath.Join(path, moved.ID+".mxl-flow", "data")); err != nil {
			t.Errorf("an origin: %v", err)
		}
	}
}

// elapsed is a condition that holds when so much time has passed since began.
func elapsed(began time.Time, d time.Duration) func() error {
	return func() error {
		if time.Since(began) < d {
			return errors.New("not yet")
		}
		return nil
	}
}

// removed waits until a mirror domain is gone from disk, for a reason.
func (s *site) removed(f mesh.Flow, reason string) {
	s.Helper()
	s.eventually(15*time.Second, "mirror domain "+f.Name+" is removed", func() error {
		_, err := os.Stat(s.B.MirrorDomain(f.DomainID))
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return fmt.Errorf("it is there (%v)", err)
	})
	s.logged("mirror_domain_removed", "domain", f.DomainID, "reason", reason)
}

// On demand a mirror comes with the activation and goes with the deactivation,
// and its next life is a rebuild.
func TestOnDemand(t *testing.T) {
	t.Parallel()
	s := start(t, map[string]string{"MIRROR_MODE": "on-demand"}, nil)
	began := time.Now()
	f := flowOf("video", 1)
	s.write(f)
	s.eventually(10*time.Second, "B knows the flow", func() error {
		var peers []struct {
			Up bool `json:"up"`
		}
		if err := s.B.Get(s.ctx, "/api/v1/peers", &peers); err != nil {
			return err
		}
		if len(peers) != 1 || !peers[0].Up {
			return fmt.Errorf("peers %+v", peers)
		}
		return nil
	})
	if s.inode(f) != 0 {
		t.Error("a mirror without demand")
	}
	s.must(s.Connect(s.ctx, 0, f))
	s.flows(f, 20*time.Second)
	// A mirror whose demand ends in the first 30 s waits for their end.
	s.must(mesh.Eventually(s.ctx, 40*time.Second, "the start guard is over", elapsed(began, 31*time.Second)))
	s.flows(f, 5*time.Second)
	s.must(s.Connect(s.ctx, 0, mesh.Flow{DomainID: f.DomainID, ID: unknownID}))
	s.eventually(10*time.Second, "the mirror goes without demand", func() error {
		if s.inode(f) != 0 {
			return errors.New("it is there")
		}
		return nil
	})
	s.logged("mirror_flow_removed", "flow_id", f.ID, "reason", "no_demand")
	s.must(s.Connect(s.ctx, 0, f))
	s.flows(f, 10*time.Second)
	s.rebuilt(f, 1, "no_demand")
}

// What SIGTERM leaves of a mirror that a reader has: all of it, or with
// MXL_CLEANUP_ON_EXIT=true nothing.
func TestExit(t *testing.T) {
	t.Parallel()
	s := start(t, nil, nil)
	f := flowOf("video", 1)
	s.write(f)
	s.must(s.Connect(s.ctx, 0, f))
	s.flows(f, 20*time.Second)
	s.hold(f)
	inode := s.inode(f)

	if code := s.B.Stop(12 * time.Second); code != 143 || s.inode(f) != inode {
		t.Errorf("exit code %d, inode %d became %d", code, inode, s.inode(f))
	}
	s.B.Set("MXL_CLEANUP_ON_EXIT", "true")
	s.must(s.B.Start(s.ctx))
	s.flows(f, 10*time.Second)
	if s.inode(f) != inode || len(s.B.Logged("mirror_rebuilt")) > 0 || len(s.B.Logged("mirror_domain_adopted", "flows", "1")) != 1 {
		t.Errorf("inode %d became %d over a restart", inode, s.inode(f))
	}
	if code := s.B.Stop(12 * time.Second); code != 143 {
		t.Errorf("exit code %d", code)
	}
	if _, err := os.Stat(s.B.MirrorDomain(domainID)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the mirror after an exit with cleanup: %v", err)
	}
}

// A flow that does not fit: the state says so, the agent and other flows go on,
// nothing half-made stays, and the mirror comes when there is room.
func TestInsufficientSpace(t *testing.T) {
	t.Parallel()
	small := flowOf("small", 1)
	large := flowOf("large", 2, "--format", "v210", "--width", "1920", "--height", "1080", "--rate", "50", "--history-ms", "400", "--duration", "0")
	s := start(t, nil, func(s *site) {
		if out, err := exec.Command("mount", "-t", "tmpfs", "-o", "size=64m", "tmpfs", s.B.Root).CombinedOutput(); err != nil {
			t.Skipf("no tmpfs can be mounted here: %v: %s", err, out)
		}
		t.Cleanup(func() {
			s.B.Stop(12 * time.Second)
			if out, err := exec.Command("umount", "-l", s.B.Root).CombinedOutput(); err != nil {
				t.Errorf("umount: %v: %s", err, out)
			}
		})
	})
	s.write(small)
	s.must(s.Connect(s.ctx, 0, small))
	s.flows(small, 20*time.Second)
	inode := s.inode(small)
	s.write(large)
	s.must(s.Connect(s.ctx, 1, large))
	s.flowState(large, "insufficient_space")
	if s.inode(large) != 0 {
		t.Error("the large flow was made")
	}
	s.nothingHalfMade(small)
	if _, err := os.Stat(filepath.Dir(s.data(large))); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("something of the large flow: %v", err)
	}
	s.flows(small, 5*time.Second)
	if s.inode(small) != inode || !s.B.Running() {
		t.Error("the other flow did not go on")
	}

	if out, err := exec.Command("mount", "-o", "remount,size=512m", s.B.Root).CombinedOutput(); err != nil {
		t.Fatalf("remount: %v: %s", err, out)
	}
	s.flows(large, 20*time.Second)
	s.flowState(large, "replicating")
	if s.inode(small) != inode {
		t.Error("the other flow was made anew")
	}
}

// flowState waits for the per-flow state in GET /api/v1/mirrors.
func (s *site) flowState(f mesh.Flow, want string) {
	s.Helper()
	s.eventually(10*time.Second, f.Name+" is "+want, func() error {
		row, err := s.B.Mirror(s.ctx, f.DomainID)
		if err != nil {
			return err
		}
		for _, flow := range row.Flows {
			if flow.FlowID == f.ID && flow.State == want {
				return nil
			}
		}
		return fmt.Errorf("%+v", row.Flows)
	})
}
