// Package mirrors tests the life of mirrors end to end: two real agents, real
// writers and readers, the HTTP API and what lies on disk.
package mirrors

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/mxl-stack/mxl-fabrics-agent/tests/mesh"
	"github.com/mxl-stack/mxl-fabrics-agent/tests/programs"
)

// binaries is the directory of the programs that TestMain has built.
var binaries string

func TestMain(m *testing.M) { os.Exit(programs.Main(m, &binaries, raceFlags...)) }

// The flows are small: what is looked at is the mirrors' life, not the load.
const domainID = "5f4c1d2e-7a3b-4c6d-9e8f-0a1b2c3d4e31"

func flowOf(name string, number int, options ...string) mesh.Flow {
	if options == nil {
		options = []string{"--format", "v210", "--width", "320", "--height", "180", "--rate", "50", "--history-ms", "400"}
	}
	return mesh.Flow{Name: name, DomainID: domainID, ID: fmt.Sprintf("0d9f6c3a-2b71-4f5e-8a64-1c2d3e4f7%03d", number), Domain: "studio", Options: options}
}

// site is a mesh in a test.
type site struct {
	*mesh.Mesh
	*testing.T
	ctx     context.Context
	seesAll bool // B's reader check sees every process
}

// start begins a mesh with both agents ready. prepare, when not nil, sees it
// before the agents run.
func start(t *testing.T, settings map[string]string, prepare func(*site)) *site {
	t.Helper()
	environment := map[string]string{
		"SCAN_INTERVAL_MS": "400", "PEER_POLL_INTERVAL_MS": "400", "NMOS_POLL_INTERVAL_MS": "400",
		"RELEASE_GRACE_MS": "800", "MIRROR_GRACE_S": "3", "TMPFS_RESERVE_MB": "8",
	}
	for key, value := range settings {
		environment[key] = value
	}
	m, err := mesh.New(mesh.Options{Binaries: binaries, Logs: filepath.Join(t.TempDir(), "logs"), Receivers: 3, Environment: environment})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for _, a := range []*mesh.Agent{m.A, m.B} {
			text, _ := os.ReadFile(filepath.Join(m.Logs, a.HostID+".log"))
			if at := strings.Index(string(text), "WARNING: DATA RACE"); at >= 0 {
				t.Errorf("%s: %s", a.HostID, text[at:min(at+6000, len(text))])
			}
			if !t.Failed() {
				continue
			}
			t.Logf("log of %s:\n%s", a.HostID, tail(string(text), 40))
		}
	})
	t.Cleanup(m.Close)
	s := &site{Mesh: m, T: t, ctx: t.Context()}
	s.seesAll, err = m.SeeAll(m.B)
	s.must(err)
	if prepare != nil {
		prepare(s)
	}
	s.must(m.A.Start(s.ctx))
	s.must(m.B.Start(s.ctx))
	return s
}

func tail(text string, lines int) string {
	all := strings.Split(strings.TrimSpace(text), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}

func (s *site) must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

// eventually fails the test when the condition does not come true.
func (s *site) eventually(limit time.Duration, what string, condition func() error) {
	s.Helper()
	s.must(mesh.Eventually(s.ctx, limit, what, condition))
}

// write starts a writer on A.
func (s *site) write(f mesh.Flow) *mesh.Process {
	s.Helper()
	p, err := s.Write(s.A, f)
	s.must(err)
	return p
}

// hold starts a process that maps a mirror on B as a reader does.
func (s *site) hold(f mesh.Flow) *mesh.Process {
	s.Helper()
	p, err := s.Mesh.Run("hold-"+f.Name, "mxl-pattern", "hold", s.B.MirrorDomain(f.DomainID), f.ID)
	s.must(err)
	s.eventually(10*time.Second, "a reader maps the mirror", func() error {
		if !strings.Contains(string(p.Output()), "holding") {
			return errors.New("not yet")
		}
		return nil
	})
	return p
}

// flows waits until grains come to the mirror on B.
func (s *site) flows(f mesh.Flow, limit time.Duration) {
	s.Helper()
	s.must(s.Mirrored(s.ctx, f, limit))
	ring, err := s.OpenMirror(s.B, f)
	s.must(err)
	defer ring.Close()
	s.must(mesh.NextGrain(s.ctx, ring, ring.Head(), limit))
}

func (s *site) data(f mesh.Flow) string {
	return filepath.Join(s.B.MirrorDomain(f.DomainID), f.ID+".mxl-flow", "data")
}

// inode of the flow's mirror, 0 when there is none.
func (s *site) inode(f mesh.Flow) uint64 {
	info, err := os.Stat(s.data(f))
	if err != nil {
		return 0
	}
	return info.Sys().(*syscall.Stat_t).Ino
}

// answer makes a request of B and compares the status.
func (s *site) answer(agent *mesh.Agent, method, path string, want int) string {
	s.Helper()
	status, body, err := agent.Do(s.ctx, method, path, nil)
	s.must(err)
	if status != want {
		s.Errorf("%s %s: %d %s, want %d", method, path, status, body, want)
	}
	return string(body)
}

// logged waits for a line in B's log.
func (s *site) logged(event string, pairs ...string) map[string]string {
	s.Helper()
	var line map[string]string
	s.eventually(15*time.Second, fmt.Sprint("log line ", event, pairs), func() error {
		lines := s.B.Logged(event, pairs...)
		if len(lines) == 0 {
			return errors.New("not in the log")
		}
		line = lines[len(lines)-1]
		return nil
	})
	return line
}

// counts waits for a value of a metric of B.
func (s *site) counts(series string, want float64) {
	s.Helper()
	s.eventually(5*time.Second, series, func() error {
		got, err := s.B.Metric(s.ctx, series)
		if err == nil && got != want {
			err = fmt.Errorf("%v, want %v", got, want)
		}
		return err
	})
}

// rebuilt waits until the health of a flow shows this many rebuilds, the last
// one for reason.
func (s *site) rebuilt(f mesh.Flow, times int, reason string) {
	s.Helper()
	s.logged("mirror_rebuilt", "flow_id", f.ID, "reason", reason, "rebuilds", fmt.Sprint(times))
	s.eventually(5*time.Second, "rebuilds of "+f.Name, func() error {
		row, err := s.B.Mirror(s.ctx, f.DomainID)
		if err != nil {
			return err
		}
		for _, flow := range row.Flows {
			h := flow.Health
			if flow.FlowID == f.ID && h.Rebuilds == times && h.LastRebuild != nil && h.LastRebuildReason != nil && *h.LastRebuildReason == reason {
				return nil
			}
		}
		return fmt.Errorf("%+v", row)
	})
}

// nothingHalfMade fails the test when a temporary entry lies in a mirror domain.
func (s *site) nothingHalfMade(f mesh.Flow) {
	s.Helper()
	entries, err := os.ReadDir(s.B.MirrorDomain(f.DomainID))
	s.must(err)
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), ".") {
			s.Errorf("%s is left", e.Name())
		}
	}
}
