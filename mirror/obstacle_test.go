package mirror

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// bindMount mounts a directory with one file on another until the test ends.
func bindMount(t *testing.T, root, on string) {
	t.Helper()
	other := filepath.Join(root, "other")
	mkdirAll(t, other)
	mkdirAll(t, on)
	write(t, filepath.Join(other, "keep"), "x")
	if err := unix.Mount(other, on, "", unix.MS_BIND, ""); err != nil {
		if os.Getuid() == 0 {
			t.Fatal(err)
		}
		t.Skip("bind mounts need root")
	}
	t.Cleanup(func() {
		// Wherever it has been moved to.
		text, err := os.ReadFile("/proc/self/mountinfo")
		if err != nil {
			t.Error(err)
		}
		for line := range strings.Lines(string(text)) {
			if fields := strings.Fields(line); len(fields) > 4 && strings.HasPrefix(fields[4], root+"/") {
				_ = unix.Unmount(fields[4], unix.MNT_DETACH)
			}
		}
	})
}

// obstacles are things in a mirror that cannot be removed.
func obstacles() map[string]func(t *testing.T, root, dir string) {
	return map[string]func(t *testing.T, root, dir string){
		"nested too deeply": func(t *testing.T, _, dir string) { mkdirAll(t, filepath.Join(dir, "1/2/3/4/5")) },
		"a mount":           func(t *testing.T, root, dir string) { bindMount(t, root, filepath.Join(dir, "mounted")) },
		"a mounted file": func(t *testing.T, root, dir string) {
			file, on := filepath.Join(root, "file"), filepath.Join(dir, "on")
			write(t, file, "x")
			write(t, on, "y")
			if err := unix.Mount(file, on, "", unix.MS_BIND, ""); err != nil {
				t.Skip("bind mounts need root")
			}
			t.Cleanup(func() { _ = unix.Unmount(on, unix.MNT_DETACH) })
		},
		"immutable": func(t *testing.T, _, dir string) {
			path := filepath.Join(dir, "fixed")
			write(t, path, "x")
			set := func(flags uint32) error {
				f, err := os.Open(path)
				if err != nil {
					return err
				}
				defer f.Close()
				return unix.IoctlSetPointerInt(int(f.Fd()), unix.FS_IOC_SETFLAGS, int(flags))
			}
			if err := set(unix.STATX_ATTR_IMMUTABLE); err != nil { // the same bit as FS_IMMUTABLE_FL
				t.Skip("no immutable files here: ", err)
			}
			t.Cleanup(func() {
				if err := set(0); err != nil {
					t.Error(err)
				}
			})
		},
	}
}

// intact makes sure that a refused removal left everything as it was: files,
// inodes, locks, writers.
func intact(t *testing.T, r *Room, before string, inodes map[Key]uint64) {
	t.Helper()
	if after := tree(t, r.path); after != before {
		t.Errorf("the root changed:\n%s\nto\n%s", before, after)
	}
	for k, inode := range inodes {
		if f := r.Held(k); f == nil || f.Inode != inode || !isLocked(t, r, k) {
			t.Errorf("%s is not held as before: %+v", k, f)
		}
	}
}

func TestAnObstacleIsFoundBeforeAnythingGoes(t *testing.T) {
	first, second := origin("data", 1), origin("audio", 2)
	for name, put := range obstacles() {
		for where, dir := range map[string]func(*Room) string{
			"in the domain":    func(r *Room) string { return filepath.Join(r.domainPath(testDomain), "theirs") },
			"in its last flow": func(r *Room) string { return flowPath(r, second.Key, "theirs") },
		} {
			t.Run(name+" "+where, func(t *testing.T) {
				root := shmRoot(t)
				r := openRoom(t, root)
				inodes := map[Key]uint64{}
				for _, o := range []Origin{first, second} {
					inodes[o.Key] = mustEnsure(t, r, o).Inode
				}
				mkdirAll(t, dir(r))
				put(t, root, dir(r))
				before := tree(t, root)
				var found *ObstacleError
				if err := r.CheckDomain(t.Context(), testDomain); !errors.As(err, &found) || !strings.HasPrefix(found.Path, dir(r)) {
					t.Errorf("the check: %v", err)
				}
				for _, reason := range []Reason{Orphan, Delete} {
					done, err := r.RemoveDomain(t.Context(), testDomain, reason)
					if !errors.Is(err, ErrObstacle) || len(done.Flows) != 0 {
						t.Errorf("%s: %+v, %v", reason, done, err)
					}
				}
				intact(t, r, before, inodes)
				if where == "in its last flow" {
					if _, err := r.RemoveFlow(t.Context(), second.Key, OriginGone); !errors.Is(err, ErrObstacle) {
						t.Errorf("the flow: %v", err)
					}
					if _, err := r.RebuildFlow(t.Context(), second.Key); !errors.Is(err, ErrObstacle) {
						t.Errorf("the rebuild: %v", err)
					}
					intact(t, r, before, inodes)
				}
				if done, err := r.Close(true); !errors.Is(err, ErrObstacle) || len(done) != 0 {
					t.Errorf("at the exit: %+v, %v", done, err)
				}
				intact(t, r, before, inodes)
			})
		}
	}
}

