package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mxl-stack/mxl-fabrics-agent/mxl"
	"github.com/mxl-stack/mxl-fabrics-agent/tests/measured"
)

// options make rings of one grain: a writer holds a descriptor for every grain of
// its ring, and the hard limit of open files is what ends a plant.
const options = `{"urn:x-mxl:option:history_duration/v1.0":40000000}`

// plant is one host that is measured, with what it writes, and its peers.
type plant struct {
	hosts   int
	root    string
	peers   *measured.Peers
	agent   *measured.Agent
	writers []*mxl.DiscreteWriter
	began   time.Time
}

func newPlant(program string, hosts int) (*plant, error) {
	root, err := os.MkdirTemp("/dev/shm", "mxl-scale-")
	if err != nil {
		return nil, err
	}
	p := &plant{hosts: hosts, root: root, began: time.Now()}
	// The local flows' files are held open here.
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err == nil {
		limit.Cur = limit.Max
		_ = unix.Setrlimit(unix.RLIMIT_NOFILE, &limit)
	}
	err = p.write(hosts * localPerHost)
	if err == nil {
		remote := hosts * (flowsPerHost - localPerHost)
		p.peers, err = measured.NewPeers(hosts, hosts, remote/hosts, options)
	}
	if err == nil {
		p.agent, err = measured.Launch(program, root, "build/scale", p.peers)
	}
	if err != nil {
		p.close()
		return nil, err
	}
	return p, nil
}

// write makes local domains of a hundred flows, each held by a writer. An open domain
// takes one of the 128 inotify instances of a user.
func (p *plant) write(flows int) error {
	const each = 100
	var d *mxl.Domain
	for f := range flows {
		dir := filepath.Join(p.root, fmt.Sprintf("local-%d", f/each))
		if f%each == 0 {
			if err := os.Mkdir(dir, 0o755); err != nil {
				return err
			}
			text := fmt.Sprintf(`{"id":%q}`, measured.ID("written", f/each, 0))
			if err := os.WriteFile(filepath.Join(dir, "domain_def.json"), []byte(text), 0o644); err != nil {
				return err
			}
			var err error
			if d, err = mxl.OpenDomain(dir); err != nil {
				return err
			}
		}
		w, _, err := d.CreateDiscreteWriter([]byte(measured.Definition(measured.ID("written", f/each, f+1))), mxl.FlowOptions{})
		if err != nil {
			return err
		}
		p.writers = append(p.writers, w)
	}
	return nil
}

func (p *plant) close() {
	if p.agent != nil {
		p.agent.Stop()
	}
	if p.peers != nil {
		p.peers.Close()
	}
	for _, w := range p.writers {
		w.Close()
	}
	_ = os.RemoveAll(p.root)
}

// cost is one figure of a plant.
type cost struct {
	name  string
	value float64
}

// growing are the costs that are held to the limit of growth. That of making all
// mirrors is not: it holds what the agent does while it waits for a busy machine.
var growing = []string{
	"scan_cpu_ms", "pass_cpu_ms", "steady_cpu_core_percent", "event_cpu_ms", "metrics_cpu_ms", "mirrors_cpu_ms", "inventory_cpu_ms",
}

// costs waits until everything is mirrored and measures.
func (p *plant) costs(ctx context.Context, steady time.Duration) ([]cost, error) {
	remote := p.hosts * (flowsPerHost - localPerHost)
	if err := p.agent.Mirrored(ctx, remote, 3*time.Minute); err != nil {
		return nil, err
	}
	setup, err := p.agent.CPUTime()
	if err != nil {
		return nil, err
	}
	out := []cost{{"setup_cpu_s", setup.Seconds()}, {"setup_s", time.Since(p.began).Seconds()}}
	streams, err := measured.OpenStreams(ctx, p.agent.URL, clients, 0)
	if err != nil {
		return nil, err
	}
	defer streams.Close()
	// New flows are looked at more often for five seconds.
	if err := measured.Pause(ctx, 6*time.Second); err != nil {
		return nil, err
	}
	core, list, err := p.idle(ctx, steady)
	if err != nil {
		return nil, err
	}
	out = append(out, list...)
	for _, doc := range []struct{ name, path string }{
		{"metrics", "/metrics"}, {"mirrors", "/api/v1/mirrors"}, {"inventory", "/api/v1/inventory"},
	} {
		value, err := p.perDeed(core, 40, func() error { _, err := p.agent.Get(ctx, doc.path); return err })
		if err != nil {
			return nil, err
		}
		out = append(out, cost{doc.name + "_cpu_ms", value})
	}
	change := 0
	value, err := p.perDeed(core, 20, func() error {
		change++
		return streams.Change(ctx, p.root, change)
	})
	if err != nil {
		return nil, err
	}
	rss, err := p.agent.ResidentMiB()
	return append(out, cost{"event_cpu_ms", value}, cost{"rss_mib", rss}), err
}

// idle gives the agent's share of a core while nothing but heads changes, and what a
// pass and a scan take of it.
func (p *plant) idle(ctx context.Context, span time.Duration) (float64, []cost, error) {
	before, err := p.agent.Work(ctx, "tick_cpu", "inventory_scan_cpu")
	if err != nil {
		return 0, nil, err
	}
	began := time.Now()
	used, err := p.agent.CPUTime()
	if err != nil {
		return 0, nil, err
	}
	if err := measured.Pause(ctx, span); err != nil {
		return 0, nil, err
	}
	usedAfter, err := p.agent.CPUTime()
	if err != nil {
		return 0, nil, err
	}
	core := (usedAfter - used).Seconds() / time.Since(began).Seconds()
	after, err := p.agent.Work(ctx, "tick_cpu", "inventory_scan_cpu")
	if err != nil {
		return 0, nil, err
	}
	_, pass := after[0].Since(before[0])
	_, scan := after[1].Since(before[1])
	return core, []cost{{"steady_cpu_core_percent", 100 * core}, {"pass_cpu_ms", pass}, {"scan_cpu_ms", scan}}, nil
}

// perDeed is the agent's processor time for one of several deeds that follow one
// another at once, in ms, without the share of a core that it uses when idle.
func (p *plant) perDeed(idle float64, times int, deed func() error) (float64, error) {
	began := time.Now()
	before, err := p.agent.CPUTime()
	if err != nil {
		return 0, err
	}
	for range times {
		if err := deed(); err != nil {
			return 0, err
		}
	}
	after, err := p.agent.CPUTime()
	used := after - before - time.Duration(idle*float64(time.Since(began)))
	return max(0, measured.Milliseconds(used)/float64(times)), err
}
