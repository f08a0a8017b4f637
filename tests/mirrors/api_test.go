package mirrors

import (
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/mxl-stack/mxl-fabrics-agent/tests/mesh"
)

const unknownID = "0d9f6c3a-2b71-4f5e-8a64-1c2d3e4f7fff"

func rebuildPath(domain, flow string) string {
	return "/api/v1/mirrors/" + domain + "/" + flow + "/rebuild"
}

// The test hook: every status, the readers it names, and that replication goes on
// in the new file (contract, "Test hook").
func TestRebuildHook(t *testing.T) {
	t.Parallel()
	s := start(t, nil, func(s *site) { s.B.Set("MIRROR_ADMIN_REBUILD", "true") })
	f := flowOf("video", 1)
	s.write(f)
	s.must(s.Connect(s.ctx, 0, f))
	s.flows(f, 20*time.Second)

	s.answer(s.A, http.MethodPost, rebuildPath(domainID, f.ID), http.StatusForbidden)
	s.answer(s.A, http.MethodPost, rebuildPath("x", "y"), http.StatusForbidden)
	s.answer(s.B, http.MethodPost, rebuildPath("x", f.ID), http.StatusBadRequest)
	s.answer(s.B, http.MethodPost, rebuildPath(domainID, "y"), http.StatusBadRequest)
	s.answer(s.B, http.MethodPost, rebuildPath(domainID, unknownID), http.StatusNotFound)
	s.answer(s.B, http.MethodPost, rebuildPath(unknownID, f.ID), http.StatusNotFound)
	if status, body, err := s.B.Do(s.ctx, http.MethodPut, "/api/v1/config", map[string]string{"MIRROR_ADMIN_REBUILD": "false"}); err != nil || status != http.StatusBadRequest {
		t.Errorf("PUT of the hook's setting: %d %s %v", status, body, err)
	}

	events, err := s.B.Events(s.ctx)
	s.must(err)
	reader := s.hold(f)
	var answer struct {
		OldInode uint64           `json:"old_inode"`
		Inode    uint64           `json:"inode"`
		Readers  []mesh.ReaderRow `json:"readers"`
	}
	// A dry run of the cleanup is no matter of the hook.
	s.must(s.B.Configure(s.ctx, map[string]string{"MIRROR_CLEANUP_DRY_RUN": "true"}))
	old := s.inode(f)
	s.must(json.Unmarshal([]byte(s.answer(s.B, http.MethodPost, rebuildPath(domainID, f.ID), http.StatusOK)), &answer))
	if answer.OldInode != old || answer.Inode == old || answer.Inode != s.inode(f) {
		t.Errorf("inodes %+v, was %d, is %d", answer, old, s.inode(f))
	}
	if len(answer.Readers) != 1 || answer.Readers[0] != (mesh.ReaderRow{PID: reader.PID(), Comm: "mxl-pattern"}) {
		t.Errorf("readers %+v, want %d", answer.Readers, reader.PID())
	}
	if len(s.B.Logged("mirror_rebuild_requested", "flow_id", f.ID, "domain_id", domainID)) != 1 {
		t.Error("no mirror_rebuild_requested")
	}
	s.rebuilt(f, 1, "api")
	s.flows(f, 5*time.Second)
	s.counts(`mirror_rebuilds_total{domain_id="`+domainID+`",flow_id="`+f.ID+`"`, 1)
	s.sawRebuild(events, f, "api")
	s.nothingHalfMade(f)

	// What cannot be made again is a 500; the flow stays as it is.
	definition := filepath.Join(filepath.Dir(s.data(f)), "flow_def.json")
	text, err := os.ReadFile(definition)
	s.must(err)
	s.must(os.WriteFile(definition, []byte("{"), 0o644))
	kept := s.inode(f)
	s.answer(s.B, http.MethodPost, rebuildPath(domainID, f.ID), http.StatusInternalServerError)
	s.must(os.WriteFile(definition, text, 0o644))
	if s.inode(f) != kept {
		t.Error("a rebuild that failed changed the file")
	}
	s.flows(f, 5*time.Second)
	s.must(json.Unmarshal([]byte(s.answer(s.B, http.MethodPost, rebuildPath(strings.ToUpper(domainID), strings.ToUpper(f.ID)), http.StatusOK)), &answer))
	s.rebuilt(f, 2, "api")
	s.flows(f, 5*time.Second)
}

