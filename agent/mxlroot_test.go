package agent

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mxl-stack/mxl-fabrics-agent/mirror"
)

func TestRootFault(t *testing.T) {
	start := rootLook{Device: 40, Inode: 1, Tmpfs: true, Writable: true}
	for name, c := range map[string]struct {
		start, now rootLook
		want       string
		usable     bool
	}{
		"the same":                {start, start, "", false},
		"gone":                    {start, rootLook{Err: unix.ENOENT}, "is gone: no such file", false},
		"removed below a mount":   {start, rootLook{Err: errRootRemoved}, "is gone: the directory was removed", false},
		"unmounted":               {start, rootLook{Device: 8, Inode: 77, Writable: true}, "was unmounted", false},
		"a disk, unmounted":       {rootLook{Device: 9, Inode: 2, Mount: true}, rootLook{Device: 8, Inode: 77}, "was unmounted", false},
		"another tmpfs":           {start, rootLook{Device: 41, Inode: 1, Tmpfs: true, Writable: true}, "restarts itself in place", true},
		"another's tmpfs":         {start, rootLook{Device: 41, Inode: 1, Tmpfs: true}, "may not write there", false},
		"replaced":                {start, rootLook{Device: 40, Inode: 9, Tmpfs: true, Writable: true}, "restarts itself in place", true},
		"mounted late":            {rootLook{Device: 8, Inode: 5}, rootLook{Device: 41, Inode: 1, Tmpfs: true, Mount: true}, "restarts itself in place", true},
		"never one, replaced":     {rootLook{Device: 8, Inode: 5}, rootLook{Device: 8, Inode: 6}, "another directory", true},
		"never one, and the same": {rootLook{Device: 8, Inode: 5}, rootLook{Device: 8, Inode: 5}, "", false},
		"the same, less rights":   {start, rootLook{Device: 40, Inode: 1, Tmpfs: true}, "", false},
		"none at the start":       {rootLook{Err: unix.ENOENT}, start, "another directory", true},
	} {
		got, usable := rootFault("/Volumes/mxl", c.start, c.now)
		if (got == "") != (c.want == "") || !strings.Contains(got, c.want) || usable != c.usable {
			t.Errorf("%s: %q, want %q in it; usable %v", name, got, c.want, usable)
		}
	}
}

// TestRootIsLookedAt looks at real directories: a plain one, a mount, one that this
// user may not write to, one that is no directory, one that was removed.
func TestRootIsLookedAt(t *testing.T) {
	dir := t.TempDir()
	if l := lookAtRoot(dir); l.Err != nil || l.Mount || !l.Writable || !l.same(lookAtRoot(dir)) {
		t.Errorf("a directory: %+v", l)
	}
	if l := lookAtRoot("/proc"); l.Err != nil || !l.Mount || l.Tmpfs {
		t.Errorf("a mount: %+v", l)
	}
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if l := lookAtRoot(file); l.Err == nil || l.same(l) {
		t.Errorf("a file: %+v", l)
	}
	gone := filepath.Join(dir, "gone")
	if err := os.Mkdir(gone, 0o755); err != nil {
		t.Fatal(err)
	}
	held, err := os.Open(gone)
	if err != nil {
		t.Fatal(err)
	}
	defer held.Close()
	if err := os.Remove(gone); err != nil {
		t.Fatal(err)
	}
	// Its descriptor reaches it like a bind mount does.
	if l := lookAtRoot(fmt.Sprintf("/proc/self/fd/%d", held.Fd())); !errors.Is(l.Err, errRootRemoved) {
		t.Errorf("removed: %+v", l)
	}
}

func TestRootRestartStep(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	long := now.Add(-rootSettles)
	for name, c := range map[string]struct {
		facts rootRestartFacts
		due   bool
		waits string
	}{
		"the old root, or none":        {rootRestartFacts{Since: long}, false, ""},
		"another, since just now":      {rootRestartFacts{Usable: true, Since: long.Add(1)}, false, ""},
		"another":                      {rootRestartFacts{Usable: true, Since: long}, true, ""},
		"another, restarted":           {rootRestartFacts{Usable: true, Since: long, Last: now.Add(-restartEvery)}, true, ""},
		"another, just restarted":      {rootRestartFacts{Usable: true, Since: long, Last: now.Add(1 - restartEvery)}, false, "less than a minute ago"},
		"another, the clock went back": {rootRestartFacts{Usable: true, Since: long, Last: now.Add(time.Hour)}, true, ""},
		"another, the old one read":    {rootRestartFacts{Usable: true, Since: long, Reads: "x is read by 12 (vf)"}, false, "read by 12 (vf); end the readers"},
	} {
		c.facts.Now = now
		if due, waits := rootRestartStep(c.facts); due != c.due || !strings.Contains(waits, c.waits) || (c.waits == "") != (waits == "") {
			t.Errorf("%s: %v %q", name, due, waits)
		}
	}
}

func TestReadersText(t *testing.T) {
	for _, c := range []struct {
		facts mirror.ReaderFacts
		want  string
	}{
		{mirror.ReaderFacts{Known: true}, ""},
		{mirror.ReaderFacts{Known: true, Mapped: []mirror.Reader{{PID: 7, Comm: "vf"}, {PID: 9, Comm: "af"}}}, "is read by 7 (vf), 9 (af)"},
		{mirror.ReaderFacts{Mapped: []mirror.Reader{{PID: 7, Comm: "vf"}}}, "is read by 7 (vf)"},
		{mirror.ReaderFacts{Why: "no hostPID"}, "not known: no hostPID"},
	} {
		if got := readersText(c.facts); !strings.Contains(got, c.want) || (got == "") != (c.want == "") {
			t.Errorf("%+v: %q", c.facts, got)
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
	if look(); !strings.Contains(r.problem(), "another directory") || !r.usable || at.Sub(r.since) != 2*rootEvery {
		t.Errorf("replaced: %q, usable %v for %v", r.problem(), r.usable, at.Sub(r.since))
	}
	waits := "somebody reads"
	if r.waits.Store(&waits); !strings.HasSuffix(r.problem(), "not yet: somebody reads") {
		t.Errorf("replaced, and waiting: %q", r.problem())
	}
	must(os.Remove(root))
	must(os.Rename(aside, root))
	if look(); r.problem() != "" || r.usable {
		t.Errorf("back: %q, usable as another %v", r.problem(), r.usable)
	}
	if lost, back := strings.Count(out.String(), "mxl_root_lost"), strings.Count(out.String(), "mxl_root_back"); lost != 2 || back != 1 {
		t.Errorf("%d times lost and %d times back in the log, want 2 and 1:\n%s", lost, back, out.String())
	}
}
