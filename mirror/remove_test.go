package mirror

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

// host is a fake host that a test adds readers to.
func host(t testing.TB) (procTree, func(*Config)) {
	p := fakeProc(t, nil)
	return p, func(c *Config) {
		c.Readers = NewReaderCheck(ReaderCheckConfig{Proc: p.path, Self: fakeSelf})
	}
}

func TestRemoveFlow(t *testing.T) {
	r := openRoom(t, shmRoot(t))
	o, other := origin("data", 1), origin("data", 2)
	mustEnsure(t, r, o)
	mustEnsure(t, r, other)
	done, err := r.RemoveFlow(t.Context(), o.Key, OriginMissing)
	if err != nil || done.Path != flowPath(r, o.Key) || done.Reason != OriginMissing || !slices.Equal(done.Flows, []Key{o.Key}) {
		t.Fatalf("%+v, %v", done, err)
	}
	if exists(flowPath(r, o.Key)) || r.Held(o.Key) != nil {
		t.Error("the flow is still there")
	}
	if r.Held(other.Key) == nil || !exists(flowPath(r, other.Key)) || !isLocked(t, r, other.Key) {
		t.Error("the other flow went too")
	}
	if entries := list(t, r.domainPath(testDomain)); len(entries) != 3 {
		t.Errorf("the domain holds %v", entries)
	}
	if _, err := r.RemoveFlow(t.Context(), o.Key, OriginMissing); !errors.Is(err, ErrNotMirror) {
		t.Errorf("removing it again: %v", err)
	}
}

func TestRemoveFlowUnderAReader(t *testing.T) {
	p, with := host(t)
	r := openRoom(t, shmRoot(t), with)
	o := origin("data", 1)
	inode := mustEnsure(t, r, o).Inode
	p.add(77, "player", mapsOf(t, flowPath(r, o.Key, "grains", "data.4")))
	for _, reason := range []Reason{OriginMissing, NoDemand, Excluded} {
		var busy *BusyError
		_, err := r.RemoveFlow(t.Context(), o.Key, reason)
		if !errors.As(err, &busy) || !slices.Equal(busy.Readers, []Reader{{77, "player"}}) {
			t.Errorf("%s: %v", reason, err)
		}
		f := r.Held(o.Key)
		if f == nil || f.Inode != inode || !isLocked(t, r, o.Key) {
			t.Errorf("%s: refused, and the flow was not opened again: %+v", reason, f)
		}
	}
	if _, err := r.RemoveDomain(t.Context(), testDomain, IdleLong); !errors.Is(err, ErrBusy) {
		t.Errorf("domain: %v", err)
	}
	if f := r.Held(o.Key); f == nil || f.Inode != inode {
		t.Errorf("domain: refused, and the flow was not opened again: %+v", f)
	}
	if err := r.CheckFlow(t.Context(), o.Key); !errors.Is(err, ErrBusy) {
		t.Errorf("CheckFlow: %v", err)
	}
	if err := r.CheckDomain(t.Context(), testDomain); !errors.Is(err, ErrBusy) {
		t.Errorf("CheckDomain: %v", err)
	}
	p.remove(77)
	if err := r.CheckDomain(t.Context(), testDomain); err != nil {
		t.Errorf("CheckDomain without a reader: %v", err)
	}
	if _, err := r.RemoveFlow(t.Context(), o.Key, OriginMissing); err != nil {
		t.Error(err)
	}
}

func TestRemoveFlowWhatTheReasonAsksFor(t *testing.T) {
	cases := []struct {
		reason          Reason
		mapped, unknown bool // refused under a reader, when the check is incomplete
	}{
		{OriginMissing, true, true},
		{NoDemand, true, false},
		{Excluded, true, false},
		{OriginGone, false, false},
		{OriginConfigChanged, false, false},
	}
	for _, c := range cases {
		t.Run(string(c.reason)+" mapped", func(t *testing.T) {
			p, with := host(t)
			r := openRoom(t, shmRoot(t), with)
			o := origin("data", 1)
			mustEnsure(t, r, o)
			p.add(77, "player", mapsOf(t, flowPath(r, o.Key, "data")))
			_, err := r.RemoveFlow(t.Context(), o.Key, c.reason)
			if errors.Is(err, ErrBusy) != c.mapped || (err == nil) == exists(flowPath(r, o.Key)) {
				t.Errorf("%v", err)
			}
		})
		t.Run(string(c.reason)+" unknown", func(t *testing.T) {
			p, with := host(t)
			r := openRoom(t, shmRoot(t), with)
			o := origin("data", 1)
			mustEnsure(t, r, o)
			p.remove(1)
			_, err := r.RemoveFlow(t.Context(), o.Key, c.reason)
			if errors.Is(err, ErrBusy) != c.unknown || (err == nil) == exists(flowPath(r, o.Key)) {
				t.Errorf("%v", err)
			}
		})
	}
}