// TestARemovalThatFailsHalfWay: the obstacle comes after the last look for it.
func TestARemovalThatFailsHalfWay(t *testing.T) {
	root := shmRoot(t)
	r := openRoom(t, root)
	keys := []Key{}
	for n := range 3 {
		o := origin("data", n+1)
		mustEnsure(t, r, o)
		keys = append(keys, o.Key)
	}
	d, err := r.openOwn(Key{DomainID: testDomain})
	if err != nil {
		t.Fatal(err)
	}
	defer d.close()
	flows, closed := d.flowFiles(), r.take(Key{DomainID: testDomain})
	if err := closeAll(closed); err != nil {
		t.Fatal(err)
	}
	bindMount(t, root, flowPath(r, keys[1], "mounted"))
	kept := inodeOf(t, flowPath(r, keys[2], "data"))
	var removal Removal
	if err := r.dismantle(d, flows, &removal); err == nil {
		t.Fatal("a removal went through a mount")
	}
	// The second flow is gone for its readers; what is left of it lies aside.
	if !slices.Equal(removal.Flows, keys[:2]) {
		t.Errorf("gone: %v", removal.Flows)
	}
	if err := r.reopen(d, closed, removal); err != nil {
		t.Error(err)
	}
	if f := r.Held(keys[2]); f == nil || f.Inode != kept || !isLocked(t, r, keys[2]) {
		t.Errorf("what stays is not held: %+v", f)
	}
	on, err := r.Survey()
	if err != nil || len(on) != 1 || len(on[0].Flows) != 1 || on[0].Flows[0].Err != nil {
		t.Errorf("on disk %+v, %v", on, err)
	}
	if !exists(filepath.Join(root, "other", "keep")) {
		t.Error("a file behind the mount was removed")
	}
	// It is tried again, and stays while it cannot go.
	aside := filepath.Join(r.domainPath(testDomain), halfMade+"gone-"+keys[1].FlowID.String())
	if r.SweepLeft(); !exists(aside) || len(r.left) != 1 {
		t.Errorf("left: %v", r.left)
	}
	// Both can be made again, and the domain goes once nothing is in the way.
	mustEnsure(t, r, origin("data", 1))
	if _, err := r.RemoveDomain(t.Context(), testDomain, Orphan); !errors.Is(err, ErrObstacle) {
		t.Errorf("with the mount: %v", err)
	}
	for _, dir := range list(t, r.domainPath(testDomain)) {
		_ = unix.Unmount(filepath.Join(r.domainPath(testDomain), dir, "mounted"), unix.MNT_DETACH)
	}
	if r.SweepLeft(); exists(aside) || len(r.left) != 0 || r.Held(keys[2]) == nil {
		t.Errorf("left: %v", r.left)
	}
	if done, err := r.RemoveDomain(t.Context(), testDomain, Orphan); err != nil || len(done.Flows) != 2 || exists(r.domainPath(testDomain)) {
		t.Errorf("without it: %+v, %v", done, err)
	}
}

