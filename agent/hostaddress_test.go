package agent

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mxl-stack/mxl-fabrics-agent/agent/config"
	"github.com/mxl-stack/mxl-fabrics-agent/agent/logging"
)

// TestAwaitHostAddress: a host that gets its address within 30 s starts with it; one
// that does not is unavailable, and says which key to set; a signal ends the wait.
func TestAwaitHostAddress(t *testing.T) {
	for name, c := range map[string]struct {
		environ       []string
		comes, signal time.Duration // after the start; 0: never
		want          string        // address
		took          time.Duration // at most 250 ms more
		lines         int
	}{
		"at once":               {comes: -1, want: "192.0.2.10"},
		"DHCP takes its time":   {comes: 12 * time.Second, want: "192.0.2.10", took: 12 * time.Second, lines: 1},
		"never":                 {took: 30 * time.Second, lines: 1},
		"SIGTERM meanwhile":     {signal: 3 * time.Second, took: 3 * time.Second, lines: 1},
		"the setting names one": {environ: []string{"NMOS_HOST_ADDRESS=198.51.100.1"}, want: "198.51.100.1"},
		"NMOS is off":           {environ: []string{"NMOS_ENABLE=false"}},
	} {
		t.Run(name, func(t *testing.T) {
			state := t.TempDir()
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				store, err := config.Load(config.Machine{
					Environ:  append([]string{"STATE_DIR=" + state, "HOST_ID=a"}, c.environ...),
					Hostname: func() (string, error) { return "a", nil },
					Addrs: func() ([]net.Addr, error) {
						list := []net.Addr{&net.IPNet{IP: net.IPv4(127, 0, 0, 1)}, &net.IPNet{IP: net.ParseIP("fe80::1")}}
						if c.comes != 0 && time.Since(began) >= c.comes {
							list = append(list, &net.IPNet{IP: net.IPv4(192, 0, 2, 10)})
						}
						return list, nil
					},
				})
				if err != nil {
					t.Fatal(err)
				}
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				if c.signal > 0 {
					defer time.AfterFunc(c.signal, cancel).Stop()
				}
				var out bytes.Buffer
				err = AwaitHostAddress(ctx, store, slog.New(logging.NewHandler(&out, slog.LevelInfo)))
				if took := time.Since(began); took < c.took || took > c.took+addressLook {
					t.Errorf("it took %v", took)
				}
				if n := strings.Count(out.String(), `"event":"host_address_wait"`); n != c.lines {
					t.Errorf("%d lines\n%s", n, &out)
				}
				if got := store.Config().NMOSHostAddress; got != c.want {
					t.Errorf("announces %q, want %q", got, c.want)
				}
				if export := store.Export()["NMOS_HOST_ADDRESS"]; export != c.want {
					t.Errorf("the export says %v", export)
				}
				switch {
				case c.signal > 0:
					if !errors.Is(err, context.Canceled) {
						t.Errorf("%v", err)
					}
				case c.took >= addressWait:
					if !errors.Is(err, ErrUnavailable) || !strings.Contains(err.Error(), "set NMOS_HOST_ADDRESS") || strings.Contains(err.Error(), "\n") {
						t.Errorf("%v", err)
					}
					var setting *config.Error
					if errors.As(err, &setting) {
						t.Errorf("it blames a setting: %v", err)
					}
				case err != nil:
					t.Error(err)
				}
			})
		})
	}
}
