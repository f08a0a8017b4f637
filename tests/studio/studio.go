// Package studio is a plant of three hosts at work: every host writes four flows
// (video, video, audio, data), two for each of the others, and every first one
// of them for both, over different local addresses. A witness verifies each of
// the fifteen paths from an origin to a mirror, all the time.
package studio

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/mxl-stack/mxl-fabrics-agent/tests/mesh"
	"github.com/mxl-stack/mxl-fabrics-agent/tests/plant"
	"github.com/mxl-stack/mxl-fabrics-agent/tests/witness"
)

// Options describes a studio.
type Options struct {
	Binaries string // directory of the built programs
	Logs     string // directory for logs, emptied first
	Switched bool   // a switch and FABRIC_INTERFACE instead of a cable for each pair
	// Environment is for all agents.
	Environment map[string]string
}

// receivers of each host: five for the studio's own paths, the rest for guests.
const receivers = 10

// Flow is a flow that a host writes.
type Flow struct {
	mesh.Flow
	From     *plant.Host
	Discrete bool
	Writer   *mesh.Process
}

// Path is a flow's way to one host, with its witness.
type Path struct {
	*witness.Witness
	Flow *Flow
	From *plant.Host
	To   *plant.Host

	receiver int
	stop     context.CancelFunc
	ended    chan struct{}
}

// Studio is the plant with what runs in it.
type Studio struct {
	*plant.Plant
	Flows []*Flow

	ctx   context.Context
	mu    sync.Mutex
	paths []*Path
	free  map[*plant.Host][]int // receivers
}

// Essence is what mxl-pattern writes. Every ring holds four seconds, so that neither
// an agent nor a witness that is late on a busy machine misses anything.
type Essence struct {
	Name     string
	Discrete bool
	Options  []string
}

// The essences of a studio's flows, small and at 25 a second, so that all of them fit
// a small machine: it is the number and the timing that count here.
var (
	Video = Essence{"video", true, []string{"--format", "v210", "--width", "320", "--height", "36", "--rate", "25", "--history-ms", "4000"}}
	Audio = Essence{"audio", false, []string{"--format", "audio", "--channels", "2", "--batch", "480", "--history-ms", "4000"}}
	Data  = Essence{"data", true, []string{"--format", "smpte291", "--rate", "25", "--history-ms", "4000"}}
)