// TestADirectoryThatStaysIsStillOurs: a directory that could not be removed is
// still ours afterwards.
func TestADirectoryThatStaysIsStillOurs(t *testing.T) {
	root := shmRoot(t)
	r := openRoom(t, root)
	mustEnsure(t, r, origin("data", 1))
	d, err := r.openOwn(Key{DomainID: testDomain})
	if err != nil {
		t.Fatal(err)
	}
	defer d.close()
	if err := os.Remove(filepath.Join(d.path, definitionFile)); err != nil {
		t.Fatal(err)
	}
	if err := d.sign(); err != nil {
		t.Fatal(err)
	}
	on, err := r.Survey()
	if err != nil || len(on) != 1 || on[0].SourceHost != testSource {
		t.Errorf("%+v, %v", on, err)
	}
}

// TestForeignThingsGoWithTheDomain: the directory is the agent's, and so is what
// others put there, unless somebody maps it.
func TestForeignThingsGoWithTheDomain(t *testing.T) {
	p, with := host(t)
	root := shmRoot(t)
	r := openRoom(t, root, with)
	mustEnsure(t, r, origin("data", 1))
	theirs := filepath.Join(r.domainPath(testDomain), "theirs", "more")
	mkdirAll(t, theirs)
	write(t, filepath.Join(theirs, "notes"), "x")
	p.add(77, "editor", mapsOf(t, filepath.Join(theirs, "notes")))
	var busy *BusyError
	if _, err := r.RemoveDomain(t.Context(), testDomain, Delete); !errors.As(err, &busy) || !slices.Equal(busy.Readers, []Reader{{77, "editor"}}) {
		t.Errorf("mapped: %v", err)
	}
	if readers := r.cfg.Readers.Scan(t.Context(), r.Watched()).Domain(testDomain); !slices.Equal(readers, []Reader{{77, "editor"}}) {
		t.Errorf("the periodic check sees %v", readers)
	}
	p.remove(77)
	if _, err := r.RemoveDomain(t.Context(), testDomain, Delete); err != nil || exists(r.domainPath(testDomain)) {
		t.Error(err)
	}
}

// TestAnEmptyDirectoryIsTakenOver: what a crash in the last step of a removal
// leaves holds nothing that anybody could lose.
func TestAnEmptyDirectoryIsTakenOver(t *testing.T) {
	root := shmRoot(t)
	mkdirAll(t, filepath.Join(root, dirPrefix+testDomain))
	r := openRoom(t, root)
	if on, err := r.Adopt(); err != nil || len(on) != 0 {
		t.Errorf("%+v, %v", on, err)
	}
	if _, err := r.RemoveDomain(t.Context(), testDomain, Delete); !errors.Is(err, ErrNotMirror) || !exists(filepath.Join(root, dirPrefix+testDomain)) {
		t.Errorf("removed, and it is not ours: %v", err)
	}
	mustEnsure(t, r, origin("data", 1))
}

// TestMountedFlowIsNotOpened: what is written to a mirror must not go where a mount
// in it leads.
func TestMountedFlowIsNotOpened(t *testing.T) {
	for _, where := range []string{"grains", "grains/data.2", "data"} {
		t.Run(where, func(t *testing.T) {
			root := shmRoot(t)
			r := openRoom(t, root)
			o := origin("data", 1)
			inode := mustEnsure(t, r, o).Inode
			if err := r.letGo(); err != nil {
				t.Fatal(err)
			}
			// The same files once more, as they could be another domain's.
			on, other := flowPath(r, o.Key, where), filepath.Join(root, "other")
			if out, err := exec.Command("cp", "-a", on, other).CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			if err := unix.Mount(other, on, "", unix.MS_BIND, ""); err != nil {
				t.Skip("bind mounts need root")
			}
			t.Cleanup(func() { _ = unix.Unmount(on, unix.MNT_DETACH) })
			r = openRoom(t, root)
			if _, err := r.Adopt(); err != nil {
				t.Fatal(err)
			}
			if r.Held(o.Key) != nil {
				t.Error("adopted")
			}
			var differs *DiffersError
			if _, _, err := r.EnsureFlow(o); !errors.Is(err, errMounted) || errors.As(err, &differs) {
				t.Errorf("%v", err)
			}
			if err := unix.Unmount(on, unix.MNT_DETACH); err != nil {
				t.Fatal(err)
			}
			if f := mustEnsure(t, r, o); f.Inode != inode {
				t.Errorf("inode %d, was %d", f.Inode, inode)
			}
		})
	}
}
