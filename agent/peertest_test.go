package agent

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mxl-stack/mxl-fabrics-agent/agent/config"
	"github.com/mxl-stack/mxl-fabrics-agent/peers"
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

// TestPeerTestsOfASilentPeer: however many tests of a peer that does not answer are
// under way, they hold nothing that the test of another one, or a set-up, waits for.
func TestPeerTestsOfASilentPeer(t *testing.T) {
	a := testedAgent(t, "DEFAULT_PROVIDER=tcp", "FABRIC_INTERFACE=127.0.0.1", "FABRIC_PORT_BASE=26410", "FABRIC_PORT_COUNT=8")
	asked := make(chan struct{}, 100)
	silent := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		asked <- struct{}{}
		<-r.Context().Done()
	}))
	defer silent.Close()
	good, _ := a.table.Peer("good")
	a.table.SetStatic([]peers.Static{
		{HostID: "good", ControlURL: good.ControlURL}, {HostID: "silent", ControlURL: silent.URL + "/api/v1"},
	})
	for deadline := time.Now().Add(5 * time.Second); ; time.Sleep(time.Millisecond) {
		if _, known := a.table.Peer("silent"); known {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("the silent peer is not known")
		}
	}
	ctx, stop := context.WithCancel(t.Context())
	var tests sync.WaitGroup
	for range 20 {
		tests.Go(func() {
			if got := a.tryPeer(ctx, "silent"); got.OK || got.ControlUp == nil || *got.ControlUp {
				t.Errorf("a silent peer: %+v", got)
			}
		})
	}
	for range 20 {
		<-asked
	}
	places := a.pullDeps.setups
	places.mu.Lock()
	if places.taken != 0 {
		t.Errorf("%d places are held for a peer that does not answer", places.taken)
	}
	places.mu.Unlock()
	// Three set-ups for that peer hang: one place is left for others.
	for range 5 {
		defer places.ask("silent").leave()
	}
	if got := a.tryPeer(t.Context(), "good"); !got.OK {
		t.Errorf("the test of another peer: %+v", got)
	}
	stop()
	tests.Wait()
}
