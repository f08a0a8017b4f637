package agent

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/mxl-stack/mxl-fabrics-agent/agent/config"
)

// testedAgent knows two peers: one that answers, and one that answers 503.
func testedAgent(t *testing.T, environment ...string) *Agent {
	t.Helper()
	serve := func(status int, body string) string {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(status)
			_, _ = w.Write([]byte(body))
		}))
		t.Cleanup(s.Close)
		return s.URL + "/api/v1"
	}
	dir := t.TempDir()
	environment = append(environment, "HOST_ID=self", "NMOS_ENABLE=false", "MXL_ROOT="+dir, "STATE_DIR="+filepath.Join(dir, "state"),
		`PEERS=[{"host_id":"good","control_url":"`+serve(200, `{"boot_id":"b","version":"9"}`)+`"},
			{"host_id":"busy","control_url":"`+serve(503, `{}`)+`"},{"host_id":"nameless"}]`)
	store, err := config.Load(config.Machine{Environ: environment})
	if err != nil {
		t.Fatal(err)
	}
	a, err := New(store, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	ctx := t.Context()
	go func() { a.table.Run(ctx); close(done) }()
	deadline := time.Now().Add(5 * time.Second)
	for len(a.table.Snapshot()) < 3 {
		if time.Now().After(deadline) {
			t.Fatal("the peers are not known")
		}
		time.Sleep(time.Millisecond)
	}
	t.Cleanup(func() { <-done; a.client.Close() })
	return a
}

func TestPeerTest(t *testing.T) {
	temporary := t.TempDir()
	t.Setenv("TMPDIR", temporary)
	a := testedAgent(t, "DEFAULT_PROVIDER=tcp", "FABRIC_INTERFACE=127.0.0.1", "FABRIC_PORT_BASE=26390", "FABRIC_PORT_COUNT=2")
	for _, c := range []struct {
		host      string
		ok        bool
		controlUp string
		text      string
	}{
		{"good", true, "true", "target on 127.0.0.1:26390"},
		{"busy", false, "false", "http 503"},
		{"nameless", false, "", "no control url"},
		{"nobody", false, "", "unknown peer"},
	} {
		got := a.tryPeer(t.Context(), c.host)
		up := ""
		if got.ControlUp != nil {
			up = map[bool]string{true: "true", false: "false"}[*got.ControlUp]
		}
		if got.HostID != c.host || got.OK != c.ok || up != c.controlUp || !strings.Contains(got.Error+got.Detail, c.text) {
			t.Errorf("%s: %+v, control up %q; want %+v", c.host, got, up, c)
		}
	}
	if left, err := os.ReadDir(temporary); err != nil || len(left) > 0 {
		t.Errorf("the scratch flow stays: %v, %v", left, err)
	}
	// Every port is free again.
	for range 2 {
		if _, err := a.pullDeps.ports.take(); err != nil {
			t.Error(err)
		}
	}
	if got := a.tryPeer(t.Context(), "good"); got.OK || !strings.Contains(got.Error, "FABRIC_PORT_COUNT") {
		t.Errorf("without a port: %+v", got)
	}
}

func TestPeerTestOfAnAddressThatIsNotHere(t *testing.T) {
	a := testedAgent(t, "DEFAULT_PROVIDER=tcp", "FABRIC_INTERFACE=192.0.2.77")
	got := a.tryPeer(t.Context(), "good")
	if got.OK || got.ControlUp == nil || !*got.ControlUp || got.Error == "" {
		t.Errorf("%+v", got)
	}
}
