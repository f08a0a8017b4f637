package config

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// FuzzFile: a configuration file either starts the agent, and is then the same after
// export and import, or the error names a key or the file.
func FuzzFile(f *testing.F) {
	for _, seed := range []string{
		`{}`, `{"MIRROR_GRACE_S":6,"KEPT":[1]}`, `{"PEERS":[{"host_id":"b","local_fabric_addr":"192.0.2.1","remote_fabric_addr":"192.0.2.2","provider":"verbs"}]}`,
		`{"MXL_ROOT":"/a","MXL_DOMAIN_SCAN_PATH":"/b"}`, `{"WEB_PORT":1e3,"LOG_LEVEL":"debug","CPU_AFFINITY":"0-3,7"}`, `{"NMOS_TAGS":{"a":["b"]}}`, `[]`, `{`, `{"HOST_ID":null}`, `{"MXL_ROOT":"a","":""}`,
	} {
		f.Add([]byte(seed))
	}
	if host, err := os.ReadFile("../../docker/agent.host.json"); err == nil {
		f.Add(host)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		s, err := Load(withFile(t, string(text)))
		if err != nil {
			var invalid *Error
			if !errors.As(err, &invalid) || err.Error() == "" {
				t.Fatalf("%q: an error without a key: %v", text, err)
			}
			return
		}
		out, err := s.ExportText()
		if err != nil {
			t.Fatal(err)
		}
		to, err := Load(withFile(t, `{}`))
		if err != nil {
			t.Fatal(err)
		}
		_, err = to.Import(out)
		var invalid *Error
		if errors.As(err, &invalid) && invalid.Key == "MXL_DOMAIN_SCAN_PATH" && s.Config().CheckScanPath() != nil {
			return // as it must be: there is no such directory here
		}
		if err != nil {
			t.Fatalf("%q: the export is refused: %v\n%s", text, err, out)
		}
		again, err := Load(Machine{Environ: []string{"STATE_DIR=" + filepath.Dir(to.Path())}})
		if err != nil {
			t.Fatalf("%q: the import cannot be loaded: %v", text, err)
		}
		want, got := s.Export(), again.Export()
		for _, name := range []string{"STATE_DIR", "AGENT_CONFIG_FILE"} { // of each store
			delete(want, name)
			delete(got, name)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("%q is another configuration after export and import (-want +got):\n%s", text, diff)
		}
	})
}