// sawRebuild waits for the SSE event of a rebuild.
func (s *site) sawRebuild(events <-chan mesh.Event, f mesh.Flow, reason string) {
	s.Helper()
	limit := time.After(5 * time.Second)
	for {
		select {
		case e := <-events:
			if e.Name == "mirror" && strings.Contains(e.Data, `"event":"rebuilt"`) && strings.Contains(e.Data, f.ID) {
				if !strings.Contains(e.Data, `"last_rebuild_reason":"`+reason+`"`) || !strings.Contains(e.Data, `"rebuilds":1`) {
					s.Errorf("event %s", e.Data)
				}
				return
			}
		case <-limit:
			s.Error("no SSE event mirror with event = rebuilt")
			return
		}
	}
}

// DELETE of a whole mirror domain: every status (agent API reference §6.2).
func TestDeleteMirror(t *testing.T) {
	t.Parallel()
	foreign := "5f4c1d2e-7a3b-4c6d-9e8f-0a1b2c3d4e39"
	s := start(t, nil, func(s *site) {
		directory := s.B.MirrorDomain(foreign)
		s.must(os.MkdirAll(directory, 0o755))
		s.must(os.WriteFile(filepath.Join(directory, "domain_def.json"), []byte(`{"id":"`+foreign+`","label":"","description":"","tags":{},
			"x-mxl-fabrics-agent":{"mirror":true,"source_host_id":"host-x","owner_host_id":"host-z"}}`), 0o644))
	})
	f, quiet := flowOf("video", 1), flowOf("quiet", 2)
	s.write(f)
	s.write(quiet)
	s.must(s.Connect(s.ctx, 0, f))
	s.flows(f, 20*time.Second)
	s.must(s.Mirrored(s.ctx, quiet, 10*time.Second))
	path := "/api/v1/mirrors/" + domainID

	s.answer(s.B, http.MethodDelete, "/api/v1/mirrors/"+unknownID, http.StatusNotFound)
	s.answer(s.B, http.MethodDelete, "/api/v1/mirrors/no-uuid", http.StatusNotFound)
	s.answer(s.B, http.MethodDelete, "/api/v1/mirrors/..%2Fhost-b", http.StatusNotFound)
	s.answer(s.B, http.MethodDelete, "/api/v1/mirrors/"+foreign, http.StatusNotFound)
	if _, err := os.Stat(filepath.Join(s.B.MirrorDomain(foreign), "domain_def.json")); err != nil {
		t.Errorf("the other agent's mirror: %v", err)
	}

	if !s.seesAll {
		// The refusal is all that can be checked here.
		body := s.answer(s.B, http.MethodDelete, path, http.StatusConflict)
		if !strings.Contains(body, `"error":"`) || s.inode(f) == 0 {
			t.Errorf("refused with %s, inode %d", body, s.inode(f))
		}
		t.Log("not every process can be seen here: removals were not checked")
		return
	}

	// A reader of one flow keeps the whole domain; nothing stops for the question.
	reader := s.hold(quiet)
	inodes := [2]uint64{s.inode(f), s.inode(quiet)}
	restarts := s.restarts(f)
	var refused struct {
		Readers []mesh.ReaderRow `json:"readers"`
	}
	s.must(json.Unmarshal([]byte(s.answer(s.B, http.MethodDelete, path, http.StatusConflict)), &refused))
	if len(refused.Readers) != 1 || refused.Readers[0].PID != reader.PID() {
		t.Errorf("readers %+v, want %d", refused.Readers, reader.PID())
	}
	s.counts(`mirror_domains_refused_total{reason="api"}`, 1)
	if got := [2]uint64{s.inode(f), s.inode(quiet)}; got != inodes || s.restarts(f) != restarts {
		t.Errorf("a refused removal changed inodes %v to %v, or the replication", inodes, got)
	}
	s.flows(f, 5*time.Second)
	reader.Stop(5 * time.Second)

	// Neither does something in the directory that cannot go.
	deep := filepath.Join(s.B.MirrorDomain(domainID), "theirs")
	s.must(os.MkdirAll(filepath.Join(deep, "2/3/4/5/6"), 0o755))
	if body := s.answer(s.B, http.MethodDelete, path, http.StatusConflict); !strings.Contains(body, `"removed":false,"flows":0`) ||
		!strings.Contains(body, s.B.MirrorDomain(domainID)+"/theirs/2/3/4/5: it is nested too deeply") {
		t.Errorf("refused with %s", body)
	}
	s.counts(`mirror_domains_refused_total{reason="api"}`, 2)
	if lines := s.B.Logged("mirror_domain_remove_failed", "domain_id", domainID); len(lines) != 1 || lines[0]["flow_id"] != "" {
		t.Errorf("logged %v", lines)
	}
	if got := [2]uint64{s.inode(f), s.inode(quiet)}; got != inodes || s.restarts(f) != restarts {
		t.Errorf("an impossible removal changed inodes %v to %v, or the replication", inodes, got)
	}
	s.must(os.RemoveAll(deep))
	s.flows(f, 5*time.Second)

	// A dry run removes nothing.
	s.must(s.B.Configure(s.ctx, map[string]string{"MIRROR_CLEANUP_DRY_RUN": "true"}))
	s.answer(s.B, http.MethodDelete, path, http.StatusOK)
	s.logged("mirror_domain_would_remove", "domain_id", domainID, "reason", "api")
	if got := [2]uint64{s.inode(f), s.inode(quiet)}; got != inodes {
		t.Errorf("a dry run changed inodes %v to %v", inodes, got)
	}
	s.must(s.B.Configure(s.ctx, map[string]string{"MIRROR_CLEANUP_DRY_RUN": "false"}))

	// Removed, and back at once, because eager mode wants it: within the first 30 s
	// too, and by its id in upper case.
	if body := s.answer(s.B, http.MethodDelete, "/api/v1/mirrors/"+strings.ToUpper(domainID), http.StatusOK); !strings.Contains(body, `"removed":true`) {
		t.Errorf("answer %s", body)
	}
	s.logged("mirror_domain_removed", "domain", domainID, "reason", "api", "flows", "2")
	s.counts(`mirror_domains_removed_total{reason="api"}`, 1)
	s.rebuilt(f, 1, "mirror_domain_api")
	s.flows(f, 10*time.Second)
	if s.inode(f) == inodes[0] {
		t.Error("the mirror has its old inode")
	}
	s.nothingHalfMade(f)
}

