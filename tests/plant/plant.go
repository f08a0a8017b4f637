package plant

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mxl-stack/mxl-fabrics-agent/tests/mesh"
)

// Options describes a plant.
type Options struct {
	Binaries string // directory of the built programs
	Logs     string // directory for logs, emptied first

	Hosts       []string          // host ids; default node-a, node-b, node-c
	Switched    bool              // one fabric bridge and FABRIC_INTERFACE instead of a cable for each pair
	ControlURLs bool              // name the peers' control_url; otherwise the registry tells it
	Receivers   int               // of each host's media node; default 4
	TmpfsMB     int               // size of each MXL root; default 256
	Environment map[string]string // for all agents
}

// Plant is hosts, cables and a registry.
type Plant struct {
	Hosts []*Host
	// Registry is the registry's process, which has no media node.
	Registry *mesh.Process

	options Options
	prefix  string // of the namespaces' names
	mesh    *mesh.Mesh
	wall    *namespace
	cables  map[[2]int]*Cable // by host numbers, the smaller first; with a switch {n, n}
}

// ErrNotRoot says that network namespaces and mounts are not to be had.
var ErrNotRoot = errors.New("a plant of network namespaces takes root")

var (
	controlBridge = netip.MustParsePrefix("203.0.113.254/24")
	controlNet    = netip.MustParsePrefix("203.0.113.0/24")
)

const mostHosts = 32

// New builds the plant without starting anything in it.
func New(o Options) (*Plant, error) {
	if os.Geteuid() != 0 {
		return nil, fmt.Errorf("%w, and this is user %d", ErrNotRoot, os.Geteuid())
	}
	if len(o.Hosts) == 0 {
		o.Hosts = []string{"node-a", "node-b", "node-c"}
	}
	if len(o.Hosts) > mostHosts {
		return nil, fmt.Errorf("%d hosts are more than %d", len(o.Hosts), mostHosts)
	}
	o.Receivers, o.TmpfsMB = cmp.Or(o.Receivers, 4), cmp.Or(o.TmpfsMB, 256)
	sweep()
	m, err := mesh.Bare(mesh.Options{Binaries: o.Binaries, Logs: o.Logs})
	if err != nil {
		return nil, err
	}
	p := &Plant{options: o, mesh: m, cables: map[[2]int]*Cable{}}
	if err := p.build(); err != nil {
		return nil, errors.Join(err, p.Close())
	}
	return p, nil
}

func (p *Plant) build() (err error) {
	if err := p.begin(); err != nil {
		return err
	}
	if err := p.wall.bridge("control"); err != nil {
		return err
	}
	if err := p.wall.addressOf("control", controlBridge); err != nil {
		return err
	}
	for i, id := range p.options.Hosts {
		h := &Host{number: i, plant: p, Address: nth(controlNet, i+1).Addr()}
		if h.namespace, err = newNamespace(p.prefix + id); err != nil {
			return err
		}
		p.Hosts = append(p.Hosts, h)
		end, err := lay(h.namespace, "control", netip.PrefixFrom(h.Address, controlNet.Bits()), p.wall, "control", "control"+strconv.Itoa(i))
		if err != nil {
			return err
		}
		h.Control = &Cable{Ends: []*End{end}}
		if err := h.mount(filepath.Join(p.mesh.Shm, id), p.options.TmpfsMB); err != nil {
			return err
		}
	}
	if p.options.Switched {
		err = p.buildSwitch()
	} else {
		err = p.buildMesh()
	}
	if err != nil {
		return err
	}
	for _, h := range p.Hosts {
		if err := p.place(h); err != nil {
			return err
		}
	}
	return nil
}

// begin takes the first name that no other plant of this process has.
func (p *Plant) begin() (err error) {
	const plantsAtOnce = 16
	for n := range plantsAtOnce {
		p.prefix = namePrefix(os.Getpid()) + strconv.Itoa(n) + "-"
		if p.wall, err = newNamespace(p.prefix + "wall"); err == nil {
			return nil
		}
	}
	return err
}

