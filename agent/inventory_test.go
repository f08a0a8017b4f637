package agent

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mxl-stack/mxl-fabrics-agent/agent/config"
	"github.com/mxl-stack/mxl-fabrics-agent/mxl"
	"github.com/mxl-stack/mxl-fabrics-agent/peers"
)

// TestInventoryOfAnOvergrownRoot: a media function that makes flows with definitions
// of 60 KB without end costs its own domain flows that do not fit, and says which. A
// peer reads the rest, with the flow of another domain.
func TestInventoryOfAnOvergrownRoot(t *testing.T) {
	root, err := os.MkdirTemp("/dev/shm", "mxl-overgrown-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(root) })
	const overgrown, length = 200, 60_000
	flowID := func(n int) string { return fmt.Sprintf("00000000-0000-4000-8000-%012x", n) }
	write := func(domain string, n, length int) {
		t.Helper()
		path := filepath.Join(root, domain)
		d, err := mxl.OpenDomain(path)
		if err != nil {
			t.Fatal(err)
		}
		def := fmt.Sprintf(`{"id":%q,"label":%q,"description":"","tags":{"urn:x-nmos:tag:grouphint/v1.0":["g:Data"]},"parents":[],"format":"urn:x-nmos:format:data","media_type":"video/smpte291","grain_rate":{"numerator":25,"denominator":1}}`,
			flowID(n), strings.Repeat("l", length))
		w, _, err := d.CreateDiscreteWriter([]byte(def), mxl.FlowOptions{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = w.Close() })
	}
	for _, domain := range []string{"studio", "overgrown"} {
		path := filepath.Join(root, domain)
		if err := os.Mkdir(path, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(path, "domain_def.json"), fmt.Appendf(nil, `{"id":%q}`, domain), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("studio", 1, 20)
	for n := range overgrown {
		write("overgrown", 100+n, length)
	}
	store, err := config.Load(config.Machine{Environ: []string{"HOST_ID=node-a", "STATE_DIR=" + t.TempDir()}})
	if err != nil {
		t.Fatal(err)
	}
	scanner, err := mxl.NewScanner(mxl.ScannerConfig{Root: root, HostID: "node-a"})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- scanner.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
	<-scanner.First()
	a := &Agent{store: store, scanner: scanner}
	server := httptest.NewServer(http.HandlerFunc(a.getInventory))
	t.Cleanup(server.Close)
	client := peers.NewClient()
	t.Cleanup(client.Close)
	inv, err := client.Inventory(t.Context(), server.URL)
	if err != nil {
		t.Fatalf("a peer cannot read it: %v", err)
	}
	if inv.Flow("studio", flowID(1)) == nil {
		t.Error("the flow of the other domain is lost")
	}
	kept := len(inv.Domain("overgrown").Flows)
	if kept == overgrown || kept < 100 {
		t.Errorf("%d flows of the overgrown domain, of %d", kept, overgrown)
	}
	answer, err := http.Get(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	var body strings.Builder
	if err := answer.Write(&body); err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(body.String(), "do not fit the 8 MiB that a peer reads"); kept+n != overgrown {
		t.Errorf("%d flows and %d reasons, want %d together", kept, n, overgrown)
	}
}
