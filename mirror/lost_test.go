package mirror

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// TestLostMapping: a flow whose mapping was lost is made anew with another data file,
// also when its files have their length back, and also when they have not.
func TestLostMapping(t *testing.T) {
	for name, c := range map[string]struct {
		kind, file string
		whole      bool
	}{
		"grain file short":      {"data", "grains/data.1", false},
		"grain file whole":      {"data", "grains/data.1", true},
		"sample ring short":     {"audio", "channels", false},
		"sample ring whole":     {"audio", "channels", true},
		"header gone and whole": {"data", "data", true},
		"header gone":           {"audio", "data", false},
	} {
		t.Run(name, func(t *testing.T) {
			r := openRoom(t, shmRoot(t))
			o, other := origin(c.kind, 1), origin("data", 2)
			old, kept := mustEnsure(t, r, o), mustEnsure(t, r, other)
			path := filepath.Join(flowPath(r, o.Key), c.file)
			before, err := os.Stat(path)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.Truncate(path, 0); err != nil {
				t.Fatal(err)
			}
			if c.whole {
				if err := os.Truncate(path, before.Size()); err != nil {
					t.Fatal(err)
				}
			}
			old.Lose()
			var differs *DiffersError
			if _, _, err := r.EnsureFlow(o); !errors.As(err, &differs) || differs.Damaged == nil {
				t.Fatalf("EnsureFlow: %v", err)
			}
			inode := old.Inode
			done, err := r.ReplaceFlow(t.Context(), o)
			if err != nil || done.Flow == nil || done.Flow.Inode == inode || done.OldInode != inode || done.Flow.Lost() {
				t.Fatalf("ReplaceFlow: %+v, %v; the old inode is %d", done, err, inode)
			}
			if again := mustEnsure(t, r, o); again != done.Flow {
				t.Error("the new flow is not held")
			}
			if again := mustEnsure(t, r, other); again != kept {
				t.Error("the other flow was opened anew")
			}
		})
	}
}

// TestLostMappingOfAFlowThatWasReplaced: what something else put in the place of a
// lost flow is taken as it is when it is the right one.
func TestLostMappingOfAFlowThatWasReplaced(t *testing.T) {
	root := shmRoot(t)
	r := openRoom(t, root)
	o := origin("data", 1)
	old := mustEnsure(t, r, o)
	if err := os.RemoveAll(flowPath(r, o.Key)); err != nil {
		t.Fatal(err)
	}
	there := mustEnsure(t, openRoom(t, root), o)
	old.Lose()
	done, err := r.ReplaceFlow(t.Context(), o)
	if err != nil || done.Flow == nil || done.Flow.Inode != there.Inode {
		t.Fatalf("ReplaceFlow: %+v, %v; want inode %d", done, err, there.Inode)
	}
}
