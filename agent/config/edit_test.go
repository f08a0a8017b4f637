package config

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

// edited gives a store that has saved once, and the file it saves to.
func edited(t *testing.T) (*Store, string) {
	t.Helper()
	dir := t.TempDir()
	s, err := Load(Machine{Environ: []string{"STATE_DIR=" + dir, "HOST_ID=x"}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Merge([]byte(`{"MIRROR_GRACE_S":20,"SCAN_INTERVAL_MS":"3000"}`)); err != nil {
		t.Fatal(err)
	}
	if n := s.Notices(); n != nil {
		t.Fatalf("notices of an own save: %v", n)
	}
	return s, filepath.Join(dir, fileName)
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// What somebody wrote to the file by hand is part of the configuration with the next
// patch: runtime settings at once, the others after a restart; the patch wins.
func TestMergeTakesInWhatWasEdited(t *testing.T) {
	s, path := edited(t)
	write(t, path, `{"MIRROR_GRACE_S":30,"MIRROR_STALE_MS":700,"NOT_A_KEY":[1]}`)
	if err := s.NextStart(); err != nil {
		t.Error(err)
	}
	restart, err := s.Merge([]byte(`{"MIRROR_STALE_MS":900}`))
	if err != nil {
		t.Fatal(err)
	}
	// SCAN_INTERVAL_MS is not in the file any more.
	if c := s.Config(); c.MirrorGrace.Duration() != 30*time.Second || c.MirrorStale.Duration() != 900*time.Millisecond || !restart {
		t.Errorf("grace %v, stale %v, restart %v", c.MirrorGrace, c.MirrorStale, restart)
	}
	got, err := os.ReadFile(path)
	if err != nil || strings.Join(strings.Fields(string(got)), "") != `{"MIRROR_GRACE_S":30,"MIRROR_STALE_MS":900,"NOT_A_KEY":[1]}` {
		t.Errorf("%s, %v", got, err)
	}
	notices := fmt.Sprint(s.Notices())
	if !strings.Contains(notices, "{config_file_changed map[keys:SCAN_INTERVAL_MS,MIRROR_GRACE_S,MIRROR_STALE_MS path:"+path) || !strings.Contains(notices, "config_key_ignored map[key:NOT_A_KEY") {
		t.Errorf("notices %s", notices)
	}
	if n := s.Notices(); n != nil {
		t.Errorf("said again: %v", n)
	}
	// An empty patch takes in what there is, and nothing is said of another layout.
	write(t, path, `{ "MIRROR_STALE_MS": 900, "MIRROR_GRACE_S": "30" }`)
	if _, err := s.Merge([]byte(`{}`)); err != nil || s.Notices() != nil {
		t.Errorf("another layout: %v", err)
	}
	write(t, path, `{"MIRROR_GRACE_S":31}`)
	if _, err := s.Merge([]byte(`{}`)); err != nil || s.Config().MirrorGrace.Duration() != 31*time.Second {
		t.Errorf("an empty patch: %v, %v", err, s.Config().MirrorGrace)
	}
}

// A file that came to be after the start counts as edited, one that is gone does not.
func TestMergeWithAFileThatCameOrWent(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, fileName)
	s, err := Load(Machine{Environ: []string{"STATE_DIR=" + dir, "HOST_ID=x"}})
	if err != nil {
		t.Fatal(err)
	}
	write(t, path, `{"MIRROR_GRACE_S":30}`)
	if _, err := s.Merge([]byte(`{"MIRROR_STALE_MS":900}`)); err != nil || s.Config().MirrorGrace.Duration() != 30*time.Second {
		t.Errorf("came: %v, grace %v", err, s.Config().MirrorGrace)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Merge([]byte(`{"MIRROR_STALE_MS":901}`)); err != nil || s.Config().MirrorGrace.Duration() != 30*time.Second {
		t.Errorf("went: %v, grace %v", err, s.Config().MirrorGrace)
	}
	if got, err := os.ReadFile(path); err != nil || !strings.Contains(string(got), `"MIRROR_GRACE_S": 30`) {
		t.Errorf("%s, %v", got, err)
	}
}

// A file that cannot be used stays as it is, and so does everything else; an
// import replaces it and keeps a copy.
func TestMergeRefusesAnInvalidEdit(t *testing.T) {
	for name, c := range map[string]struct{ text, why string }{
		"no JSON":          {`{"MIRROR_GRACE_S":`, "must be a JSON object"},
		"empty":            {"", "must be a JSON object"},
		"a bad value":      {`{"MIRROR_STALE_MS":"often"}`, `MIRROR_STALE_MS="often"`},
		"an old key":       {`{"NMOS_REGISTRY_ADDRESS":"http://x"}`, "NMOS_REGISTRY_ADDRESS"},
		"not even a value": {`{"MIRROR_STALE_MS":null}`, "must not be null"},
		"no directory":     {`{"MXL_ROOT":"/proc/none"}`, `MXL_DOMAIN_SCAN_PATH="/proc/none"`},
		"far too large":    {`{"NMOS_LABEL":"` + strings.Repeat("x", maxFile) + `"}`, "is larger than"},
	} {
		t.Run(name, func(t *testing.T) {
			s, path := edited(t)
			write(t, path, c.text)
			if err := s.NextStart(); err == nil || !strings.Contains(err.Error(), c.why) {
				t.Errorf("the next start: %v, want %q", err, c.why)
			}
			_, err := s.Merge([]byte(`{"MIRROR_GRACE_S":21}`))
			var file *FileError
			if !errors.As(err, &file) || file.Path != path || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), c.why) {
				t.Fatalf("%v, want a FileError that says %q", err, c.why)
			}
			if got, err := os.ReadFile(path); string(got) != c.text || err != nil || s.Config().MirrorGrace.Duration() != 20*time.Second || s.Notices() != nil {
				t.Errorf("the file %.40q (%v), grace %v", got, err, s.Config().MirrorGrace)
			}
			if _, err := s.Import([]byte(`{"MIRROR_STALE_MS":"soon"}`)); err == nil || errors.As(err, &file) {
				t.Errorf("an invalid import: %v", err)
			}
			_, err = s.Import([]byte(`{"MIRROR_GRACE_S":22}`))
			if err != nil {
				t.Fatal(err)
			}
			if got, err := os.ReadFile(path + replacedSuffix); string(got) != c.text || err != nil {
				t.Errorf("the copy %.40q, %v", got, err)
			}
			if n := fmt.Sprint(s.Notices()); !strings.Contains(n, "config_file_replaced") || !strings.Contains(n, path+replacedSuffix) {
				t.Errorf("notices %s", n)
			}
			if _, err := s.Merge([]byte(`{"MIRROR_GRACE_S":23}`)); err != nil || s.Config().MirrorGrace.Duration() != 23*time.Second {
				t.Errorf("after the import: %v", err)
			}
		})
	}
}

// An edit and a patch that do not go together change nothing.
func TestMergeRefusesWhatContradictsAnEdit(t *testing.T) {
	s, path := edited(t)
	const text = `{"NMOS_PORT":4000}`
	write(t, path, text)
	var setting *Error
	var file *FileError
	if _, err := s.Merge([]byte(`{"WEB_PORT":4001}`)); !errors.As(err, &setting) || errors.As(err, &file) {
		t.Errorf("%v", err)
	}
	if got, _ := os.ReadFile(path); string(got) != text || s.Notices() != nil {
		t.Errorf("the file %s", got)
	}
	// What takes the contradiction out of an edit that is fine by itself is taken.
	if restart, err := s.Merge([]byte(`{"NMOS_PORT":null}`)); err != nil || !restart {
		t.Errorf("%v, restart %v", err, restart)
	}
}

// Whatever somebody writes to the file: a patch over it is taken and can be loaded, or
// is refused and nothing has changed.
func FuzzEdit(f *testing.F) {
	for _, seed := range []string{`{}`, ``, `{"MIRROR_GRACE_S":6}`, `{"MIRROR_STALE_MS":"x"}`, `{"MXL_ROOT":"/a","MXL_DOMAIN_SCAN_PATH":"/b"}`, `{"NMOS_PORT":8095}`, `{} {}`, `null`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		s, err := Load(withFile(t, `{"MIRROR_GRACE_S":5}`))
		if err != nil {
			t.Fatal(err)
		}
		write(t, s.Path(), string(text))
		before := state(t, s)
		if _, err := s.Merge([]byte(`{"MIRROR_STALE_MS":700}`)); err != nil {
			if diff := cmp.Diff(before, state(t, s)); diff != "" {
				t.Fatalf("%q: refused (%v) and changed something:\n%s", text, err, diff)
			}
			return
		}
		if got := s.Config().MirrorStale.Duration(); got != 700*time.Millisecond {
			t.Fatalf("%q: MIRROR_STALE_MS is %v", text, got)
		}
		if _, err := Load(Machine{Environ: []string{"STATE_DIR=" + filepath.Dir(s.Path()), "HOST_ID=x"}}); err != nil {
			t.Fatalf("%q was taken and cannot be loaded: %v", text, err)
		}
	})
}

// A named pipe in the file's place is not waited for: the loop that asks must go on.
func TestAPipeIsNoFile(t *testing.T) {
	s, path := edited(t)
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := s.NextStart(); err == nil || !strings.Contains(err.Error(), "is not a regular file") {
		t.Errorf("the next start: %v", err)
	}
	var invalid *FileError
	if _, err := s.Merge([]byte(`{"MIRROR_STALE_MS":901}`)); !errors.As(err, &invalid) {
		t.Errorf("a patch: %v", err)
	}
}
