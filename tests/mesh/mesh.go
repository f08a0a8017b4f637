package mesh

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mxl-stack/mxl-fabrics-agent/tests/nmosstandin"
)

// Mesh is two agents, A and B, that know each other, and the NMOS world they
// look at.
type Mesh struct {
	A, B *Agent
	NMOS *nmosstandin.StandIn
	Shm  string // directory of the two MXL roots, on /dev/shm where it is large enough
	Logs string

	binaries  string
	client    *http.Client
	processes []*Process // in order of their start
}

// Options describes a mesh.
type Options struct {
	Binaries    string            // directory of the built programs
	Logs        string            // directory for logs, emptied first
	Receivers   int               // receivers of the one media node
	Environment map[string]string // for both agents
}

// New prepares a mesh and starts its registry; the agents are started by
// [Agent.Start]. Close ends all of it.
func New(o Options) (*Mesh, error) {
	m, err := Bare(o)
	if err != nil {
		return nil, err
	}
	if err := m.prepare(o); err != nil {
		m.Close()
		return nil, err
	}
	return m, nil
}

// Bare is a mesh without registry and agents, A and B are nil: a place for those
// that [Mesh.Place] adds.
func Bare(o Options) (*Mesh, error) {
	m := &Mesh{binaries: o.Binaries, Logs: o.Logs, client: &http.Client{Transport: &http.Transport{}}}
	if err := os.RemoveAll(o.Logs); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(o.Logs, 0o755); err != nil {
		return nil, err
	}
	var err error
	if m.Shm, err = os.MkdirTemp(tmpfs(), "mxl-mesh-"); err != nil {
		return nil, err
	}
	return m, nil
}

// tmpfs is where MXL roots go: /dev/shm, or any directory when that is as small
// as a container's 64 MB. Two rings of 1080p50 with 200 ms need 120 MB.
func tmpfs() string {
	var free unix.Statfs_t
	if unix.Statfs("/dev/shm", &free) == nil && free.Bavail*uint64(free.Bsize) >= 400<<20 {
		return "/dev/shm"
	}
	return os.TempDir()
}

func (m *Mesh) prepare(o Options) (err error) {
	m.NMOS, err = nmosstandin.Start(nmosstandin.Options{Nodes: []nmosstandin.NodeOptions{{Receivers: o.Receivers}}, ListSelf: true})
	if err != nil {
		return err
	}
	if m.A, err = newAgent(m, "host-a"); err != nil {
		return err
	}
	if m.B, err = newAgent(m, "host-b"); err != nil {
		return err
	}
	for _, pair := range [][2]*Agent{{m.A, m.B}, {m.B, m.A}} {
		own, peer := pair[0], pair[1]
		peers, err := json.Marshal([]map[string]string{{
			"host_id": peer.HostID, "control_url": peer.URL + "/api/v1", "provider": "tcp",
			"local_fabric_addr": "127.0.0.1", "remote_fabric_addr": "127.0.0.1",
		}})
		if err != nil {
			return err
		}
		own.environment["PEERS"] = string(peers)
		own.environment["NMOS_REGISTRY_ADDRESS"] = "127.0.0.1"
		own.environment["NMOS_REGISTRY_PORT"] = strconv.Itoa(m.NMOS.RegistryPort())
		own.environment["NMOS_QUERY_PORT"] = strconv.Itoa(m.NMOS.QueryPort())
		for key, value := range o.Environment {
			own.environment[key] = value
		}
	}
	return nil
}

// Run starts one of the built programs beside the agents.
func (m *Mesh) Run(name, program string, args ...string) (*Process, error) {
	return m.RunThrough(nil, name, program, args...)
}

// RunThrough is Run with a command that runs the program in its own process, as
// [Agent.Through].
func (m *Mesh) RunThrough(through []string, name, program string, args ...string) (*Process, error) {
	command := append(append(slices.Clone(through), m.program(program)), args...)
	p, err := startProcess(m.Logs, name, nil, command[0], command[1:]...)
	if err == nil {
		m.processes = append(m.processes, p)
	}
	return p, err
}

func (m *Mesh) program(name string) string { return filepath.Join(m.binaries, name) }

// Close ends every process, the last one first, and removes what is on
// /dev/shm.
func (m *Mesh) Close() {
	for i := len(m.processes) - 1; i >= 0; i-- {
		m.processes[i].Stop(15 * time.Second)
	}
	if m.NMOS != nil {
		m.NMOS.Close()
	}
	m.client.CloseIdleConnections()
	_ = os.RemoveAll(m.Shm)
}

// Eventually polls a condition until it gives no error; after the limit it
// returns the last error with what was waited for.
func Eventually(ctx context.Context, limit time.Duration, what string, condition func() error) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	poll := time.NewTicker(50 * time.Millisecond)
	defer poll.Stop()
	for {
		err := condition()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s: not within %v: %w", what, limit, err)
		case <-poll.C:
		}
	}
}
