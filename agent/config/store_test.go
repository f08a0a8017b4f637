package config

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestMergeAppliesAndSaves(t *testing.T) {
	s := load(t)
	restart, err := s.Merge([]byte(`{"MIRROR_STALE_MS":500,"PEERS":[{"host_id":"b","local_fabric_addr":"192.0.2.1"}]}`))
	if err != nil || restart {
		t.Fatalf("Merge: restart %v, %v; want both at once", restart, err)
	}
	select {
	case <-s.Changed():
	default:
		t.Error("nothing was notified")
	}
	c := s.Config()
	if c.MirrorStale.Duration() != 500*time.Millisecond || len(c.Peers) != 1 || c.Peers[0].LocalFabricAddr != "192.0.2.1" {
		t.Errorf("not applied: %v %v", c.MirrorStale, c.Peers)
	}
	restart, err = s.Merge([]byte(`{"SCAN_INTERVAL_MS":"3000"}`))
	if err != nil || !restart {
		t.Fatalf("Merge: restart %v, %v; want a restart", restart, err)
	}
	if s.Config().ScanInterval.Duration() != 2*time.Second {
		t.Error("a setting that needs a restart was applied at once")
	}
	if s.Export()["SCAN_INTERVAL_MS"] != "3000" || s.Origins()["SCAN_INTERVAL_MS"] != OriginFile {
		t.Error("the export does not show the saved value")
	}
	if restart, err = s.Merge([]byte(`{"SCAN_INTERVAL_MS":null}`)); err != nil || !restart || !s.RestartRequired() {
		t.Errorf("restart_required must stay: %v, %v", restart, err)
	}
	if s.Origins()["SCAN_INTERVAL_MS"] != OriginDefault {
		t.Error("null did not take the setting out of the file layer")
	}
	var saved map[string]any
	text, err := os.ReadFile(s.Path())
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &saved); err != nil {
		t.Fatal(err)
	}
	want := map[string]any{"MIRROR_STALE_MS": 500.0, "PEERS": []any{map[string]any{"host_id": "b", "local_fabric_addr": "192.0.2.1"}}}
	if diff := cmp.Diff(want, saved); diff != "" {
		t.Errorf("file layer (-want +got):\n%s", diff)
	}
	again, err := Load(Machine{Environ: []string{"STATE_DIR=" + filepath.Dir(s.Path())}})
	if err != nil || again.Config().MirrorStale.Duration() != 500*time.Millisecond {
		t.Errorf("the next start does not read it: %v", err)
	}
}

func TestMergeRefuses(t *testing.T) {
	for name, c := range map[string]struct{ patch, key string }{
		"not an object":       {`[]`, ""},
		"no JSON":             {`{`, ""},
		"unknown key":         {`{"NOT_A_KEY":1}`, "NOT_A_KEY"},
		"invalid value":       {`{"MIRROR_MODE":"lazy"}`, "MIRROR_MODE"},
		"one of two invalid":  {`{"MIRROR_GRACE_S":1,"WEB_PORT":0}`, "WEB_PORT"},
		"held by environment": {`{"WEB_PORT":9000}`, "WEB_PORT"},
		"alias of a held key": {`{"CLEANUP_MIRRORS_ON_EXIT":true}`, "CLEANUP_MIRRORS_ON_EXIT"},
		"where the file is":   {`{"AGENT_CONFIG_FILE":"/elsewhere.json"}`, "AGENT_CONFIG_FILE"},
		"list as JSON":        {`{"MIRROR_INCLUDE_FLOWS":["a"]}`, "MIRROR_INCLUDE_FLOWS"},
		"environment only":    {`{"MIRROR_ADMIN_REBUILD":true}`, "MIRROR_ADMIN_REBUILD"},
		"removed key":         {`{"MIRROR_INCLUDE":"x"}`, "MIRROR_INCLUDE"},
		"alias conflict":      {`{"MXL_ROOT":"/a","MXL_DOMAIN_SCAN_PATH":"/b"}`, "MXL_DOMAIN_SCAN_PATH"},
		"cross check":         {`{"FABRIC_PORT_BASE":65500}`, "FABRIC_PORT_COUNT"},
		"address of nothing":  {`{"NMOS_REGISTRY_ADDRESS":"http://192.0.2.1"}`, "NMOS_REGISTRY_ADDRESS"},
		"link of nothing":     {`{"PEERS":[{"host_id":"b","local_fabric_addr":"10.0.0.999"}]}`, "PEERS"},
		"object for a number": {`{"SCAN_INTERVAL_MS":{"a":1}}`, "SCAN_INTERVAL_MS"},
	} {
		s, err := Load(withFile(t, `{"MIRROR_GRACE_S":5}`, "WEB_PORT=8095", "MXL_CLEANUP_ON_EXIT=false"))
		if err != nil {
			t.Fatal(err)
		}
		before := state(t, s)
		_, err = s.Merge([]byte(c.patch))
		var invalid *Error
		if !errors.As(err, &invalid) || invalid.Key != c.key {
			t.Errorf("%s: got %v, want an error about %q", name, err, c.key)
		}
		if strings.HasPrefix(name, "held") && !errors.Is(err, ErrReadOnly) {
			t.Errorf("%s: %v is not ErrReadOnly", name, err)
		}
		if diff := cmp.Diff(before, state(t, s)); diff != "" {
			t.Errorf("%s changed something:\n%s", name, diff)
		}
	}
}