func TestRemoveDomain(t *testing.T) {
	root := shmRoot(t)
	r := openRoom(t, root)
	o := origin("data", 1)
	mustEnsure(t, r, o)
	mustEnsure(t, r, origin("audio", 2))
	elsewhere := filepath.Join(root, "local")
	mkdirAll(t, elsewhere)
	write(t, filepath.Join(elsewhere, "keep"), "x")
	symlink(t, elsewhere, filepath.Join(r.domainPath(testDomain), "link"))
	symlink(t, elsewhere, flowPath(r, o.Key, "grains", "link"))
	done, err := r.RemoveDomain(t.Context(), testDomain, Orphan)
	if err != nil || len(done.Flows) != 2 || done.Path != r.domainPath(testDomain) {
		t.Fatalf("%+v, %v", done, err)
	}
	if entries := list(t, root); !slices.Equal(entries, []string{"local"}) {
		t.Errorf("the root holds %v", entries)
	}
	if !exists(filepath.Join(elsewhere, "keep")) {
		t.Error("a link was followed out of the domain")
	}
	if mustEnsure(t, r, o) == nil {
		t.Error("it cannot be made again")
	}
}

func TestRemovalStopsAtAMount(t *testing.T) {
	root := shmRoot(t)
	r := openRoom(t, root)
	o := origin("data", 1)
	mustEnsure(t, r, o)
	inside := flowPath(r, o.Key, "grains", "mounted")
	mkdirAll(t, inside)
	other := filepath.Join(root, "other")
	mkdirAll(t, other)
	write(t, filepath.Join(other, "keep"), "x")
	if err := unix.Mount(other, inside, "", unix.MS_BIND, ""); err != nil {
		if os.Getuid() == 0 {
			t.Fatal(err)
		}
		t.Skip("bind mounts need root")
	}
	gone := filepath.Join(r.domainPath(testDomain), halfMade+"gone-"+o.FlowID.String(), "grains", "mounted")
	t.Cleanup(func() {
		for _, path := range []string{inside, gone} {
			_ = unix.Unmount(path, unix.MNT_DETACH)
		}
	})
	if _, err := r.RemoveFlow(t.Context(), o.Key, OriginGone); err == nil {
		t.Error("a removal went through a mount")
	}
	if !exists(filepath.Join(other, "keep")) {
		t.Error("a file behind a bind mount of the same file system was removed")
	}
}

func TestMirrorDirectoryThatIsAMount(t *testing.T) {
	root := shmRoot(t)
	other, dir := filepath.Join(root, "other"), filepath.Join(root, dirPrefix+testDomain)
	mkdirAll(t, other)
	mkdirAll(t, dir)
	text, _ := definition(testDomain, testSource, testHost)
	write(t, filepath.Join(other, definitionFile), string(text))
	if err := unix.Mount(other, dir, "", unix.MS_BIND, ""); err != nil {
		if os.Getuid() == 0 {
			t.Fatal(err)
		}
		t.Skip("bind mounts need root")
	}
	t.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) })
	r := openRoom(t, root)
	if _, err := r.Close(true); err != nil || !exists(filepath.Join(other, definitionFile)) {
		t.Errorf("a mounted directory was removed: %v", err)
	}
}

// swapping is a reader check during which something else changes the disk: what
// an attacker does between the check and the removal.
func swapping(t *testing.T, p procTree, swap func()) *ReaderCheck {
	c := NewReaderCheck(ReaderCheckConfig{Proc: p.path, Self: fakeSelf})
	return &ReaderCheck{proc: c.proc, self: c.self, buffer: c.buffer, now: hookOnce(c.now, swap)}
}

