// Package doctor looks at a host the way an operator would before he blames the
// agent: limits, capabilities, clocks, devices, the MXL root, ports, and what is
// reachable. It needs no running agent and changes nothing.
package doctor

import (
	"context"
	"fmt"
	"time"

	"github.com/mxl-stack/mxl-fabrics-agent/agent/config"
	"github.com/mxl-stack/mxl-fabrics-agent/peers"
)

// State of a finding.
type State string

// States. Note says something that is no fault with the present settings.
const (
	OK   State = "ok"
	Note State = "note"
	Warn State = "warn" // works, and will hurt
	Fail State = "fail" // does not work
)

// Finding is what one check found.
type Finding struct {
	Check  string `json:"check"`
	State  State  `json:"state"`
	What   string `json:"what"`
	Remedy string `json:"remedy,omitempty"` // never empty for warn and fail
}

// Report is everything a look at the host found.
type Report struct {
	HostID   string    `json:"host_id"`
	OK       bool      `json:"ok"` // nothing is worse than a note
	Findings []Finding `json:"findings"`
}

// Worst is the worst state of any finding.
func (r *Report) Worst() State {
	worst := OK
	for _, f := range r.Findings {
		switch {
		case f.State == Fail:
			return Fail
		case f.State == Warn, f.State == Note && worst == OK:
			worst = f.State
		}
	}
	return worst
}

// System is the host as the checks see it. Every function may be replaced in a
// test; Root is put before /proc, /sys and /dev.
type System struct {
	Root       string
	TAIOffset  func() (int, error)
	Statfs     func(path string) (Filesystem, error)
	Access     func(path string) error // writable and searchable for this process
	Listen     func(port int) error    // nil: the port is free
	Get        func(ctx context.Context, url string) (status int, body []byte, err error)
	Probe      func(provider string) error
	Providers  func() []string
	Libfabric  func() string
	Interfaces func() ([]peers.Interface, error)
	// Readers says whether the reader check of mirrors sees every process.
	Readers func(ctx context.Context) (known bool, why string)
	// PathMTU asks whether datagrams of the interface's MTU get to an address.
	PathMTU func(ctx context.Context, local, remote string) (PathMTU, error)
}

// examination collects the findings of one look.
type examination struct {
	sys *System
	cfg *config.Config
	out []Finding
}

func (e *examination) ok(check, format string, args ...any) {
	e.out = append(e.out, Finding{Check: check, State: OK, What: fmt.Sprintf(format, args...)})
}

func (e *examination) found(check string, state State, remedy, format string, args ...any) {
	e.out = append(e.out, Finding{Check: check, State: state, What: fmt.Sprintf(format, args...), Remedy: remedy})
}

// unless is state, or a note when the finding does not matter here.
func unless(harmless bool, state State) State {
	if harmless {
		return Note
	}
	return state
}

// networkLimit bounds everything that waits for another host.
const networkLimit = 10 * time.Second

// Examine makes every check. invalid is why the configuration could not be used;
// cfg is then the one of the defaults.
func Examine(ctx context.Context, sys *System, cfg *config.Config, invalid error) Report {
	ctx, cancel := context.WithTimeout(ctx, networkLimit)
	defer cancel()
	e := &examination{sys: sys, cfg: cfg}
	if invalid != nil {
		e.found("configuration", Fail, "Correct the setting that is named; the checks below use the defaults.", "%v", invalid)
	} else {
		e.ok("configuration", "The configuration is valid.")
	}
	e.state()
	e.root()
	e.clock()
	e.capabilities()
	e.readers(ctx)
	e.limits()
	e.inotify()
	e.providers()
	e.rdma()
	e.fabric()
	running := e.ports(ctx)
	e.registry(ctx)
	e.peers(ctx, running)
	report := Report{HostID: cfg.HostID, Findings: e.out}
	report.OK = report.Worst() == OK || report.Worst() == Note
	return report
}

// overVerbs says whether any link of this host may use verbs.
func (e *examination) overVerbs() bool {
	if e.cfg.DefaultProvider == "verbs" {
		return true
	}
	for _, p := range e.cfg.Peers {
		if p.Provider == "verbs" {
			return true
		}
	}
	return false
}
