package config

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// A configuration file that is a link stays one, and what it leads to is replaced.
func TestSaveThroughALink(t *testing.T) {
	dir := t.TempDir()
	kept, link := filepath.Join(dir, "kept"), filepath.Join(dir, "state", fileName)
	for _, d := range []string{kept, filepath.Dir(link)} {
		if err := os.Mkdir(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	write(t, filepath.Join(kept, "node-a.json"), `{"MIRROR_GRACE_S":5}`)
	if err := os.Symlink("../kept/node-a.json", link); err != nil {
		t.Fatal(err)
	}
	s, err := Load(Machine{Environ: []string{"STATE_DIR=" + filepath.Dir(link), "HOST_ID=x"}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Merge([]byte(`{"MIRROR_GRACE_S":6}`)); err != nil {
		t.Fatal(err)
	}
	if to, err := os.Readlink(link); err != nil || to != "../kept/node-a.json" {
		t.Errorf("the link: %q, %v", to, err)
	}
	if text, err := os.ReadFile(filepath.Join(kept, "node-a.json")); err != nil || !strings.Contains(string(text), `"MIRROR_GRACE_S": 6`) {
		t.Errorf("what it leads to: %s, %v", text, err)
	}
	if left, err := filepath.Glob(filepath.Join(dir, "*", "*.tmp")); err != nil || left != nil {
		t.Errorf("left: %v", left)
	}
}

// A file that was mounted by itself, as containers do, cannot be replaced: the error
// says what to mount instead, and nothing has changed.
func TestSaveToAMountedFile(t *testing.T) {
	dir := t.TempDir()
	path, other := filepath.Join(dir, fileName), filepath.Join(dir, "other.json")
	write(t, path, `{}`)
	write(t, other, `{"MIRROR_GRACE_S":5}`)
	if err := unix.Mount(other, path, "", unix.MS_BIND, ""); err != nil {
		t.Logf("no mounts here: %v", err) // only root may
		return
	}
	t.Cleanup(func() {
		if err := unix.Unmount(path, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	s, err := Load(Machine{Environ: []string{"STATE_DIR=" + dir, "HOST_ID=x"}})
	if err != nil {
		t.Fatal(err)
	}
	var failed *SaveError
	if _, err := s.Merge([]byte(`{"MIRROR_GRACE_S":6}`)); !errors.As(err, &failed) || !strings.Contains(err.Error(), "mount its directory instead") {
		t.Errorf("%v", err)
	}
	if text, err := os.ReadFile(path); err != nil || string(text) != `{"MIRROR_GRACE_S":5}` {
		t.Errorf("%s, %v", text, err)
	}
	if left, err := filepath.Glob(filepath.Join(dir, "*.tmp")); err != nil || left != nil {
		t.Errorf("left: %v", left)
	}
}
