package agent

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/mxl-stack/mxl-fabrics-agent/agent/config"
	"github.com/mxl-stack/mxl-fabrics-agent/agent/logging"
)

// TestLogConfig: one line holds every setting that the export shows, with its value.
func TestLogConfig(t *testing.T) {
	store, err := config.Load(config.Machine{Environ: []string{
		"STATE_DIR=" + t.TempDir(), "HOST_ID=node-a", "NMOS_HOST_ADDRESS=192.0.2.1", "MIRROR_GRACE_S=77", "NMOS_LABEL=a = b",
		"MIRROR_ADMIN_REBUILD=true", `PEERS=[{"host_id": "node-b", "local_fabric_addr": "192.0.2.1"}]`,
	}})
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	a := &Agent{store: store, log: slog.New(logging.NewHandler(&out, slog.LevelInfo))}
	a.logConfig()
	var line map[string]string
	if err := json.Unmarshal(out.Bytes(), &line); err != nil || bytes.Count(out.Bytes(), []byte("\n")) != 1 {
		t.Fatalf("%v in %s", err, out.String())
	}
	if line["event"] != "config" || line["level"] != "info" {
		t.Errorf("%s", out.String())
	}
	want := map[string]string{}
	for name, value := range store.Export() {
		text, isText := value.(string)
		if !isText {
			encoded, err := json.Marshal(value)
			if err != nil {
				t.Fatal(err)
			}
			text = string(encoded)
		}
		want[name] = text
	}
	for _, name := range []string{"ts", "level", "event"} {
		delete(line, name)
	}
	if diff := cmp.Diff(want, line); diff != "" {
		t.Errorf("the log and the export differ (-export +log):\n%s", diff)
	}
	if line["MIRROR_GRACE_S"] != "77" || line["NMOS_LABEL"] != "a = b" {
		t.Errorf("%s", out.String())
	}
}