// restarts is how often the flow's replication was set up anew.
func (s *site) restarts(f mesh.Flow) int {
	return len(s.B.Logged("replication_restarted", "flow_id", f.ID))
}

// In a PID namespace of its own an agent cannot see who reads, and removes
// nothing.
func TestOwnPIDNamespaceRemovesNothing(t *testing.T) {
	t.Parallel()
	through := []string{"unshare", "--pid", "--fork", "--kill-child", "--mount-proc"}
	if err := exec.Command(through[0], append(through[1:], "true")...).Run(); err != nil {
		t.Skipf("no PID namespace can be made here: %v", err)
	}
	s := start(t, nil, func(s *site) { s.B.Through = through })
	// unshare does not hand SIGTERM on; the agent goes with it.
	t.Cleanup(func() {
		s.B.Signal(syscall.SIGKILL)
		<-s.B.Done()
	})
	f := flowOf("video", 1)
	s.write(f)
	s.must(s.Mirrored(s.ctx, f, 20*time.Second))
	inode := s.inode(f)
	s.eventually(10*time.Second, "the incomplete sight is shown", func() error {
		row, err := s.B.Mirror(s.ctx, domainID)
		if err == nil && (row.ReadersKnown || !strings.Contains(row.ReadersError, "PID namespace")) {
			err = syscall.EAGAIN
		}
		return err
	})
	body := s.answer(s.B, http.MethodDelete, "/api/v1/mirrors/"+domainID, http.StatusConflict)
	if !strings.Contains(body, "hostPID is needed") {
		t.Errorf("refused with %s", body)
	}
	if s.inode(f) != inode {
		t.Error("the mirror is another one")
	}
}