func TestSwapBetweenCheckAndRemoval(t *testing.T) {
	cases := []struct {
		name string
		swap func(t *testing.T, r *Room, flow string)
		keep string // what must be there after it, relative to the root
	}{
		{"flow is another directory", func(t *testing.T, r *Room, flow string) {
			rename(t, flow, flow+".old")
			mkdirAll(t, flow)
			write(t, filepath.Join(flow, "keep"), "x")
		}, dirPrefix + testDomain + "/" + flowDir(origin("data", 1).FlowID) + "/keep"},
		{"flow is a link", func(t *testing.T, r *Room, flow string) {
			rename(t, flow, flow+".old")
			mkdirAll(t, filepath.Join(r.path, "local"))
			write(t, filepath.Join(r.path, "local", "keep"), "x")
			symlink(t, filepath.Join(r.path, "local"), flow)
		}, "local/keep"},
		{"flow is gone", func(t *testing.T, r *Room, flow string) { rename(t, flow, flow+".old") }, "."},
		{"domain is another directory", func(t *testing.T, r *Room, flow string) {
			rename(t, filepath.Dir(flow), filepath.Join(r.path, "aside"))
			mkdirAll(t, flow)
			write(t, filepath.Join(flow, "keep"), "x")
		}, dirPrefix + testDomain + "/" + flowDir(origin("data", 1).FlowID) + "/keep"},
		{"domain is a link", func(t *testing.T, r *Room, flow string) {
			rename(t, filepath.Dir(flow), filepath.Join(r.path, "aside"))
			local := filepath.Join(r.path, "local", filepath.Base(flow))
			mkdirAll(t, local)
			write(t, filepath.Join(local, "keep"), "x")
			symlink(t, filepath.Join(r.path, "local"), filepath.Dir(flow))
		}, "local/" + flowDir(origin("data", 1).FlowID) + "/keep"},
	}
	for _, whole := range []bool{false, true} {
		for _, c := range cases {
			name := c.name + ", one flow"
			if whole {
				name = c.name + ", whole domain"
			}
			t.Run(name, func(t *testing.T) {
				p := fakeProc(t, nil)
				var r *Room
				o := origin("data", 1)
				check := swapping(t, p, func() { c.swap(t, r, flowPath(r, o.Key)) })
				r = openRoom(t, shmRoot(t), func(cfg *Config) { cfg.Readers = check })
				mustEnsure(t, r, o)
				var err error
				if whole {
					_, err = r.RemoveDomain(t.Context(), testDomain, Orphan)
				} else {
					_, err = r.RemoveFlow(t.Context(), o.Key, OriginMissing)
				}
				if err == nil {
					t.Error("removed what was not checked")
				}
				if !exists(filepath.Join(r.path, c.keep)) {
					t.Errorf("%s was removed:\n%s", c.keep, tree(t, r.path))
				}
			})
		}
	}
}

func TestCloseWithCleanup(t *testing.T) {
	root := shmRoot(t)
	p, with := host(t)
	r := openRoom(t, root, with)
	o := origin("data", 1)
	mustEnsure(t, r, o)
	p.add(77, "player", mapsOf(t, flowPath(r, o.Key, "data")))
	foreign := filepath.Join(root, dirPrefix+"theirs")
	text, _ := definition("theirs", testSource, "node-c")
	mkdirAll(t, foreign)
	write(t, filepath.Join(foreign, definitionFile), string(text))
	local := filepath.Join(root, "local")
	mkdirAll(t, local)
	write(t, filepath.Join(local, definitionFile), `{"id":"local"}`)
	done, err := r.Close(true)
	if err != nil || len(done) != 1 || done[0].Reason != OnExit || done[0].DomainID != testDomain || !slices.Equal(done[0].Readers, []Reader{{77, "player"}}) {
		t.Fatalf("%+v, %v", done, err)
	}
	if entries := list(t, root); !slices.Equal(entries, []string{"local", dirPrefix + "theirs"}) {
		t.Errorf("the root holds %v", entries)
	}
}

func TestRebuildFlow(t *testing.T) {
	p, with := host(t)
	r := openRoom(t, shmRoot(t), with)
	for i, kind := range []string{"data", "audio"} {
		o := origin(kind, i+1)
		old := mustEnsure(t, r, o)
		p.add(77, "player", mapsOf(t, flowPath(r, o.Key, "data")))
		done, err := r.RebuildFlow(t.Context(), o.Key)
		if err != nil || done.Flow == nil || done.OldInode != old.Inode || done.Flow.Inode == old.Inode {
			t.Fatalf("%s: %+v, %v", kind, done, err)
		}
		if !slices.Equal(done.Readers, []Reader{{77, "player"}}) {
			t.Errorf("%s: readers %v", kind, done.Readers)
		}
		text, err := os.ReadFile(flowPath(r, o.Key, "flow_def.json"))
		if err != nil || string(text) != string(o.FlowDef) {
			t.Errorf("%s: another definition: %v", kind, err)
		}
		if again := mustEnsure(t, r, o); again.Inode != done.Flow.Inode {
			t.Errorf("%s: another flow", kind)
		}
		if _, err := r.RebuildFlow(t.Context(), origin(kind, 99).Key); !errors.Is(err, ErrNotMirror) {
			t.Errorf("%s: a flow that is not there: %v", kind, err)
		}
	}
}

