// Package explain asks two real agents why a flow is, or is not, on a host, in
// every situation that an operator gets into, and looks at the answer: the first
// broken step, its words, and the remedy.
package explain

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/mxl-stack/mxl-fabrics-agent/tests/mesh"
	"github.com/mxl-stack/mxl-fabrics-agent/tests/nmosstandin"
	"github.com/mxl-stack/mxl-fabrics-agent/tests/programs"
)

// binaries is the directory of the programs that TestMain has built.
var binaries string

func TestMain(m *testing.M) { os.Exit(programs.Main(m, &binaries)) }

// The flow that is asked about, and one that nobody writes.
const (
	domainID  = "5f4c1d2e-7a3b-4c6d-9e8f-0a1b2c3d4e51"
	unknownID = "0d9f6c3a-2b71-4f5e-8a64-1c2d3e4f7ffe"
)

func asked() mesh.Flow {
	return mesh.Flow{Name: "asked", DomainID: domainID, ID: "0d9f6c3a-2b71-4f5e-8a64-1c2d3e4f7551", Domain: "studio",
		Options: []string{"--format", "smpte291", "--rate", "50", "--history-ms", "400"}}
}

// plant is a mesh in a test, and the writer of its flow.
type plant struct {
	*mesh.Mesh
	t      *testing.T
	ctx    context.Context
	writer *mesh.Process
	// reserve is TMPFS_RESERVE_MB of B once it runs.
	reserve string
}

// newPlant prepares a mesh whose agents do not run yet.
func newPlant(t *testing.T) *plant {
	t.Helper()
	m, err := mesh.New(mesh.Options{Binaries: binaries, Logs: filepath.Join(t.TempDir(), "logs"), Receivers: 2, Environment: map[string]string{
		"SCAN_INTERVAL_MS": "300", "PEER_POLL_INTERVAL_MS": "300", "NMOS_POLL_INTERVAL_MS": "300", "RELEASE_GRACE_MS": "300", "TMPFS_RESERVE_MB": "8",
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.Close)
	return &plant{Mesh: m, t: t, ctx: t.Context(), reserve: "8"}
}

// run starts both agents and the writer.
func (p *plant) run() *plant {
	p.t.Helper()
	p.must(p.A.Start(p.ctx))
	p.B.Set("TMPFS_RESERVE_MB", "") // changed while it runs
	p.must(p.B.Start(p.ctx))
	p.must(p.B.Configure(p.ctx, map[string]string{"TMPFS_RESERVE_MB": p.reserve}))
	p.write()
	return p
}

func (p *plant) must(err error) {
	p.t.Helper()
	if err != nil {
		p.t.Fatal(err)
	}
}

func (p *plant) write() {
	p.t.Helper()
	var err error
	p.writer, err = p.Write(p.A, asked())
	p.must(err)
}

// connect points the first receiver at ids, as a controller does.
func (p *plant) connect(enable bool, domain, flow string) {
	p.t.Helper()
	p.must(p.NMOS.Nodes()[0].Receivers()[0].Connect(nmosstandin.Connection{MasterEnable: enable, DomainID: domain, FlowID: flow}))
}

// flowing connects the receiver and waits for grains.
func (p *plant) flowing() *plant {
	p.t.Helper()
	p.connect(true, domainID, asked().ID)
	p.must(p.Flowing(p.ctx, asked(), 20*time.Second))
	return p
}

// answer is what the command says with --json, and its exit code.
type answer struct {
	Role, Broken, Summary string
	OK                    bool
	Steps                 []struct {
		Step, Peer, What, Remedy string
		OK                       *bool
	}
	Code int `json:"-"`
	Text string
}

// explain runs the command as an operator does.
func (p *plant) explain(at *mesh.Agent, domain, flow string) (answer, error) {
	var a answer
	command := exec.CommandContext(p.ctx, filepath.Join(binaries, "mxl-fabrics-agent"), "explain", "--json", "--url", at.URL, domain, flow)
	out, err := command.Output()
	var failed *exec.ExitError
	if errors.As(err, &failed) {
		a.Code = failed.ExitCode()
		if len(out) == 0 {
			return a, fmt.Errorf("exit code %d: %s", a.Code, failed.Stderr)
		}
	} else if err != nil {
		return a, err
	}
	a.Text = string(out)
	return a, json.Unmarshal(out, &a)
}

// wanted is what the answer has to be.
type wanted struct {
	broken string // step, or empty
	code   int
	what   string // in the first broken step, or in the summary
	remedy string
}

// expect waits until the answer is the wanted one.
func (p *plant) expect(at *mesh.Agent, domain, flow string, w wanted) {
	p.t.Helper()
	var last answer
	err := mesh.Eventually(p.ctx, 15*time.Second, fmt.Sprintf("broken %q, code %d, %q, %q", w.broken, w.code, w.what, w.remedy), func() error {
		var err error
		if last, err = p.explain(at, domain, flow); err != nil {
			return err
		}
		return last.check(w)
	})
	if err != nil {
		p.t.Errorf("%v\n%s", err, last.Text)
		return
	}
	p.t.Logf("%s: %s", at.HostID, last.Summary)
	if testing.Verbose() {
		for _, s := range last.Steps {
			mark := "-"
			if s.OK != nil {
				mark = map[bool]string{true: "ok", false: "BROKEN"}[*s.OK]
			}
			p.t.Logf("  %-7s %s %s: %s > %s", mark, s.Step, s.Peer, s.What, s.Remedy)
		}
	}
}

func (a *answer) check(w wanted) error {
	if a.Broken != w.broken || a.Code != w.code {
		return fmt.Errorf("broken %q with code %d: %s", a.Broken, a.Code, a.Summary)
	}
	if !strings.Contains(a.Summary, w.what) {
		return fmt.Errorf("summary %q", a.Summary)
	}
	for _, s := range a.Steps {
		first := s.OK != nil && !*s.OK
		if w.broken == "" {
			first = s.OK == nil
		}
		if !first {
			continue
		}
		if !strings.Contains(s.Remedy, w.remedy) {
			return fmt.Errorf("remedy of %s %q", s.Step, s.Remedy)
		}
		return nil
	}
	return nil
}
