package mirror

import (
	"errors"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// swapper exchanges the directory of a mirror domain with a symbolic link to a
// domain outside the root, again and again, until it is stopped.
type swapper struct {
	swaps atomic.Int64
	stop  chan struct{}
	done  sync.WaitGroup
}

// swapAway starts one. The domain outside looks just like the mirror: whoever
// goes by the path opens, makes and removes its flows.
func swapAway(t *testing.T, root, outside string) *swapper {
	t.Helper()
	dir, link := filepath.Join(root, dirPrefix+testDomain), filepath.Join(root, "link")
	symlink(t, outside, link)
	s := &swapper{stop: make(chan struct{})}
	s.done.Go(func() {
		for n := 0; ; n++ {
			select {
			case <-s.stop:
				return
			default:
			}
			if unix.Renameat2(unix.AT_FDCWD, dir, unix.AT_FDCWD, link, unix.RENAME_EXCHANGE) == nil {
				s.swaps.Add(1)
			}
			// Long and short looks at either: from none to some tenths of a millisecond.
			for end := time.Now().Add(time.Duration(n%7) * 50 * time.Microsecond); time.Now().Before(end); {
			}
		}
	})
	return s
}

func (s *swapper) end() {
	close(s.stop)
	s.done.Wait()
}

// outsideDomain is a mirror domain of this agent's, with a flow, in another
// directory than the root.
func outsideDomain(t *testing.T, o Origin) string {
	t.Helper()
	other := openRoom(t, shmRoot(t))
	mustEnsure(t, other, o)
	if err := other.letGo(); err != nil {
		t.Fatal(err)
	}
	return other.domainPath(testDomain)
}

// TestNothingHappensOutsideTheRoot makes, adopts, rebuilds and removes flows
// while somebody keeps exchanging the domain's directory with a link out of the
// root. Deeds may fail; none may leave a trace outside.
func TestNothingHappensOutsideTheRoot(t *testing.T) {
	const wanted = 2000
	root := shmRoot(t)
	first, second := origin("data", 1), origin("audio", 2)
	outside := outsideDomain(t, first)
	before := tree(t, outside)
	theirs := inodeOf(t, filepath.Join(outside, flowDir(first.FlowID), "data"))
	r := openRoom(t, root)
	mustEnsure(t, r, first)
	s := swapAway(t, root, outside)
	made, removed := 0, 0
	ensure := func(o Origin) {
		f, created, err := r.EnsureFlow(o)
		if err == nil && f.Inode == theirs {
			t.Error("a flow outside the root was opened")
		}
		if created {
			made++
		}
		var differs *DiffersError
		if errors.As(err, &differs) {
			_, _ = r.ReplaceFlow(t.Context(), o)
		}
	}
	for n := 0; (s.swaps.Load() < wanted || made < 50 || removed < 50) && !t.Failed(); n++ {
		ensure(first)
		ensure(second)
		if _, err := r.RemoveFlow(t.Context(), second.Key, OriginGone); err == nil {
			removed++
		}
		switch n % 5 {
		case 0:
			_, _ = r.RebuildFlow(t.Context(), first.Key)
		case 1:
			_, _ = r.RemoveDomain(t.Context(), testDomain, Delete)
		case 2:
			again, err := Open(r.cfg)
			if err != nil {
				t.Fatal(err)
			}
			_, _ = again.Adopt()
			if f := again.Held(first.Key); f != nil && f.Inode == theirs {
				t.Error("a flow outside the root was adopted")
			}
			_ = again.letGo()
		case 3:
			_ = r.Sweep()
		}
		if got := tree(t, outside); got != before {
			t.Errorf("outside the root there is now\n%s\nthere was\n%s", got, before)
		}
	}
	s.end()
	t.Logf("%d exchanges, %d flows made, %d removed", s.swaps.Load(), made, removed)
}
