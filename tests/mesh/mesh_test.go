package mesh

import (
	"context"
	"errors"
	"net"
	"strconv"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestFreePortsAreFree(t *testing.T) {
	base, err := freePorts(5)
	if err != nil {
		t.Fatal(err)
	}
	taken, err := net.Listen("tcp", ":"+strconv.Itoa(base+2))
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	if allFree(base, 5) {
		t.Errorf("ports %d to %d are free although %d is taken", base, base+4, base+2)
	}
}

func TestProcessEnds(t *testing.T) {
	for _, tc := range []struct {
		script string
		stop   bool
		code   int
	}{
		{"exit 0", false, 0},
		{"exit 75", false, 75},
		{"sleep 60", true, 128 + 15},
		{"trap 'exit 143' TERM; echo ready; while :; do sleep 0.01; done", true, 143},
		{"trap '' TERM; echo ready; while :; do sleep 0.01; done", true, 128 + 9},
	} {
		p, err := startProcess(t.TempDir(), "shell", nil, "/bin/sh", "-c", tc.script)
		if err != nil {
			t.Fatal(err)
		}
		if tc.stop && tc.script != "sleep 60" {
			err := Eventually(t.Context(), 10*time.Second, "the trap is set", func() error {
				if len(p.Output()) == 0 {
					return errors.New("no output")
				}
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		code := 0
		if tc.stop {
			code = p.Stop(300 * time.Millisecond)
		} else {
			code = p.ExitCode()
		}
		if code != tc.code {
			t.Errorf("%q: exit code %d, want %d", tc.script, code, tc.code)
		}
	}
}

func TestEventuallyNamesWhatWasWaitedFor(t *testing.T) {
	cause := errors.New("not there")
	err := Eventually(t.Context(), time.Millisecond, "the thing", func() error { return cause })
	if !errors.Is(err, cause) {
		t.Errorf("%v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := Eventually(ctx, time.Hour, "the thing", func() error { return cause }); !errors.Is(err, cause) {
		t.Errorf("%v", err)
	}
	if err := Eventually(ctx, 0, "the thing", func() error { return nil }); err != nil {
		t.Errorf("a condition that holds: %v", err)
	}
}

// Both agents get an environment that names the other one and the registry.
func TestAgentsKnowEachOther(t *testing.T) {
	m, err := New(Options{Binaries: "/nowhere", Logs: t.TempDir(), Receivers: 2})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	for _, pair := range [][2]*Agent{{m.A, m.B}, {m.B, m.A}} {
		environment := pair[0].environment
		want := `[{"control_url":"` + pair[1].URL + `/api/v1","host_id":"` + pair[1].HostID +
			`","local_fabric_addr":"127.0.0.1","provider":"tcp","remote_fabric_addr":"127.0.0.1"}]`
		if environment["PEERS"] != want {
			t.Errorf("PEERS %s, want %s", environment["PEERS"], want)
		}
		if environment["NMOS_REGISTRY_PORT"] != strconv.Itoa(m.NMOS.RegistryPort()) || environment["NMOS_QUERY_PORT"] != strconv.Itoa(m.NMOS.QueryPort()) {
			t.Errorf("registry ports %v", environment)
		}
	}
	if len(m.NMOS.Receivers()) != 2 {
		t.Errorf("%d receivers", len(m.NMOS.Receivers()))
	}
}

// Connect is a real PATCH that the stand-in's receiver obeys.
func TestConnect(t *testing.T) {
	m, err := New(Options{Binaries: "/nowhere", Logs: t.TempDir(), Receivers: 2})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	good := Flow{DomainID: "5f4c1d2e-7a3b-4c6d-9e8f-0a1b2c3d4e01", ID: "0d9f6c3a-2b71-4f5e-8a64-1c2d3e4f5d01"}
	if err := m.Connect(t.Context(), 1, good); err != nil {
		t.Error(err)
	}
	if err := m.Connect(t.Context(), 1, Flow{DomainID: "not an id"}); err == nil {
		t.Error("a bad id was accepted")
	}
}

func TestLostInTransit(t *testing.T) {
	for _, tc := range []struct{ lost, gaps, skipped, want uint64 }{
		{0, 0, 5, 0}, // the writer skipped outside the reader's time
		{5, 5, 5, 0}, // all of it the writer's
		{7, 5, 5, 2}, // two came too late
		{5, 5, 3, 2}, // two gaps are not the writer's
		{5, 0, 5, 5}, // nothing but late ones
		{5, 9, 9, 0},
	} {
		if got := (Totals{Lost: tc.lost, Gaps: tc.gaps}).LostInTransit(Written{LateSkipped: tc.skipped}); got != tc.want {
			t.Errorf("%+v: %d", tc, got)
		}
	}
}