// buildSwitch connects every host to one bridge.
func (p *Plant) buildSwitch() error {
	if err := p.wall.bridge("fabric"); err != nil {
		return err
	}
	for i, h := range p.Hosts {
		end, err := lay(h.namespace, "fabric0", nth(linkNet(0), i+1), p.wall, "fabric", "fabric"+strconv.Itoa(i))
		if err != nil {
			return err
		}
		p.cables[[2]int{i, i}] = &Cable{Ends: []*End{end}}
	}
	return nil
}

// buildMesh lays a cable between every two hosts.
func (p *Plant) buildMesh() error {
	for i, a := range p.Hosts {
		for j := i + 1; j < len(p.Hosts); j++ {
			b, number := p.Hosts[j], len(p.cables)
			name := "cable" + strconv.Itoa(number)
			if err := p.wall.bridge(name); err != nil {
				return err
			}
			near, err := lay(a.namespace, deviceTo(p.options.Hosts[j]), nth(linkNet(number), i+1), p.wall, name, name+"a")
			if err != nil {
				return err
			}
			far, err := lay(b.namespace, deviceTo(p.options.Hosts[i]), nth(linkNet(number), j+1), p.wall, name, name+"b")
			if err != nil {
				return err
			}
			p.cables[[2]int{i, j}] = &Cable{Ends: []*End{near, far}}
		}
	}
	return nil
}

// place prepares a host's agent.
func (p *Plant) place(h *Host) error {
	id := p.options.Hosts[h.number]
	environment, err := h.environment(filepath.Join(p.mesh.Shm, id))
	if err != nil {
		return err
	}
	var peers []map[string]string
	for i, other := range p.Hosts {
		if i == h.number {
			continue
		}
		peer := map[string]string{"host_id": p.options.Hosts[i], "provider": "tcp"}
		if p.options.ControlURLs {
			peer["control_url"] = agentURL(other) + "/api/v1"
		}
		if !p.options.Switched {
			cable := p.cables[[2]int{min(i, h.number), max(i, h.number)}]
			own, far := cable.Ends[0], cable.Ends[1]
			if i < h.number {
				own, far = far, own
			}
			peer["local_fabric_addr"], peer["remote_fabric_addr"] = own.Prefix.Addr().String(), far.Prefix.Addr().String()
		}
		peers = append(peers, peer)
	}
	text, err := json.Marshal(peers)
	if err != nil {
		return err
	}
	environment["PEERS"] = string(text)
	if p.options.Switched {
		environment["FABRIC_INTERFACE"] = p.cables[[2]int{h.number, h.number}].Ends[0].Prefix.Addr().String()
	}
	for key, value := range p.options.Environment {
		environment[key] = value
	}
	h.Agent = p.mesh.Place(agentURL(h), h.namespace.through(), h.namespace.client, environment)
	return nil
}

func agentURL(h *Host) string { return "http://" + h.Address.String() + ":" + strconv.Itoa(WebPort) }

// deviceTo names the device of the cable to a host; a device's name has at most
// 15 characters.
func deviceTo(host string) string {
	name := "to-" + host
	return name[:min(len(name), 15)]
}

// linkNet is the network of a link: the contract's example first.
func linkNet(number int) netip.Prefix {
	switch number {
	case 0:
		return netip.MustParsePrefix("192.0.2.0/24")
	case 1:
		return netip.MustParsePrefix("198.51.100.0/24")
	}
	return netip.PrefixFrom(netip.AddrFrom4([4]byte{198, 18 + byte(number>>8), byte(number), 0}), 24)
}

// nth is the n-th address of a network of 256, with its prefix length.
func nth(network netip.Prefix, n int) netip.Prefix {
	a := network.Addr().As4()
	a[3] = byte(n)
	return netip.PrefixFrom(netip.AddrFrom4(a), network.Bits())
}

