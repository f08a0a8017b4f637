package mxl

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sys/unix"
)

func TestAllocationWithoutFallocate(t *testing.T) {
	f, err := os.Create(filepath.Join(t.TempDir(), "file"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	const size = 3<<20 + 17
	if err := fillZero(int(f.Fd()), size); err != nil {
		t.Fatal(err)
	}
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil || st.Size != size {
		t.Errorf("%d bytes, %v", st.Size, err)
	}
}

func TestNewFlowsHaveTheirBlocks(t *testing.T) {
	d := newDomain(t, 0)
	w := newGrainWriter(t, d, videoDef(1280, 720, 50, 1))
	for i := range int(w.Depth()) {
		var st unix.Stat_t
		if err := unix.Stat(filepath.Join(w.Dir(), nameGrains, grainName(i)), &st); err != nil || st.Blocks*512 < st.Size {
			t.Fatalf("slot %d: %d blocks for %d bytes, %v", i, st.Blocks, st.Size, err)
		}
	}
}

func TestFlowInfoBelowAnOpenDomain(t *testing.T) {
	d := newDomain(t, 0)
	w := newSampleWriter(t, d, audioDef(2, 48000), FlowOptions{})
	if err := w.Commit(480, 480); err != nil {
		t.Fatal(err)
	}
	dir, err := os.Open(d.Path())
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	info, err := ReadFlowInfoAt(int(dir.Fd()), w.ID())
	if err != nil || info != w.Info() || info.Inode != w.Inode() || info.Device != w.Device() {
		t.Errorf("%+v, %v", info, err)
	}
	if _, err := ReadFlowInfoAt(int(dir.Fd()), uuid.New()); !errors.Is(err, ErrFlowNotFound) {
		t.Errorf("no flow: %v", err)
	}
}

func TestCreationThatFailsLeavesNothing(t *testing.T) {
	d := newDomain(t, 0)
	// The name is taken by a directory that is no flow: it can neither be opened nor replaced.
	def := dataDef(50, 1)
	taken := filepath.Join(d.Path(), FlowDirName(parse(t, def).ID))
	if err := os.MkdirAll(filepath.Join(taken, "something"), 0o755); err != nil {
		t.Fatal(err)
	}
	if _, _, err := d.CreateDiscreteWriter(def, FlowOptions{}); err == nil || !strings.Contains(err.Error(), taken) {
		t.Errorf("name taken: %v", err)
	}
	noLeftovers(t, d)
	newGrainWriter(t, d, dataDef(50, 1)) // the watch of the domain has its descriptors already
	// No descriptor is left for the last files.
	var before syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &before); err != nil {
		t.Fatal(err)
	}
	next, err := unix.Dup(0)
	if err != nil {
		t.Fatal(err)
	}
	unix.Close(next)
	low := before
	low.Cur = uint64(next) + 8
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &low); err != nil {
		t.Fatal(err)
	}
	_, _, err = d.CreateDiscreteWriter(dataDef(50, 1), FlowOptions{})
	if e := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &before); e != nil {
		t.Fatal(e)
	}
	if !errors.Is(err, unix.EMFILE) {
		t.Errorf("out of descriptors: %v", err)
	}
	noLeftovers(t, d)
}

func TestConcurrentCreatorsShareOneFlow(t *testing.T) {
	d := newDomain(t, 0)
	def := dataDef(50, 1)
	type result struct {
		w       *DiscreteWriter
		created bool
		err     error
	}
	results := make(chan result)
	const n = 8
	for range n {
		go func() {
			w, created, err := d.CreateDiscreteWriter(def, FlowOptions{})
			results <- result{w, created, err}
		}()
	}
	created, inodes := 0, map[uint64]bool{}
	for range n {
		r := <-results
		if r.err != nil {
			t.Error(r.err)
			continue
		}
		defer r.w.Close()
		inodes[r.w.Inode()] = true
		if r.created {
			created++
		}
	}
	if created != 1 || len(inodes) != 1 {
		t.Errorf("%d created, %d inodes", created, len(inodes))
	}
	noLeftovers(t, d)
}

func TestV210APlanes(t *testing.T) {
	d := newDomain(t, 40_000_000)
	w := newGrainWriter(t, d, videoDef(1280, 720, 50, 1, set("media_type", MediaV210A)))
	p, err := w.OpenGrain(1)
	if err != nil {
		t.Fatal(err)
	}
	key := w.PlaneOffset(1) - PayloadOffset
	copy(p[key:], bytes.Repeat([]byte{9}, int(w.SliceSizes()[1])))
	if len(p)-key != 720*1708 || w.Slot(w.SlotOf(1))[PayloadOffset+720*3456] != 9 {
		t.Errorf("key plane at %d of %d", key, len(p))
	}
}

// TestOpenWaitsForALease: who looks whether anybody has a file open holds a lease on it for a moment.
func TestOpenWaitsForALease(t *testing.T) {
	d := newDomain(t, 0)
	w := newGrainWriter(t, d, dataDef(50, 1))
	id, path := w.ID(), filepath.Join(w.Dir(), nameData)
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := unix.FcntlInt(f.Fd(), unix.F_SETLEASE, unix.F_WRLCK); err != nil {
		t.Skip("no leases here: ", err)
	}
	if fd, err := unix.Open(path, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0); err != unix.EWOULDBLOCK {
		t.Fatalf("the lease keeps nobody waiting: %d, %v", fd, err)
	}
	released := make(chan struct{})
	time.AfterFunc(lockRetry/5, func() {
		_, _ = unix.FcntlInt(f.Fd(), unix.F_SETLEASE, unix.F_UNLCK)
		close(released)
	})
	defer func() { <-released }()
	r, err := d.OpenDiscreteReader(id)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
}
