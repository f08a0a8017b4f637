package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/mxl-stack/mxl-fabrics-agent/tests/plant"

	"github.com/mxl-stack/mxl-fabrics-agent/tests/mesh"
)

// manners is how a rogue answers a request.
type manners func(w http.ResponseWriter, r *http.Request, random *rand.Rand)

// rogue listens where a host's agent listened.
type rogue struct {
	server   *http.Server
	listener net.Listener
	mu       sync.Mutex
	asked    int
	random   *rand.Rand
	how      manners
}

// newRogue takes an agent's place at its port.
func newRogue(h *plant.Host, seed uint64, how manners) (*rogue, error) {
	g := &rogue{random: rand.New(rand.NewPCG(seed, 1)), how: how}
	err := h.Inside(func() (err error) {
		g.listener, err = net.Listen("tcp", net.JoinHostPort(h.Address.String(), strconv.Itoa(plant.WebPort)))
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("rogue at %s: %w", h.HostID, err)
	}
	g.server = &http.Server{Handler: g}
	go func() { _ = g.server.Serve(g.listener) }()
	return g, nil
}

func (g *rogue) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	g.mu.Lock()
	g.asked++
	random := rand.New(rand.NewPCG(g.random.Uint64(), 2))
	g.mu.Unlock()
	g.how(w, r, random)
}

// requests is how often the rogue was asked.
func (g *rogue) requests() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.asked
}

func (g *rogue) close() error { return g.server.Close() }

// garbage answers with bytes that are no JSON, JSON of the wrong shape, huge
// numbers and names that lead out of a directory, connections that break off.
func garbage(w http.ResponseWriter, r *http.Request, random *rand.Rand) {
	switch random.IntN(6) {
	case 0:
		noise := make([]byte, 1+random.IntN(64<<10))
		for i := range noise {
			noise[i] = byte(random.Uint32())
		}
		_, _ = w.Write(noise)
	case 1:
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprintf(w, "event: inventory\ndata: %d\n\nevent: \x00\ndata: %s\n\n", random.Uint64(), "{{{{")
	case 2:
		_, _ = io.WriteString(w, `{"domains": {"0": []}, "revision": "many", "host_id": [], "boot_id": {"a": null}}`)
	case 3:
		hostile(w)
	case 4:
		w.Header().Set("Content-Length", "100000")
		_, _ = io.WriteString(w, `{"revision": 1, "domains": [`)
		panic(http.ErrAbortHandler)
	case 5:
		w.WriteHeader(100 + 100*(1+random.IntN(5)))
		_, _ = io.WriteString(w, `{"error": 7}`)
	}
}

// hostile is a well-formed inventory of somebody with bad intentions.
func hostile(w io.Writer) {
	flow := map[string]any{
		"flow_id": "0d9f6c3a-2b71-4f5e-8a64-1c2d3e4fffff", "active": true, "live": true, "head_index": 1e30, "payload_size": -1, "ring_depth": 1 << 62,
		"flow_def": map[string]any{"id": "0d9f6c3a-2b71-4f5e-8a64-1c2d3e4fffff", "format": "urn:x-nmos:format:video", "media_type": "video/v210",
			"frame_width": 1 << 40, "frame_height": -3, "grain_rate": map[string]any{"numerator": 1 << 62, "denominator": 0}},
	}
	_ = json.NewEncoder(w).Encode(map[string]any{
		"boot_id": "rogue", "host_id": "node-a", "revision": 1,
		"domains": []any{
			map[string]any{"domain_id": "../../../../etc", "flows": []any{flow}, "path": "/etc", "options": map[string]any{"urn:x-mxl:option:history_duration/v1.0": 1e300}},
			map[string]any{"domain_id": "5f4c1d2e-7a3b-4c6d-9e8f-0a1b2c3dffff", "flows": []any{flow, flow, nil, 7}, "options": []int{1}},
			nil, "a domain",
		},
	})
}

// dripping answers, one byte at a time.
func dripping(w http.ResponseWriter, r *http.Request, _ *rand.Rand) {
	w.WriteHeader(http.StatusOK)
	flush := http.NewResponseController(w)
	for _, c := range []byte(`{"boot_id":"slow","host_id":"node-a","revision":1,"domains":[]}` + string(make([]byte, 100))) {
		if _, err := w.Write([]byte{c}); err != nil || flush.Flush() != nil {
			return
		}
		select {
		case <-r.Context().Done():
			return
		case <-time.After(500 * time.Millisecond):
		}
	}
}

// mute takes the request and never answers.
func mute(_ http.ResponseWriter, r *http.Request, _ *rand.Rand) { <-r.Context().Done() }

// The agents' port pool by default (FABRIC_PORT_BASE, FABRIC_PORT_COUNT). Each target
// takes the port after the last one's, so that all of them come into use.
const (
	firstFabricPort = 23500
	fabricPorts     = 100
)

// babble sends noise to every fabric port of a host that anybody listens at, from
// another host's namespace, until ctx ends; it tells how many connections it had.
func babble(ctx context.Context, from *plant.Host, address string, seed uint64) (connections int, err error) {
	random := rand.New(rand.NewPCG(seed, 3))
	for ctx.Err() == nil {
		for port := firstFabricPort; port < firstFabricPort+fabricPorts && ctx.Err() == nil; port++ {
			var conn net.Conn
			err := from.Inside(func() (err error) {
				conn, err = net.DialTimeout("tcp", net.JoinHostPort(address, strconv.Itoa(port)), time.Second)
				return err
			})
			if err != nil {
				continue
			}
			connections++
			noise := make([]byte, random.IntN(4096))
			for i := range noise {
				noise[i] = byte(random.Uint32())
			}
			_, _ = conn.Write(noise)
			if random.IntN(2) == 0 {
				_ = conn.(*net.TCPConn).SetLinger(0) // ends with a reset
			}
			_ = conn.Close()
		}
		_ = mesh.Pause(ctx, 50*time.Millisecond)
	}
	if connections == 0 {
		return 0, fmt.Errorf("no fabric port of %s answers", address)
	}
	return connections, nil
}
