package mxl

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"

	"github.com/google/uuid"
	"golang.org/x/sys/unix"
)

// openedAt opens a new domain by descriptor and then moves the directory away; what is found at its path afterwards is a
// link to a directory of others.
func openedAt(t *testing.T) (d *Domain, moved, others string) {
	t.Helper()
	base := t.TempDir()
	path := filepath.Join(base, "domain")
	moved, others = filepath.Join(base, "moved"), filepath.Join(base, "others")
	for _, dir := range []string{path, others} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(path, nameOptions), []byte(`{"`+HistoryKey+`": 100000000}`), 0o644); err != nil {
		t.Fatal(err)
	}
	dir, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = dir.Close() })
	if d, err = OpenDomainAt(dir); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.Rename(path, moved), os.Symlink(others, path)); err != nil {
		t.Fatal(err)
	}
	return d, moved, others
}

func namesIn(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// TestDomainAtStaysInItsDirectory does everything that makes, opens or removes files with a domain whose path leads
// elsewhere by now.
func TestDomainAtStaysInItsDirectory(t *testing.T) {
	d, moved, others := openedAt(t)
	if d.HistoryNS() != 100_000_000 {
		t.Errorf("history %d", d.HistoryNS())
	}
	grains, samples := dataDef(50, 1), audioDef(2, 48000)
	w, created, err := d.CreateDiscreteWriter(grains, FlowOptions{})
	if err != nil || !created {
		t.Fatal(created, err)
	}
	c, _, err := d.CreateContinuousWriter(samples, FlowOptions{})
	if err != nil {
		t.Fatal(err)
	}
	ids, err := d.Flows()
	if err != nil || !slices.Contains(ids, w.ID()) || !slices.Contains(ids, c.ID()) {
		t.Errorf("flows %v, %v", ids, err)
	}
	again, created, err := d.CreateDiscreteWriter(grains, FlowOptions{})
	if err != nil || created || again.Inode() != w.Inode() {
		t.Errorf("opened again: created %v, %v", created, err)
	}
	for _, err := range []error{again.Close(), try(d.OpenDiscreteReader(w.ID())), try(d.OpenContinuousReader(c.ID())),
		try(d.OpenContinuousWriter(c.ID())), second(d.FlowInfo(w.ID())), second(d.ReadFlowDef(c.ID()))} {
		if err != nil {
			t.Error(err)
		}
	}
	if active, err := d.IsActive(w.ID()); err != nil || !active {
		t.Errorf("active %v, %v", active, err)
	}
	if _, err := d.Definition(); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a definition that is not there: %v", err)
	}
	// By its path it is another one: that is for its owner to know.
	if err := w.Check(); !errors.Is(err, ErrFlowInvalid) {
		t.Errorf("Check %v", err)
	}
	if err := w.Close(); err != nil {
		t.Error(err)
	}
	if taken, err := d.CollectGarbage(); err != nil || !slices.Equal(taken, []uuid.UUID{w.ID()}) {
		t.Errorf("garbage collection took %v, %v", taken, err)
	}
	if deleted, err := c.Release(); err != nil || !deleted {
		t.Errorf("released: %v, %v", deleted, err)
	}
	if err := os.Mkdir(filepath.Join(moved, tempPrefix+"left"), 0o755); err != nil {
		t.Fatal(err)
	}
	if n, err := d.SweepTemporaries(-1); err != nil || n != 1 {
		t.Errorf("swept %d, %v", n, err)
	}
	if left := namesIn(t, moved); !slices.Equal(left, []string{nameOptions}) {
		t.Errorf("the domain holds %v", left)
	}
	if made := namesIn(t, others); len(made) != 0 {
		t.Errorf("outside the domain there is now %v", made)
	}
}

// try closes what was opened.
func try[T interface{ Close() error }](opened T, err error) error {
	if err != nil {
		return err
	}
	return opened.Close()
}

func second[T any](_ T, err error) error { return err }

// TestFailedCreationAtLeavesNothing: what is taken back is taken back where it was made.
func TestFailedCreationAtLeavesNothing(t *testing.T) {
	d, moved, others := openedAt(t)
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
	low.Cur = uint64(next) + 8 // not enough for ten grains
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &low); err != nil {
		t.Fatal(err)
	}
	_, _, err = d.CreateDiscreteWriter(dataDef(50, 1), FlowOptions{})
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &before); err != nil {
		t.Fatal(err)
	}
	if !errors.Is(err, unix.EMFILE) {
		t.Errorf("out of descriptors: %v", err)
	}
	if left := namesIn(t, moved); !slices.Equal(left, []string{nameOptions}) {
		t.Errorf("the domain holds %v", left)
	}
	if made := namesIn(t, others); len(made) != 0 {
		t.Errorf("outside the domain there is now %v", made)
	}
}
