package plant

import (
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mxl-stack/mxl-fabrics-agent/mxl"
	"github.com/mxl-stack/mxl-fabrics-agent/tests/mesh"
	"github.com/mxl-stack/mxl-fabrics-agent/tests/nmosstandin"
)

// Ports of the programs of every host, which has all of them to itself.
const (
	WebPort      = 8095 // the agent's
	NodePort     = 8080 // the media node's
	RegistryPort = 3210
	QueryPort    = 3211
	controlPort  = 3219 // of the stand-in that is the registry
)

// Host is one host of a plant. Its agent is started by Start and has the whole
// of [mesh.Agent]: Signal, Stop, Get, Metric, Logged, Events.
type Host struct {
	*mesh.Agent
	Control *Cable     // of the control network, one end
	Address netip.Addr // in the control network

	// Node is the host's media node, whose receivers Connect points at flows.
	// It lives until it is stopped, the registry's end does not end it.
	Node *mesh.Process

	number    int
	namespace *namespace
	plant     *Plant
	node      nmosstandin.NodeAddress
	own       []*mesh.Process
	files     int // names of log files
}

// Inside runs f on a thread inside the host's network namespace: sockets that it
// opens are the host's, listeners too.
func (h *Host) Inside(f func() error) error { return h.namespace.do(f) }

// mount gives the host an MXL root on a tmpfs of its own.
func (h *Host) mount(root string, megabytes int) error {
	if err := os.MkdirAll(root, 0o755); err != nil {
		return err
	}
	if err := unix.Mount(mountName(os.Getpid()), root, "tmpfs", 0, "mode=755,size="+strconv.Itoa(megabytes)+"m"); err != nil {
		return fmt.Errorf("tmpfs at %s: %w", root, err)
	}
	return nil
}

// Run starts one of the built programs at the host.
func (h *Host) Run(name, program string, args ...string) (*mesh.Process, error) {
	h.files++
	name = fmt.Sprintf("%s-%s-%d", h.HostID, name, h.files)
	p, err := h.plant.mesh.RunThrough(h.namespace.through(), name, program, args...)
	if err == nil {
		h.own = append(h.own, p)
	}
	return p, err
}

// Write starts a writer of the flow at the host; it goes on until it is stopped.
func (h *Host) Write(f mesh.Flow) (*mesh.Process, error) {
	return h.Run("write-"+f.Name, "mxl-pattern", f.WriteArguments(h.Agent)...)
}

// Read starts a reader that verifies the host's mirror of the flow for a time,
// counted from its first grain; see [mesh.Result] with [mesh.Totals].
func (h *Host) Read(f mesh.Flow, duration time.Duration) (*mesh.Process, error) {
	return h.Run("read-"+f.Name, "mxl-pattern", f.ReadArguments(h.Agent, duration)...)
}

// OpenMirror opens the host's mirror of a discrete flow for reading.
func (h *Host) OpenMirror(f mesh.Flow) (*mxl.DiscreteReader, error) {
	return h.plant.mesh.OpenMirror(h.Agent, f)
}

// Flowing waits until the host shows the flow's replication as active with
// something transferred.
func (h *Host) Flowing(ctx context.Context, f mesh.Flow, limit time.Duration) error {
	return mesh.Eventually(ctx, limit, "flow "+f.Name+" arrives at "+h.HostID, func() error {
		row, err := h.Replication(ctx, f.ID)
		if err != nil {
			return err
		}
		if row.State != "active" || row.Grains == 0 {
			return fmt.Errorf("replication is %s with %d transfers, last error %q", row.State, row.Grains, row.LastError)
		}
		return nil
	})
}

// Connect points a receiver of the host's media node (by number) at the flow
// over IS-05, as a controller does.
func (h *Host) Connect(ctx context.Context, receiver int, f mesh.Flow) error {
	return h.activate(ctx, receiver, &f)
}

// Disconnect disables a receiver of the host's media node.
func (h *Host) Disconnect(ctx context.Context, receiver int) error {
	return h.activate(ctx, receiver, nil)
}

func (h *Host) activate(ctx context.Context, receiver int, f *mesh.Flow) error {
	if receiver < 0 || receiver >= len(h.node.Receivers) {
		return fmt.Errorf("%s has no receiver %d, its media node has %d", h.HostID, receiver, len(h.node.Receivers))
	}
	return mesh.Activate(ctx, h.namespace.client, h.node.URL, h.node.Receivers[receiver], f)
}

// StartNode starts the host's media node.
func (h *Host) StartNode(ctx context.Context) (err error) {
	h.Node, err = h.Run("media-node", "nmos-standin", "--host", h.Address.String(), "--node-port", strconv.Itoa(NodePort),
		"--node-ids", fmt.Sprintf("6e6d6f73-7374-4e64-a96e-0000000001%02x", h.number), "--receivers", strconv.Itoa(h.plant.options.Receivers),
		"--registration", h.plant.RegistryURL(), "--list-self=false")
	if err != nil {
		return err
	}
	found, err := addresses(ctx, h.Node)
	if err != nil {
		return err
	}
	h.node = found.Nodes[0]
	return nil
}

// addresses waits for the line that a stand-in prints when it listens.
func addresses(ctx context.Context, p *mesh.Process) (a nmosstandin.Addresses, err error) {
	err = mesh.Eventually(ctx, 10*time.Second, p.Name+" listens", func() error {
		if !p.Running() {
			return fmt.Errorf("ended with code %d, see %s", p.ExitCode(), p.Log)
		}
		return json.Unmarshal(p.Output(), &a)
	})
	return a, err
}

// wake lets everything of the host go on that was stopped with SIGSTOP.
func (h *Host) wake() {
	for _, p := range append(h.own, h.Process) {
		if p != nil {
			p.Signal(syscall.SIGCONT)
		}
	}
}

// environment is the configuration of the host's agent without its peers.
func (h *Host) environment(root string) (map[string]string, error) {
	state := filepath.Join(h.plant.mesh.Logs, "state-"+h.plant.options.Hosts[h.number])
	if err := os.MkdirAll(state, 0o755); err != nil {
		return nil, err
	}
	return map[string]string{
		"HOST_ID":               h.plant.options.Hosts[h.number],
		"MXL_DOMAIN_SCAN_PATH":  root,
		"STATE_DIR":             state,
		"WEB_PORT":              strconv.Itoa(WebPort),
		"NMOS_HOST_ADDRESS":     h.Address.String(),
		"NMOS_REGISTRY_ADDRESS": controlBridge.Addr().String(),
		"NMOS_REGISTRY_PORT":    strconv.Itoa(RegistryPort),
		"NMOS_QUERY_PORT":       strconv.Itoa(QueryPort),
		"DEFAULT_PROVIDER":      "tcp",
		"TMPFS_RESERVE_MB":      "16",
	}, nil
}
