package peers

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"testing"
	"time"
)

func addrs(list ...string) (out []netip.Addr) {
	for _, a := range list {
		out = append(out, netip.MustParseAddr(a))
	}
	return out
}

func TestLinkOf(t *testing.T) {
	host := []Interface{
		{Name: "lo", Addrs: addrs("127.0.0.1", "::1"), Carrier: true, OperState: "unknown"},
		{Name: "e1", Addrs: addrs("192.0.2.1", "fe80::1%e1"), Carrier: true, OperState: "up"},
		{Name: "e2", Addrs: addrs("198.51.100.1", "203.0.113.1"), OperState: "down"},
		{Name: "e3", Addrs: addrs("203.0.113.1"), Carrier: true, OperState: "up"},
	}
	for address, want := range map[string]Link{
		"":                 {Up: true},
		"192.0.2.1":        {Up: true, Interface: "e1"},
		"::ffff:192.0.2.1": {Up: true, Interface: "e1"},
		"fe80::1":          {Up: true, Interface: "e1"},
		"fe80::1%e1":       {Up: true, Interface: "e1"},
		"e1":               {Up: true, Interface: "e1"},
		"127.0.0.1":        {Up: true, Interface: "lo"},
		"198.51.100.1":     {Error: "no carrier on e2 (down)", Interface: "e2"},
		"e2":               {Error: "no carrier on e2 (down)", Interface: "e2"},
		"203.0.113.1":      {Up: true, Interface: "e3"},
		"192.0.2.9":        {Error: "source interface unavailable: no local interface has 192.0.2.9"},
		"e9":               {Error: "source interface unavailable: no local interface has e9"},
	} {
		if got := LinkOf(address, host); got != want {
			t.Errorf("%q: got %+v, want %+v", address, got, want)
		}
	}
}

func TestCarrier(t *testing.T) {
	root := t.TempDir()
	write := func(device, file, text string) {
		dir := filepath.Join(root, "class", "net", device)
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("up", "carrier", "1\n")
	write("up", "operstate", "up\n")
	write("pulled", "carrier", "0\n")
	write("pulled", "operstate", "lowerlayerdown\n")
	// The kernel answers EINVAL for a device that is set down; a directory
	// answers with an error too.
	write("down", "operstate", "down\n")
	if err := os.Mkdir(filepath.Join(root, "class/net/down/carrier"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		device net.Interface
		up     bool
		state  string
	}{
		{net.Interface{Name: "up"}, true, "up"},
		{net.Interface{Name: "pulled", Flags: net.FlagUp}, false, "lowerlayerdown"},
		{net.Interface{Name: "down"}, false, "down"},
		{net.Interface{Name: "elsewhere", Flags: net.FlagUp | net.FlagRunning}, true, "unknown"},
		{net.Interface{Name: "elsewhere", Flags: net.FlagUp}, false, "unknown"},
	} {
		if up, state := carrier(root, c.device); up != c.up || state != c.state {
			t.Errorf("%s: %v %q", c.device.Name, up, state)
		}
	}
}

// TestLinkWatchRuns watches the real interfaces: the loopback is there, and
// the watch ends without leaving a goroutine behind.
func TestLinkWatchRuns(t *testing.T) {
	w := NewLinkWatch("/sys", slog.New(slog.NewTextHandler(io.Discard, nil)))
	if link := LinkOf("127.0.0.1", w.Interfaces()); !link.Up || link.Interface != "lo" {
		t.Errorf("loopback: %+v of %+v", link, w.Interfaces())
	}
	first, second := w.Subscribe(), w.Subscribe()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		w.Run(ctx)
	}()
	w.current.Store(&[]Interface{{Name: "gone"}})
	// The difference is seen within a rescan, and every subscriber hears of it.
	for _, changed := range []<-chan struct{}{first, second} {
		select {
		case <-changed:
		case <-time.After(5 * linkRescan):
			t.Error("a difference was not seen")
		}
	}
	cancel()
	select {
	case <-done:
	case <-time.After(5 * time.Second):
		t.Error("Run does not end")
	}
}