// state is everything a refused change must leave alone.
func state(t testing.TB, s *Store) []any {
	t.Helper()
	text, err := os.ReadFile(s.Path())
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return []any{string(text), s.Export(), s.Origins(), s.RestartRequired(), *s.Config()}
}

func TestMergeReplacesAlias(t *testing.T) {
	s, err := Load(withFile(t, `{"MXL_ROOT":"/a","KEPT":"as it is"}`))
	if err != nil {
		t.Fatal(err)
	}
	var setting *Error
	if _, err := s.Merge([]byte(`{"MXL_DOMAIN_SCAN_PATH":"/proc/none"}`)); !errors.As(err, &setting) || setting.Key != "MXL_DOMAIN_SCAN_PATH" {
		t.Errorf("a path that is no directory: %v", err)
	}
	if _, err := s.Merge([]byte(`{"MXL_DOMAIN_SCAN_PATH":"/proc"}`)); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(s.Path())
	if err != nil {
		t.Fatal(err)
	}
	if s.Export()["MXL_ROOT"] != "/proc" || strings.Contains(string(text), "MXL_ROOT") || !strings.Contains(string(text), "KEPT") {
		t.Errorf("got %v with the file %s", s.Export()["MXL_ROOT"], text)
	}
}

func TestExportImport(t *testing.T) {
	from := load(t, "HOST_ID=origin", `PEERS=[{"host_id":"b"}]`, "MIRROR_ADMIN_REBUILD=true", "MXL_CLEANUP_ON_EXIT=yes", "MIRROR_GRACE_S=7")
	text, err := from.ExportText()
	if err != nil {
		t.Fatal(err)
	}
	var exported map[string]any
	if err := json.Unmarshal(text, &exported); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]any{
		"MXL_CLEANUP_ON_EXIT": "true", "CLEANUP_MIRRORS_ON_EXIT": "true", "NMOS_DNS_SD": "false", "NMOS_SEED": "", "MIRROR_GRACE_S": "7",
		"PEERS": []any{map[string]any{"host_id": "b"}}, "NMOS_TAGS": map[string]any{},
	} {
		if diff := cmp.Diff(want, exported[name]); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
	if _, shown := exported["MIRROR_ADMIN_REBUILD"]; shown || !from.Config().MirrorAdminRebuild {
		t.Error("MIRROR_ADMIN_REBUILD is shown, or not set")
	}
	if len(exported) != len(Keys())-1+2 {
		t.Errorf("%d members, want every key but one and two aliases", len(exported))
	}
	wrapped, err := json.Marshal(map[string]any{"config": exported})
	if err != nil {
		t.Fatal(err)
	}
	for _, document := range [][]byte{text, wrapped} {
		to, err := Load(withFile(t, `{"MIRROR_STALE_MS":1}`, "HOST_ID=kept"))
		if err != nil {
			t.Fatal(err)
		}
		restart, err := to.Import(document)
		if err != nil || !restart {
			t.Fatalf("Import: restart %v, %v; MXL_CLEANUP_ON_EXIT needs one", restart, err)
		}
		c := to.Config()
		if c.HostID != "kept" || c.MirrorGrace.Duration() != 7*time.Second || c.MirrorStale.Duration() != 2*time.Second || len(c.Peers) != 1 {
			t.Errorf("got %s %v %v %v", c.HostID, c.MirrorGrace, c.MirrorStale, c.Peers)
		}
	}
	s := load(t)
	if _, err := s.Import([]byte(`{"NOT_A_KEY":1,"MIRROR_ADMIN_REBUILD":true,"MIRROR_GRACE_S":3}`)); err != nil {
		t.Error("unknown keys are skipped:", err)
	}
	if s.Config().MirrorAdminRebuild || s.Config().MirrorGrace.Duration() != 3*time.Second {
		t.Error("import opened the rebuild hook, or changed nothing")
	}
	before := state(t, s)
	for _, bad := range []string{`[]`, `{"config":[]}`, `{"MIRROR_GRACE_S":-1}`, `{"MXL_ROOT":"/a","MXL_DOMAIN_SCAN_PATH":"/b"}`,
		`{"config":{"MIRROR_GRACE_S":4},"origin":{},"restart_required":false}`, `{"config":{"NOT_A_KEY":1}}`} {
		if _, err := s.Import([]byte(bad)); err == nil {
			t.Errorf("%s was taken", bad)
		}
		if diff := cmp.Diff(before, state(t, s)); diff != "" {
			t.Errorf("%s changed something:\n%s", bad, diff)
		}
	}
}

