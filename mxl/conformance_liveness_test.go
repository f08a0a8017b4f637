package mxl

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sys/unix"
)

// inFutex reports whether a thread of a process sleeps on a shared futex word (operation FUTEX_WAIT).
func inFutex(pid int) bool {
	paths, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/syscall", pid))
	for _, p := range paths {
		b, err := os.ReadFile(p)
		// The fields are the number of the system call and its arguments; the second argument is the operation.
		if f := strings.Fields(string(b)); err == nil && len(f) > 2 && f[0] == fmt.Sprint(unix.SYS_FUTEX) && f[2] == "0x0" {
			return true
		}
	}
	return false
}

func TestConformance35HeldFlowIsActive(t *testing.T) {
	d := newDomain(t, 0)
	w := newGrainWriter(t, d, dataDef(50, 1))
	c := newSampleWriter(t, d, audioDef(2, 48000), FlowOptions{})
	for _, f := range []struct {
		id   uuid.UUID
		ring string
	}{{w.ID(), "grains/data.4"}, {c.ID(), nameChannels}} {
		out := startChild(t, "active", nil, childDomain+"="+d.Path(), childID+"="+f.id.String())
		if got := out.line(t); got != "true 0" {
			t.Errorf("another process says: active and collected %s", got)
		}
		for _, name := range []string{nameData, f.ring} {
			fd, err := unix.Open(filepath.Join(d.Path(), FlowDirName(f.id), name), unix.O_RDONLY, 0)
			if err != nil {
				t.Fatal(err)
			}
			if err := unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB); err != unix.EWOULDBLOCK {
				t.Errorf("exclusive lock on %s: %v", name, err)
			}
			unix.Close(fd)
		}
	}
	w.Close()
	if active, err := d.IsActive(w.ID()); err != nil || active {
		t.Errorf("after close: active %v, %v", active, err)
	}
	if _, err := d.IsActive(uuid.New()); !errors.Is(err, ErrFlowNotFound) {
		t.Errorf("no flow: %v", err)
	}
}

func TestConformance36KilledWriterIsCollected(t *testing.T) {
	d := newDomain(t, 0)
	def := dataDef(50, 1)
	id := parse(t, def).ID
	c := startChild(t, "hold", nil, childDomain+"="+d.Path(), childDef+"="+string(def))
	if got := c.line(t); got != "ready" {
		t.Fatal(got)
	}
	r := newGrainReader(t, d, id)
	if active, err := d.IsActive(id); err != nil || !active {
		t.Fatalf("active %v, %v", active, err)
	}
	if removed, err := d.CollectGarbage(); err != nil || len(removed) != 0 {
		t.Fatalf("collected %v, %v", removed, err)
	}
	if err := d.RemoveFlow(id); !errors.Is(err, ErrConflict) {
		t.Fatalf("remove of a held flow: %v", err)
	}
	if err := c.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = c.cmd.Wait()
	if active, err := d.IsActive(id); err != nil || active {
		t.Errorf("after SIGKILL: active %v, %v", active, err)
	}
	if err := r.Check(); err != nil {
		t.Errorf("nothing was deleted yet: %v", err)
	}
	removed, err := d.CollectGarbage()
	if err != nil || len(removed) != 1 || removed[0] != id {
		t.Errorf("collected %v, %v", removed, err)
	}
	if err := r.Check(); !errors.Is(err, ErrFlowInvalid) || !errors.Is(err, ErrFlowNotFound) {
		t.Errorf("a collected flow: %v", err)
	}
	noLeftovers(t, d)
}

