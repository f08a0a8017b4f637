package mirror

import (
	"errors"
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// leaveOpen fills this process' table of open files up to so many free places, until
// the returned function is called.
func leaveOpen(t *testing.T, free int) (restore func()) {
	t.Helper()
	var before unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &before); err != nil {
		t.Fatal(err)
	}
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: min(before.Cur, 256), Max: before.Max}); err != nil {
		t.Fatal(err)
	}
	var filled []*os.File
	for {
		f, err := os.Open(os.DevNull)
		if err != nil {
			break
		}
		filled = append(filled, f)
	}
	for range free {
		last := len(filled) - 1
		_ = filled[last].Close()
		filled = filled[:last]
	}
	return func() {
		for _, f := range filled {
			_ = f.Close()
		}
		if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &before); err != nil {
			t.Fatal(err)
		}
	}
}

// TestNoOpenFilesIsNoDamage: a mirror that this process cannot open for want of
// descriptors is a good one, and readers have it.
func TestNoOpenFilesIsNoDamage(t *testing.T) {
	root := shmRoot(t)
	o := origin("data", 1)
	r := openRoom(t, root)
	inode := mustEnsure(t, r, o).Inode
	if err := r.letGo(); err != nil {
		t.Fatal(err)
	}
	failed := 0
	for free := range 40 {
		r := openRoom(t, root)
		restore := leaveOpen(t, free)
		_, _, err := r.EnsureFlow(o)
		restore()
		if errors.Is(err, ErrDiffers) {
			t.Fatalf("with %d free descriptors the mirror counts as damaged: %v", free, err)
		}
		if err != nil {
			failed++
		}
		if f := mustEnsure(t, r, o); f.Inode != inode {
			t.Fatalf("with %d free descriptors: inode %d, was %d", free, f.Inode, inode)
		}
		if err := r.letGo(); err != nil {
			t.Fatal(err)
		}
	}
	if failed == 0 {
		t.Error("descriptors never ran out")
	}
}