func TestEnvironmentForm(t *testing.T) {
	s := load(t, "PEERS=[ {\"host_id\": \"b\"} ]", "NMOS_LABEL=two\nlines")
	lines := strings.Split(strings.TrimSuffix(s.Environment(), "\n"), "\n")
	if len(lines) != len(Keys())-1+2 {
		t.Errorf("%d lines", len(lines))
	}
	for i := 1; i < len(lines); i++ {
		if lines[i-1] >= lines[i] {
			t.Errorf("%q is not before %q", lines[i-1], lines[i])
		}
	}
	for _, want := range []string{`PEERS=[{"host_id":"b"}]`, "NMOS_TAGS={}", "NMOS_LABEL=two lines", "WEB_PORT=8095"} {
		if !strings.Contains(s.Environment(), want+"\n") {
			t.Errorf("no line %s", want)
		}
	}
}

// TestEnvironmentStartsAgain: the lines are an environment of which an agent with the
// same settings starts, saved or not.
func TestEnvironmentStartsAgain(t *testing.T) {
	named := filepath.Join(t.TempDir(), "named.json")
	if err := os.WriteFile(named, []byte(`{"MIRROR_GRACE_S":8}`), 0o600); err != nil {
		t.Fatal(err)
	}
	unwritable := machine(t)
	unwritable.Environ = []string{"STATE_DIR=/proc/nowhere"}
	for name, m := range map[string]Machine{
		"nothing saved":              machine(t, "NMOS_LABEL=studio 1", `PEERS=[{"host_id":"b","provider":"tcp"}]`),
		"saved":                      withFile(t, `{"MIRROR_GRACE_S":7}`),
		"a file that was given":      machine(t, "AGENT_CONFIG_FILE="+named),
		"nothing can be saved":       unwritable,
		"no registry, last of ports": machine(t, "NMOS_REGISTRY_PORT=65535", "NMOS_QUERY_PORT=1"),
	} {
		first, err := Load(m)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		m.Environ = strings.Split(first.Environment(), "\n")
		again, err := Load(m)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if diff := cmp.Diff(first.Export(), again.Export()); diff != "" {
			t.Errorf("%s: other settings (-first +again):\n%s", name, diff)
		}
		if first.Path() != again.Path() {
			t.Errorf("%s: saved to %q, then to %q", name, first.Path(), again.Path())
		}
	}
}