func TestConformance37LastReleaseDeletes(t *testing.T) {
	d := newDomain(t, 0)
	def := dataDef(50, 1)
	a := newGrainWriter(t, d, def)
	b, _, err := d.CreateDiscreteWriter(def, FlowOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if deleted, err := a.Release(); err != nil || deleted {
		t.Fatalf("first release: deleted %v, %v", deleted, err)
	}
	if active, err := d.IsActive(b.ID()); err != nil || !active {
		t.Errorf("active %v, %v", active, err)
	}
	if deleted, err := b.Release(); err != nil || !deleted {
		t.Fatalf("last release: deleted %v, %v", deleted, err)
	}
	if _, err := os.Stat(b.Dir()); !os.IsNotExist(err) {
		t.Errorf("still there: %v", err)
	}
	if deleted, err := b.Release(); err != nil || deleted {
		t.Errorf("release again: %v %v", deleted, err)
	}
	c := newSampleWriter(t, d, audioDef(2, 48000), FlowOptions{})
	if deleted, err := c.Release(); err != nil || !deleted {
		t.Errorf("audio: deleted %v, %v", deleted, err)
	}
	noLeftovers(t, d)
}

func TestReleaseLeavesAReplacedFlow(t *testing.T) {
	d := newDomain(t, 0)
	def := dataDef(50, 1)
	old := newGrainWriter(t, d, def)
	if err := os.RemoveAll(old.Dir()); err != nil {
		t.Fatal(err)
	}
	fresh := newGrainWriter(t, d, def)
	if deleted, err := old.Release(); err != nil || deleted {
		t.Errorf("deleted %v, %v", deleted, err)
	}
	if err := fresh.Check(); err != nil {
		t.Errorf("the new flow of the same id: %v", err)
	}
}

func TestConformance38CloseKeepsTheFlow(t *testing.T) {
	d := newDomain(t, 0)
	def := dataDef(50, 1)
	id := parse(t, def).ID
	c := startChild(t, "hold", nil, childDomain+"="+d.Path(), childDef+"="+string(def))
	if got := c.line(t); got != "ready" {
		t.Fatal(got)
	}
	before, err := d.FlowInfo(id)
	if err != nil {
		t.Fatal(err)
	}
	c.stdin.Close()
	if err := c.cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	w, created, err := d.CreateDiscreteWriter(def, FlowOptions{})
	if err != nil || created || w.Inode() != before.Inode || w.Info().StoredInode != before.Inode {
		t.Fatalf("created %v, %v", created, err)
	}
	write(t, w, 9, 1)
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	again, created, err := d.CreateDiscreteWriter(def, FlowOptions{})
	if err != nil || created || again.Inode() != before.Inode || again.Head() != 9 {
		t.Errorf("created %v, %v", created, err)
	}
	again.Close()
}

func TestConformance39ReplacedFlowIsInvalid(t *testing.T) {
	d := newDomain(t, 0)
	def := dataDef(50, 1)
	w := newGrainWriter(t, d, def)
	write(t, w, 30, 1)
	r := newGrainReader(t, d, w.ID())
	if err := os.RemoveAll(w.Dir()); err != nil {
		t.Fatal(err)
	}
	if err := r.Check(); !errors.Is(err, ErrFlowInvalid) || !errors.Is(err, ErrFlowNotFound) {
		t.Errorf("removed: %v", err)
	}
	newGrainWriter(t, d, def)
	if err := r.Check(); !errors.Is(err, ErrFlowInvalid) || errors.Is(err, ErrFlowNotFound) {
		t.Errorf("replaced: %v", err)
	}
	// Only where it would be too early does a reader look.
	if g, err := r.Grain(30, AllSlices); err != nil || g.Index != 30 {
		t.Errorf("a grain that is there: %v", err)
	}
	if _, err := r.Grain(20, AllSlices); err != ErrTooLate {
		t.Errorf("too late: %v", err)
	}
	if _, err := r.Grain(31, AllSlices); !errors.Is(err, ErrFlowInvalid) {
		t.Errorf("too early: %v", err)
	}
	start := time.Now()
	if _, err := r.WaitGrain(31, AllSlices, 20*time.Second); !errors.Is(err, ErrFlowInvalid) || time.Since(start) > 10*time.Second {
		t.Errorf("waiting: %v after %v", err, time.Since(start))
	}
}

func TestConformance40ByteCopyIsInvalid(t *testing.T) {
	d := newDomain(t, 0)
	w := newGrainWriter(t, d, dataDef(50, 1))
	write(t, w, 30, 1)
	other := newDomain(t, 0)
	if out, err := exec.Command("cp", "-a", w.Dir(), other.Path()).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	r := newGrainReader(t, other, w.ID())
	if _, err := r.Grain(30, AllSlices); err != nil {
		t.Errorf("what is there: %v", err)
	}
	if _, err := r.Grain(31, AllSlices); !errors.Is(err, ErrFlowInvalid) {
		t.Errorf("too early in a copy: %v", err)
	}
	correctInode(t, other, w.ID())
	if _, err := r.Grain(31, AllSlices); err != ErrTooEarly {
		t.Errorf("after the correction: %v", err)
	}
}

func TestConformance41LockIsRetried(t *testing.T) {
	d := newDomain(t, 0)
	w := newGrainWriter(t, d, dataDef(50, 1))
	w.Close()
	fd, err := unix.Open(filepath.Join(w.Dir(), nameData), unix.O_RDONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	if err := unix.Flock(fd, unix.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	if _, err := d.OpenDiscreteWriter(w.ID()); !errors.Is(err, unix.EWOULDBLOCK) || time.Since(start) < 50*time.Millisecond {
		t.Errorf("lock held for ever: %v after %v", err, time.Since(start))
	}
	var freed sync.WaitGroup
	freed.Go(func() {
		time.Sleep(20 * time.Millisecond)
		_ = unix.Flock(fd, unix.LOCK_UN)
	})
	again, err := d.OpenDiscreteWriter(w.ID())
	freed.Wait()
	if err != nil {
		t.Fatalf("lock held for 20 ms: %v", err)
	}
	again.Close()
}

func TestConformance43FullFileSystem(t *testing.T) {
	attr := &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS}
	if os.Geteuid() != 0 {
		attr = &syscall.SysProcAttr{
			Cloneflags:  syscall.CLONE_NEWNS | syscall.CLONE_NEWUSER,
			UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
			GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
		}
	}
	// 10 grains of 442 kB do not fit into 2 MB.
	c := startChild(t, "fill", attr, childDomain+"="+shmDir(t), childDef+"="+string(videoDef(1280, 128, 50, 1)))
	got := c.line(t)
	if strings.Contains(got, unix.EPERM.Error()) {
		t.Skip("no right to mount a small tmpfs: " + got)
	}
	if !strings.HasPrefix(got, "0 left, enospc true") || !strings.Contains(got, "allocate") {
		t.Error(got)
	}
}

func TestOtherUserReadsOnly(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can become another user")
	}
	d := newDomain(t, 0)
	if err := os.Chmod(d.Path(), 0o755); err != nil {
		t.Fatal(err)
	}
	w := newGrainWriter(t, d, dataDef(50, 1))
	write(t, w, 5, 1)
	w.Close() // nobody holds it, and still it is not for others to collect
	attr := &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	c := startChild(t, "other", attr, childDomain+"="+d.Path(), childID+"="+w.ID().String())
	got := c.line(t)
	if !strings.HasPrefix(got, "read <nil>, collected 0 <nil>, write denied true") ||
		!strings.Contains(got, "uid 0 gid 0 mode 0644, we are uid 65534 gid 65534") {
		t.Error(got)
	}
}

func TestCollectorLeavesOthersAlone(t *testing.T) {
	d := newDomain(t, 0)
	held := newGrainWriter(t, d, dataDef(50, 1))
	dead := newGrainWriter(t, d, dataDef(50, 1))
	dead.Close()
	for _, dir := range []string{tempPrefix + "XXXXXXXXXXabcdef", FlowDirName(uuid.New()), "not-a-uuid" + FlowSuffix, "other"} {
		if err := os.Mkdir(filepath.Join(d.Path(), dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	outside := shmDir(t)
	if err := os.Symlink(outside, filepath.Join(d.Path(), FlowDirName(uuid.New()))); err != nil {
		t.Fatal(err)
	}
	removed, err := d.CollectGarbage()
	if err != nil || len(removed) != 1 || removed[0] != dead.ID() {
		t.Errorf("collected %v, %v", removed, err)
	}
	entries, _ := os.ReadDir(d.Path())
	if len(entries) != 6 {
		t.Errorf("%d entries left, want 6", len(entries))
	}
	if err := held.Check(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(outside); err != nil {
		t.Error(err)
	}
}

func TestSweepTemporaries(t *testing.T) {
	d := newDomain(t, 0)
	w := newGrainWriter(t, d, dataDef(50, 1))
	make := func(name string, age time.Duration, data bool) string {
		dir := filepath.Join(d.Path(), tempPrefix+name)
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		if data {
			if err := os.WriteFile(filepath.Join(dir, nameData), nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		at := time.Now().Add(-age)
		if err := os.Chtimes(dir, at, at); err != nil {
			t.Fatal(err)
		}
		return dir
	}
	make("XXXXXXXXXXaaaaaa", time.Hour, true)
	make("XXXXXXXXXXbbbbbb", time.Hour, false)
	young := make("XXXXXXXXXXcccccc", time.Second, true)
	busy := make("XXXXXXXXXXdddddd", time.Hour, true)
	f, err := os.Open(filepath.Join(busy, nameData))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := unix.Flock(int(f.Fd()), unix.LOCK_SH); err != nil {
		t.Fatal(err)
	}
	n, err := d.SweepTemporaries(10 * time.Minute)
	if err != nil || n != 2 {
		t.Errorf("swept %d, %v", n, err)
	}
	for _, dir := range []string{young, busy, w.Dir()} {
		if _, err := os.Stat(dir); err != nil {
			t.Error(err)
		}
	}
}

// TestCollectorAgainstWriters lets collectors and writers fight: a writer that was opened must hold the published flow.
func TestCollectorAgainstWriters(t *testing.T) {
	d := newDomain(t, 40_000_000)
	def := dataDef(50, 1)
	stop := make(chan struct{})
	var done sync.WaitGroup
	done.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				if _, err := d.CollectGarbage(); err != nil {
					t.Error(err)
				}
			}
		}
	})
	for range 300 {
		w, _, err := d.CreateDiscreteWriter(def, FlowOptions{})
		if err != nil {
			t.Error(err)
			break
		}
		if err := w.Check(); err != nil {
			t.Error(err)
		}
		w.Close()
	}
	close(stop)
	done.Wait()
	noLeftovers(t, d)
}

var _ io.Closer = (*DiscreteWriter)(nil)
