package mirrors

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/mxl-stack/mxl-fabrics-agent/tests/mesh"
)

// notReady waits until B is not ready and says why.
func (s *site) notReady(why string) {
	s.Helper()
	s.eventually(10*time.Second, "B is not ready: "+why, func() error {
		status, body, err := s.B.Do(s.ctx, http.MethodGet, "/readyz", nil)
		if err == nil && (status != http.StatusServiceUnavailable || !strings.Contains(string(body), why)) {
			err = fmt.Errorf("%d %s", status, body)
		}
		return err
	})
}

// boot is the id of B's present start.
func (s *site) boot() string {
	s.Helper()
	var info struct {
		BootID string `json:"boot_id"`
	}
	s.must(s.B.Get(s.ctx, "/api/v1/info", &info))
	return info.BootID
}

// restartedOnRoot waits until B has restarted in place for its root.
func (s *site) restartedOnRoot(before string) {
	s.Helper()
	s.logged("restart_in_place", "reason", "mxl_root", "path", s.B.Root)
	s.logged("restarted_in_place", "reason", "mxl_root", "restarts", "1")
	s.must(s.B.Ready(s.ctx, 30*time.Second))
	if s.boot() == before {
		s.Errorf("boot id %s as before", before)
	}
}

// The MXL root is moved away and another made in its place while a mirror in it is
// read: the reader is not cut off, and once it has ended the agent goes to the new
// directory by itself, with the same process id. The old one stays as it is.
func TestReplacedRootIsTakenOnceNobodyReadsTheOldOne(t *testing.T) {
	s := start(t, nil, nil)
	f := flowOf("replaced", 700)
	s.write(f)
	s.must(s.Connect(s.ctx, 0, f))
	s.flows(f, 20*time.Second)
	reader := s.hold(f)
	ring, err := s.OpenMirror(s.B, f)
	s.must(err)
	defer ring.Close()
	pid, boot, aside := s.B.PID(), s.boot(), s.B.Root+"-aside"

	s.must(os.Rename(s.B.Root, aside))
	s.notReady("is gone")
	s.must(os.Mkdir(s.B.Root, 0o755))
	who := "not known"
	if s.seesAll {
		who = strconv.Itoa(reader.PID())
	}
	s.notReady(who)
	deferred := s.logged("restart_in_place_deferred", "path", s.B.Root)
	if !strings.Contains(deferred["reason"], f.ID) || !strings.Contains(deferred["reason"], who) {
		s.Errorf("deferred: %v", deferred)
	}
	head := ring.Head()
	s.must(mesh.NextGrain(s.ctx, ring, head+50, 10*time.Second)) // a second of it
	if got := s.boot(); got != boot {
		s.Fatalf("restarted while a reader was there: %v", s.B.Logged("restart_in_place"))
	}

	// Nor does it go where its next start would end with exit code 78.
	file := filepath.Join(s.Logs, "state-"+s.B.HostID, "agent.json")
	s.must(os.WriteFile(file, []byte(`{"MIRROR_STALE_MS":"soon"}`), 0o600))
	ring.Close()
	reader.Stop(5 * time.Second)
	if !s.seesAll { // then only a flow that ends is known not to be read
		node := s.NMOS.Nodes()[0]
		s.must(mesh.Activate(s.ctx, http.DefaultClient, node.URL(), node.Receivers()[0].ID, nil))
	}
	s.notReady("MIRROR_STALE_MS")
	s.must(os.Remove(file))
	s.restartedOnRoot(boot)
	s.must(s.Connect(s.ctx, 0, f))
	s.flows(f, 20*time.Second)
	if got := s.B.PID(); got != pid || !s.B.Running() {
		s.Errorf("process %d, before %d", got, pid)
	}
	if _, err := os.Stat(filepath.Join(aside, "mirror-"+f.DomainID, f.ID+".mxl-flow", "data")); err != nil {
		s.Errorf("the old mirror: %v", err)
	}
	if n := len(s.B.Logged("restart_in_place_deferred")); n != 2 {
		s.Errorf("%d lines restart_in_place_deferred, want 2", n)
	}
	s.must(os.RemoveAll(aside))
}

// Another tmpfs is mounted over the root of an agent whose mirror nobody reads: it
// goes there at once, and is not ready when that is unmounted.
func TestRootThatIsMountedOverIsTaken(t *testing.T) {
	if out, err := exec.CommandContext(t.Context(), "unshare", "--mount", "true").CombinedOutput(); err != nil {
		t.Logf("no mounts here: %v: %s", err, out) // only root may
		return
	}
	s := start(t, nil, func(s *site) { s.B.Through = []string{"unshare", "--mount"} })
	inside := func(command ...string) {
		s.Helper()
		out, err := exec.CommandContext(s.ctx, "nsenter", append([]string{"--mount=/proc/" + strconv.Itoa(s.B.PID()) + "/ns/mnt"}, command...)...).CombinedOutput()
		if err != nil {
			s.Fatalf("%q: %v: %s", command, err, out)
		}
	}
	f := flowOf("mounted", 701)
	s.write(f)
	s.must(s.Mirrored(s.ctx, f, 20*time.Second))
	below, boot := s.data(f), s.boot()

	inside("mount", "-t", "tmpfs", "-o", "size=64m,mode=0755", "other", s.B.Root)
	s.restartedOnRoot(boot)
	above := filepath.Join("/proc", strconv.Itoa(s.B.PID()), "root", below)
	s.eventually(20*time.Second, "the mirror is on the other tmpfs", func() error {
		_, err := os.Stat(above)
		return err
	})
	if _, err := os.Stat(below); err != nil {
		s.Errorf("the old mirror: %v", err)
	}

	inside("umount", "--lazy", s.B.Root)
	s.notReady("was unmounted")
	if lines := s.B.Logged("mxl_root_lost"); len(lines) != 2 || len(s.B.Logged("restart_in_place")) != 1 {
		s.Errorf("%v, and restarts %v", lines, s.B.Logged("restart_in_place"))
	}
}