func TestReplaceFlowTakesTheNewDefinition(t *testing.T) {
	p, with := host(t)
	r := openRoom(t, shmRoot(t), with)
	o := origin("video", 1)
	old := mustEnsure(t, r, o)
	p.add(77, "player", mapsOf(t, flowPath(r, o.Key, "data")))
	smaller := o.edit("frame_width", 1280).edit("frame_height", 720)
	done, err := r.ReplaceFlow(t.Context(), smaller)
	if err != nil || done.OldInode != old.Inode || done.Flow.Discrete.TotalSlices() != 720 {
		t.Fatalf("%+v, %v", done, err)
	}
	audio := origin("audio", 1)
	done, err = r.ReplaceFlow(t.Context(), audio)
	if err != nil || done.Flow.Continuous == nil {
		t.Fatalf("video to audio: %+v, %v", done, err)
	}
}

func TestTwoDeedsOnOneFlow(t *testing.T) {
	p := fakeProc(t, nil)
	var r *Room
	o, other := origin("data", 1), origin("data", 2)
	var errs []error
	check := swapping(t, p, func() {
		_, _, err := r.EnsureFlow(o)
		errs = append(errs, err)
		_, err = r.RemoveFlow(context.Background(), o.Key, OriginGone)
		errs = append(errs, err)
		_, err = r.RemoveDomain(context.Background(), testDomain, Delete)
		errs = append(errs, err)
		_, err = r.RebuildFlow(context.Background(), o.Key)
		errs = append(errs, err)
		if _, _, err := r.EnsureFlow(other); err != nil {
			t.Errorf("another flow of the domain: %v", err)
		}
	})
	r = openRoom(t, shmRoot(t), func(cfg *Config) { cfg.Readers = check })
	mustEnsure(t, r, o)
	if _, err := r.RemoveFlow(t.Context(), o.Key, OriginMissing); err != nil {
		t.Fatal(err)
	}
	if len(errs) != 4 {
		t.Fatalf("the other deeds were not tried: %v", errs)
	}
	for i, err := range errs {
		if !errors.Is(err, ErrRemoving) {
			t.Errorf("deed %d: %v", i, err)
		}
	}
}

// TestConcurrentDeeds lets everything happen at once; what is left is whole.
func TestConcurrentDeeds(t *testing.T) {
	r := openRoom(t, shmRoot(t))
	var wg sync.WaitGroup
	allowed := []error{ErrRemoving, ErrNotMirror, ErrDiffers}
	fine := func(err error) {
		if err != nil && !slices.ContainsFunc(allowed, func(a error) bool { return errors.Is(err, a) }) {
			t.Error(err)
		}
	}
	for worker := range 6 {
		wg.Go(func() {
			for i := range 25 {
				o := origin("data", (worker+i)%3+1)
				switch (worker*7 + i) % 6 {
				case 0, 1:
					_, _, err := r.EnsureFlow(o)
					fine(err)
				case 2:
					_, err := r.RemoveFlow(t.Context(), o.Key, OriginGone)
					fine(err)
				case 3:
					_, err := r.RebuildFlow(t.Context(), o.Key)
					fine(err)
				case 4:
					_, err := r.RemoveDomain(t.Context(), o.DomainID, IdleLong)
					fine(err)
				case 5:
					_, err := r.Survey()
					fine(err)
					fine(r.Watched().Err)
				}
			}
		})
	}
	wg.Wait()
	onDisk, err := r.Survey()
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range onDisk {
		for _, f := range d.Flows {
			if f.Err != nil || !f.Held || r.Held(f.Key).Inode != f.Inode {
				t.Errorf("%+v", f)
			}
		}
		for _, name := range list(t, d.Path) {
			if strings.HasPrefix(name, halfMade) {
				t.Errorf("%s stayed", name)
			}
		}
	}
	for n := range 3 {
		mustEnsure(t, r, origin("data", n+1))
	}
}