// Open builds the plant, starts everything in it and waits until every path
// carries verified grains.
func Open(ctx context.Context, o Options) (*Studio, error) {
	p, err := plant.New(plant.Options{Binaries: o.Binaries, Logs: o.Logs, Switched: o.Switched, ControlURLs: !o.Switched,
		Receivers: receivers, Environment: o.Environment})
	if err != nil {
		return nil, err
	}
	s := &Studio{Plant: p, ctx: ctx, free: map[*plant.Host][]int{}}
	if err := s.fill(ctx); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

func (s *Studio) fill(ctx context.Context) error {
	if err := s.Start(ctx); err != nil {
		return err
	}
	for _, h := range s.Hosts {
		for i := range receivers {
			s.free[h] = append(s.free[h], i)
		}
	}
	for i, from := range s.Hosts {
		next, other := s.Hosts[(i+1)%len(s.Hosts)], s.Hosts[(i+2)%len(s.Hosts)]
		for _, planned := range []struct {
			essence Essence
			to      []*plant.Host
		}{
			{Video, []*plant.Host{next, other}}, {Audio, []*plant.Host{next}},
			{Video, []*plant.Host{other}}, {Data, []*plant.Host{other}},
		} {
			f, err := s.Add(from, domainOf(i), planned.essence)
			if err != nil {
				return err
			}
			s.Flows = append(s.Flows, f)
			for _, to := range planned.to {
				if _, err := s.Send(ctx, f, to); err != nil {
					return err
				}
			}
		}
	}
	return s.Steady(ctx, 60*time.Second)
}

// domainOf is the id of the domain that a host's flows are in.
func domainOf(number int) string {
	return fmt.Sprintf("5f4c1d2e-7a3b-4c6d-9e8f-0a1b2c3d5e%02x", number)
}

// Add starts a writer of a new flow at a host.
func (s *Studio) Add(from *plant.Host, domainID string, e Essence) (*Flow, error) {
	f := &Flow{From: from, Discrete: e.Discrete, Flow: mesh.Flow{
		DomainID: domainID, ID: uuid.NewString(), Domain: "studio-" + domainID[len(domainID)-4:], Options: e.Options}}
	f.Name = fmt.Sprintf("%s-%s", e.Name, f.ID[:4])
	return f, f.Write()
}

// Write starts the flow's writer.
func (f *Flow) Write() (err error) {
	f.Writer, err = f.From.Write(f.Flow)
	return err
}

// Directory is the directory of the flow at its origin.
func (f *Flow) Directory() string { return filepath.Join(f.DomainDirectory(f.From), f.ID+".mxl-flow") }

// DomainDirectory is where a host that writes the flow has its domain.
func (f *Flow) DomainDirectory(at *plant.Host) string { return filepath.Join(at.Root, f.Domain) }

// Send points a receiver of a host at the flow and has a witness look at what
// arrives.
func (s *Studio) Send(ctx context.Context, f *Flow, to *plant.Host) (*Path, error) {
	s.mu.Lock()
	if len(s.free[to]) == 0 {
		s.mu.Unlock()
		return nil, fmt.Errorf("%s has no receiver left", to.HostID)
	}
	p := &Path{Flow: f, From: f.From, To: to, receiver: s.free[to][0], ended: make(chan struct{})}
	s.free[to] = s.free[to][1:]
	s.mu.Unlock()
	p.Witness = witness.New(witness.Path{Name: f.Name + " " + f.From.HostID + " to " + to.HostID, FlowID: uuid.MustParse(f.ID),
		Origin: f.DomainDirectory(f.From), Mirror: to.MirrorDomain(f.DomainID), Discrete: f.Discrete})
	watching, stop := context.WithCancel(s.ctx)
	p.stop = stop
	go func() {
		defer close(p.ended)
		p.Run(watching)
	}()
	s.mu.Lock()
	s.paths = append(s.paths, p)
	s.mu.Unlock()
	return p, to.Connect(ctx, p.receiver, f.Flow)
}

// Unsend takes a path away again.
func (s *Studio) Unsend(ctx context.Context, p *Path) error {
	p.stop()
	<-p.ended
	s.mu.Lock()
	kept := make([]*Path, 0, len(s.paths))
	for _, other := range s.paths {
		if other != p {
			kept = append(kept, other)
		}
	}
	s.paths = kept
	s.free[p.To] = append(s.free[p.To], p.receiver)
	s.mu.Unlock()
	return p.To.Disconnect(ctx, p.receiver)
}

// Paths lists the paths there are now.
func (s *Studio) Paths() []*Path {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]*Path(nil), s.paths...)
}

// Steady waits until every agent is ready and every path has carried something
// new since the call.
func (s *Studio) Steady(ctx context.Context, limit time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for _, h := range s.Hosts {
		if err := h.Ready(ctx, limit); err != nil {
			return err
		}
	}
	for _, p := range s.Paths() {
		select {
		case <-p.News():
		case <-ctx.Done():
			row, err := p.To.Replication(context.WithoutCancel(ctx), p.Flow.ID)
			return fmt.Errorf("nothing arrives on %s within %v: %s, last error %q, %d transfers (%v), witness %+v", p.Name, limit,
				row.State, row.LastError, row.Grains, err, p.Seen())
		}
	}
	return nil
}

// Repair starts again what a test that went wrong left dead: registry, agents,
// writers.
func (s *Studio) Repair(ctx context.Context) error {
	if !s.Registry.Running() {
		if err := s.StartRegistry(ctx); err != nil {
			return err
		}
	}
	for _, h := range s.Hosts {
		if !h.Running() {
			if err := h.Launch(""); err != nil {
				return err
			}
		}
	}
	for _, f := range s.Flows {
		if !f.Writer.Running() {
			if err := errors.Join(os.RemoveAll(f.Directory()), f.Write()); err != nil {
				return err
			}
		}
	}
	return nil
}

// Close ends everything.
func (s *Studio) Close() error {
	for _, p := range s.Paths() {
		p.stop()
		<-p.ended
	}
	return s.Plant.Close()
}
