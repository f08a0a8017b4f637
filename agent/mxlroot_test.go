package agent

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestRootFault(t *testing.T) {
	start := rootLook{Device: 40, Inode: 1, Tmpfs: true}
	for name, c := range map[string]struct {
		start, now rootLook
		want       string
	}{
		"the same":                {start, start, ""},
		"gone":                    {start, rootLook{Err: unix.ENOENT}, "is gone: no such file"},
		"unmounted":               {start, rootLook{Device: 8, Inode: 77}, "was unmounted"},
		"another tmpfs":           {start, rootLook{Device: 41, Inode: 1, Tmpfs: true}, "restart the agent"},
		"replaced":                {start, rootLook{Device: 40, Inode: 9, Tmpfs: true}, "restart the agent"},
		"never one, replaced":     {rootLook{Device: 8, Inode: 5}, rootLook{Device: 8, Inode: 6}, "another directory"},
		"never one, and the same": {rootLook{Device: 8, Inode: 5}, rootLook{Device: 8, Inode: 5}, ""},
	} {
		got := rootFault("/Volumes/mxl", c.start, c.now)
		if (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
			t.Errorf("%s: %q, want %q in it", name, got, c.want)
		}
	}
}

// TestRootIsWatched moves a root away, puts another in its place and brings the
// first one back: each is said once.
func TestRootIsWatched(t *testing.T) {
	dir := t.TempDir()
	root, aside := filepath.Join(dir, "mxl"), filepath.Join(dir, "aside")
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(os.Mkdir(root, 0o755))
	var out bytes.Buffer
	log := slog.New(slog.NewTextHandler(&out, nil))
	r := newMXLRoot(root)
	at := time.Unix(0, 0)
	look := func() {
		for range 3 {
			at = at.Add(rootEvery)
			r.look(at, log)
		}
	}
	if look(); r.problem() != "" || out.Len() > 0 {
		t.Fatalf("untouched: %q, logged %s", r.problem(), out.String())
	}
	must(os.Rename(root, aside))
	if look(); !strings.Contains(r.problem(), "is gone") || r.tmpfs() {
		t.Errorf("moved away: %q, tmpfs %v", r.problem(), r.tmpfs())
	}
	must(os.Mkdir(root, 0o755))
	if look(); !strings.Contains(r.problem(), "another directory") {
		t.Errorf("replaced: %q", r.problem())
	}
	must(os.Remove(root))
	must(os.Rename(aside, root))
	if look(); r.problem() != "" {
		t.Errorf("back: %q", r.problem())
	}
	if lost, back := strings.Count(out.String(), "mxl_root_lost"), strings.Count(out.String(), "mxl_root_back"); lost != 2 || back != 1 {
		t.Errorf("%d times lost and %d times back in the log, want 2 and 1:\n%s", lost, back, out.String())
	}
}