// Cable is the cable between two hosts; in a switched plant the one of host a to
// the switch, whatever b is. Nil when there is none.
func (p *Plant) Cable(a, b *Host) *Cable {
	if p.options.Switched {
		return p.cables[[2]int{a.number, a.number}]
	}
	return p.cables[[2]int{min(a.number, b.number), max(a.number, b.number)}]
}

// End is the end of the cable towards another host at h.
func (h *Host) End(to *Host) *End {
	ends := h.plant.Cable(h, to).Ends
	if !h.plant.options.Switched && h.number > to.number {
		return ends[1]
	}
	return ends[0]
}

// Host finds a host by its id; nil when there is none.
func (p *Plant) Host(id string) *Host {
	for _, h := range p.Hosts {
		if h.HostID == id {
			return h
		}
	}
	return nil
}

// Start starts registry, media nodes and agents, and waits until all are ready.
func (p *Plant) Start(ctx context.Context) error {
	if err := p.StartRegistry(ctx); err != nil {
		return err
	}
	for _, h := range p.Hosts {
		if err := h.StartNode(ctx); err != nil {
			return err
		}
		if err := h.Launch(""); err != nil {
			return err
		}
	}
	for _, h := range p.Hosts {
		if err := h.Ready(ctx, 30*time.Second); err != nil {
			return err
		}
	}
	return nil
}

// StartRegistry starts the registry, which knows nothing then.
func (p *Plant) StartRegistry(ctx context.Context) (err error) {
	p.Registry, err = p.mesh.RunThrough(p.wall.through(), "registry", "nmos-standin", "--host", controlBridge.Addr().String(),
		"--nodes", "0", "--registry-port", strconv.Itoa(RegistryPort), "--query-port", strconv.Itoa(QueryPort), "--control-port", strconv.Itoa(controlPort))
	if err != nil {
		return err
	}
	_, err = addresses(ctx, p.Registry)
	return err
}

// RegistryURL is the origin of the Registration API.
func (p *Plant) RegistryURL() string {
	return "http://" + controlBridge.Addr().String() + ":" + strconv.Itoa(RegistryPort)
}

// RegistryControl makes a request of the registry's control endpoints (package
// nmosstandin): faults, statistics, stop and start.
func (p *Plant) RegistryControl(ctx context.Context, method, path string, body any) (int, []byte, error) {
	content, err := json.Marshal(body)
	if err != nil {
		return 0, nil, err
	}
	if body == nil {
		content = nil
	}
	req, err := http.NewRequestWithContext(ctx, method, "http://"+controlBridge.Addr().String()+":"+strconv.Itoa(controlPort)+path, bytes.NewReader(content))
	if err != nil {
		return 0, nil, err
	}
	resp, err := p.wall.client.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	return resp.StatusCode, answer, err
}

// Logs is the directory of the log files.
func (p *Plant) Logs() string { return p.mesh.Logs }

// Close ends every process and takes all of it away. A second call does nothing.
func (p *Plant) Close() error {
	for _, h := range p.Hosts {
		if h.Agent != nil {
			h.wake()
		}
	}
	if p.Registry != nil {
		p.Registry.Signal(syscall.SIGCONT)
	}
	p.mesh.Close()
	var errs []error
	for i, h := range p.Hosts {
		errs = append(errs, h.namespace.close())
		root := filepath.Join(p.mesh.Shm, p.options.Hosts[i])
		if err := unix.Unmount(root, unix.MNT_DETACH); err != nil && !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.ENOENT) {
			errs = append(errs, fmt.Errorf("unmount %s: %w", root, err))
		}
	}
	p.Hosts = nil
	if p.wall != nil {
		errs = append(errs, p.wall.close())
		p.wall = nil
	}
	return errors.Join(append(errs, os.RemoveAll(p.mesh.Shm))...)
}
