package mirror

import (
	"errors"
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// smallRoot is an MXL root on a tmpfs of its own of 64 MB; without the right to
// mount, an ordinary root whose free space is made up.
func smallRoot(t *testing.T) (root string, with func(*Config)) {
	t.Helper()
	root = shmRoot(t)
	if err := unix.Mount("none", root, "tmpfs", 0, "size=64m"); err != nil {
		t.Logf("no mount of our own (%v): the free space is made up", err)
		return root, func(c *Config) { c.FreeSpace = func() (uint64, error) { return 64 * mebibyte, nil } }
	}
	t.Cleanup(func() {
		if err := unix.Unmount(root, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return root, func(*Config) {}
}

func TestFits(t *testing.T) {
	cases := []struct {
		free, need, reserve uint64
		want                bool
	}{
		{600 * mebibyte, 53 * mebibyte, 512, true},
		{565 * mebibyte, 53 * mebibyte, 512, false}, // exactly the line is not above it
		{566 * mebibyte, 53 * mebibyte, 512, true},
		{514 * mebibyte, 100, 512, true},  // a small flow counts as one mebibyte
		{513 * mebibyte, 100, 512, false}, // and that is the line
		{10 * mebibyte, 53 * mebibyte, 0, false},
		{0, 0, 0, false},
		{600 * mebibyte, absurdBytes, 0, false},
	}
	for _, c := range cases {
		if got := Fits(c.free, c.need, c.reserve); got != c.want {
			t.Errorf("%d MiB free, %d bytes needed, %d MiB reserve: %v", c.free/mebibyte, c.need, c.reserve, got)
		}
	}
}

func TestNeedBytesOfFlows(t *testing.T) {
	for _, c := range []struct {
		kind     string
		low, top uint64
	}{{"video", 55_000_000, 56_000_000}, {"data", 120_000, 200_000}, {"audio", 155_000, 170_000}} {
		need, err := origin(c.kind, 1).NeedBytes()
		if err != nil || need < c.low || need > c.top {
			t.Errorf("%s: %d, %v", c.kind, need, err)
		}
	}
	o := origin("video", 1)
	o.Options = []byte(`{"urn:x-mxl:option:history_duration/v1.0": 1e18}`)
	if need, err := o.NeedBytes(); err != nil || need < 1<<50 {
		t.Errorf("an absurd history: %d, %v", need, err)
	}
	r := openRoom(t, shmRoot(t))
	if _, _, err := r.EnsureFlow(o); !errors.Is(err, ErrNoSpace) {
		t.Errorf("an absurd history: %v", err)
	}
}

func TestReserveRefusesAFlow(t *testing.T) {
	root, with := smallRoot(t)
	r := openRoom(t, root, with, func(c *Config) { c.ReserveMB = 32 })
	small := mustEnsure(t, r, origin("data", 1))
	_, _, err := r.EnsureFlow(origin("video", 2))
	var space *SpaceError
	if !errors.As(err, &space) || !errors.Is(err, ErrNoSpace) || space.Cause != nil || space.ReserveMB != 32 {
		t.Fatalf("%v", err)
	}
	if entries := list(t, r.domainPath(testDomain)); len(entries) != 3 {
		t.Errorf("half-made files stayed: %v", entries)
	}
	writeGrain(t, small, 7)
	mustEnsure(t, r, origin("audio", 3))
}

func TestFullFileSystem(t *testing.T) {
	root, with := smallRoot(t)
	if os.Getuid() != 0 {
		t.Skip("needs a file system of its own")
	}
	// The estimate lets it through, the file system does not: others took the
	// space meanwhile.
	r := openRoom(t, root, with, func(c *Config) { c.FreeSpace = func() (uint64, error) { return 1 << 40, nil } })
	small := mustEnsure(t, r, origin("data", 1))
	before := tree(t, root)
	_, _, err := r.EnsureFlow(origin("video", 2).edit("frame_width", 3840).edit("frame_height", 2160))
	var space *SpaceError
	if !errors.As(err, &space) || !errors.Is(err, unix.ENOSPC) {
		t.Fatalf("%v", err)
	}
	if after := tree(t, root); after != before {
		t.Errorf("half-made files stayed:\n%s\nwas\n%s", after, before)
	}
	writeGrain(t, small, 7)
	if got := mustEnsure(t, r, origin("video", 3)); got == nil {
		t.Error("a flow that fits was not made")
	}
	// Its blocks are reserved: writing all of them cannot fault.
	f := r.Held(origin("video", 3).Key)
	for i := range f.Discrete.Depth() {
		slot := f.Discrete.Slot(int(i))
		for p := 0; p < len(slot); p += 4096 {
			slot[p] |= 0
		}
	}
}

func TestRebuildThatDoesNotFit(t *testing.T) {
	root := shmRoot(t)
	free := uint64(1 << 40)
	r := openRoom(t, root, func(c *Config) { c.FreeSpace = func() (uint64, error) { return free, nil } })
	o := origin("data", 1)
	mustEnsure(t, r, o)
	free = 0
	done, err := r.RebuildFlow(t.Context(), o.Key)
	if !errors.Is(err, ErrNoSpace) || done.Flow != nil || done.OldInode == 0 {
		t.Fatalf("%+v, %v", done, err)
	}
	free = 1 << 40
	mustEnsure(t, r, o) // the next pass tries again
}