func TestFailedSaveChangesNothing(t *testing.T) {
	if os.Getuid() == 0 {
		// Root writes anywhere; a directory in the place of the temporary
		// file stops it too.
		t.Log("running as root")
	}
	s, err := Load(withFile(t, `{"MIRROR_GRACE_S":5}`))
	if err != nil {
		t.Fatal(err)
	}
	before := state(t, s)
	if err := os.Mkdir(s.Path()+".tmp", 0o700); err != nil {
		t.Fatal(err)
	}
	_, err = s.Merge([]byte(`{"MIRROR_GRACE_S":6}`))
	var failed *SaveError
	if !errors.As(err, &failed) || failed.Path != s.Path() {
		t.Errorf("got %v, want a *SaveError", err)
	}
	if diff := cmp.Diff(before, state(t, s)); diff != "" {
		t.Errorf("something changed:\n%s", diff)
	}
}

// TestCrashDuringSave leaves what a process that dies before the rename
// leaves: a temporary file, half written. The next start reads the old file,
// and the next save works.
func TestCrashDuringSave(t *testing.T) {
	m := withFile(t, `{"MIRROR_GRACE_S":5}`)
	path := filepath.Join(strings.TrimPrefix(m.Environ[0], "STATE_DIR="), "agent.json")
	if err := os.WriteFile(path+".tmp", []byte(`{"MIRROR_GRACE_S":6,"MIRR`), 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := Load(m)
	if err != nil || s.Config().MirrorGrace.Duration() != 5*time.Second {
		t.Fatalf("the old file was not read: %v", err)
	}
	if _, err := s.Merge([]byte(`{"MIRROR_GRACE_S":7}`)); err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(path); err != nil || !strings.Contains(string(text), "7") {
		t.Errorf("not saved: %s %v", text, err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file's mode changed: %v %v", info.Mode(), err)
	}
}

func FuzzMerge(f *testing.F) {
	for _, seed := range []string{`{}`, `{"MIRROR_GRACE_S":6}`, `{"PEERS":[{"host_id":"b"}]}`, `{"MXL_ROOT":"/a","MXL_DOMAIN_SCAN_PATH":"/b"}`, `{"WEB_PORT":1e3}`, `{"HOST_ID":null}`, `[]`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, patch []byte) {
		s, err := Load(withFile(t, `{"MIRROR_GRACE_S":5}`))
		if err != nil {
			t.Fatal(err)
		}
		before := state(t, s)
		for _, change := range []func([]byte) (bool, error){s.Merge, s.Import} {
			if _, err := change(patch); err != nil {
				if diff := cmp.Diff(before, state(t, s)); diff != "" {
					t.Fatalf("%q was refused (%v) and changed something:\n%s", patch, err, diff)
				}
				continue
			}
			// What was taken must be readable at the next start.
			if _, err := Load(Machine{Environ: []string{"STATE_DIR=" + filepath.Dir(s.Path()), "HOST_ID=x"}}); err != nil && !strings.Contains(err.Error(), "HOST_ID") {
				t.Fatalf("%q was taken and cannot be loaded: %v", patch, err)
			}
			before = state(t, s)
		}
	})
}

func FuzzPeers(f *testing.F) {
	f.Add(`[{"host_id":"b","provider":"tcp","control_url":"http://b:1/api/v1"}]`)
	f.Add(`[null]`)
	f.Fuzz(func(t *testing.T, text string) {
		var p Peers
		if p.UnmarshalText([]byte(text)) != nil {
			return
		}
		out, err := json.Marshal(p)
		if err != nil {
			t.Fatal(err)
		}
		var again Peers
		if len(p) > 0 {
			if err := again.UnmarshalText(out); err != nil {
				t.Fatalf("%s does not read back: %v", out, err)
			}
			if diff := cmp.Diff(p, again); diff != "" {
				t.Fatal(diff)
			}
		}
	})
}

// A look at a configuration leaves no trace.
func TestUntouched(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	s, err := Load(Machine{Environ: []string{"STATE_DIR=" + dir, "HOST_ID=x"}, Untouched: true})
	if err != nil || s.Config().StateDir != dir {
		t.Fatalf("%v", err)
	}
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("STATE_DIR was made: %v", err)
	}
}
