package nmosstandin

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/google/uuid"
)

// Options describes a stand-in. The zero value is a registry and one media
// node with one receiver, on free ports of 127.0.0.1.
type Options struct {
	Host         string // listen address; default 127.0.0.1
	RegistryPort int    // Registration API; 0: free
	QueryPort    int    // Query API and its WebSockets; 0: free
	ControlPort  int    // control endpoints that outlive the registry; 0: free
	Nodes        []NodeOptions
	// Registration is the origin of another Registration API, at which the media
	// nodes register; empty: the stand-in's own.
	Registration string
	// NoNodes leaves Nodes empty instead of making one.
	NoNodes bool
	// ListSelf registers a node of the registry's own, as nmos-cpp does.
	ListSelf bool

	NodeExpiry         time.Duration // without heartbeat; default 12 s
	SubscriptionExpiry time.Duration // without socket; default 12 s
	Heartbeat          time.Duration // of the stand-in's own nodes; default 5 s
	PageLimit          int           // default page; default 10
	PageMaximum        int           // largest page; default 100

	Log *slog.Logger // default: discarded
}

func (o *Options) setDefaults() {
	if o.Host == "" {
		o.Host = "127.0.0.1"
	}
	if o.NodeExpiry == 0 {
		o.NodeExpiry = 12 * time.Second
	}
	if o.SubscriptionExpiry == 0 {
		o.SubscriptionExpiry = 12 * time.Second
	}
	if o.Heartbeat == 0 {
		o.Heartbeat = 5 * time.Second
	}
	if o.PageLimit == 0 {
		o.PageLimit = 10
	}
	if o.PageMaximum == 0 {
		o.PageMaximum = 100
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if len(o.Nodes) == 0 && !o.NoNodes {
		o.Nodes = []NodeOptions{{}}
	}
}

// StandIn is a running registry with its media nodes.
type StandIn struct {
	options  Options
	faults   *faultTable
	counted  *ledger
	registry *registry
	nodes    []*Node
	client   *http.Client

	registration *server
	query        *server
	control      *server

	cancel context.CancelFunc
	lapses sync.WaitGroup
}

// Start listens everywhere, registers the media nodes in the background and
// returns. Close ends all of it.
func Start(options Options) (*StandIn, error) {
	options.setDefaults()
	s := &StandIn{options: options, faults: newFaultTable(), counted: newLedger(),
		client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 16}}}
	s.registry = newRegistry(options, s.faults, s.counted)
	s.registry.queryURL = s.QueryURL

	control := http.HandlerFunc(s.serveControl)
	registration := api("registry", s.faults, s.counted, s.registry.registration)
	query := api("query", s.faults, s.counted, s.registry.query)
	s.registration = newServer("registry", options.Host, options.RegistryPort, beside(control, registration))
	s.query = newServer("query", options.Host, options.QueryPort, beside(control,
		http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if !s.registry.stream(w, r) {
				query.ServeHTTP(w, r)
			}
		})))
	s.control = newServer("control", options.Host, options.ControlPort, control)

	ctx, cancel := context.WithCancel(context.Background())
	s.cancel = cancel
	for _, listening := range []*server{s.control, s.registration, s.query} {
		if err := listening.open(); err != nil {
			s.Close()
			return nil, err
		}
	}
	s.listSelf()
	for i, nodeOptions := range options.Nodes {
		n := newNode(s, i+1, nodeOptions)
		if err := n.start(ctx); err != nil {
			s.Close()
			return nil, fmt.Errorf("media node %d: %w", i+1, err)
		}
		s.nodes = append(s.nodes, n)
	}
	s.lapses.Go(func() {
		tick := time.NewTicker(500 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case now := <-tick.C:
				s.registry.lapse(now)
			case <-ctx.Done():
				return
			}
		}
	})
	return s, nil
}

// beside serves the NMOS APIs below /x-nmos and the control endpoints elsewhere.
func beside(control, nmos http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if parts, ok := segments(r.URL.Path, ""); ok && len(parts) > 0 && parts[0] == "x-nmos" {
			nmos.ServeHTTP(w, r)
			return
		}
		control.ServeHTTP(w, r)
	})
}

// Close ends everything and waits for it.
func (s *StandIn) Close() {
	s.cancel()
	_ = s.faults.set(Faults{})
	for _, n := range s.nodes {
		n.stop()
	}
	s.StopRegistry()
	s.control.close()
	s.lapses.Wait()
	s.client.CloseIdleConnections()
}

// StopRegistry closes the Registration and the Query API with every connection
// and WebSocket. The media nodes live on.
func (s *StandIn) StopRegistry() {
	s.registry.stop()
	s.registration.close()
	s.query.close()
	s.registry.dropSockets(true)
	s.options.Log.Info("registry_stopped")
}

// StartRegistry opens the registry again on its ports, empty: it knows no
// resource and no subscription.
func (s *StandIn) StartRegistry() error {
	s.StopRegistry()
	s.registry.empty()
	if err := s.registration.open(); err != nil {
		return err
	}
	if err := s.query.open(); err != nil {
		return err
	}
	s.listSelf()
	s.options.Log.Info("registry_started")
	return nil
}

// DropSockets breaks every Query API WebSocket without a close frame.
func (s *StandIn) DropSockets() { s.registry.dropSockets(false) }

// SetFaults replaces the faults in force; requests that hang go on.
func (s *StandIn) SetFaults(f Faults) error { return s.faults.set(f) }

// Faults are the faults in force.
func (s *StandIn) Faults() Faults { return s.faults.current() }

// Nodes lists the media nodes.
func (s *StandIn) Nodes() []*Node { return append([]*Node(nil), s.nodes...) }

// Receivers lists the receivers of all media nodes, node by node.
func (s *StandIn) Receivers() (all []*Receiver) {
	for _, n := range s.nodes {
		all = append(all, n.receivers...)
	}
	return all
}

// Registered lists the registered nodes that are not the stand-in's own.
func (s *StandIn) Registered() []json.RawMessage { return s.registry.foreign(s.owns) }

// Deleted lists the paths of DELETE requests to the Registration API.
func (s *StandIn) Deleted() []string { return s.registry.deletions() }

// Stats is what was asked so far.
func (s *StandIn) Stats() Stats { return s.counted.snapshot() }

// ResetStats starts counting anew.
func (s *StandIn) ResetStats() { s.counted.reset() }

// RegistryURL, QueryURL and ControlURL have no path and no trailing slash.
func (s *StandIn) RegistryURL() string { return s.url(s.registration) }

// QueryURL is the origin of the Query API.
func (s *StandIn) QueryURL() string { return s.url(s.query) }

// ControlURL is the origin of the control endpoints.
func (s *StandIn) ControlURL() string { return s.url(s.control) }

// RegistryPort is the port of the Registration API.
func (s *StandIn) RegistryPort() int { return s.registration.port() }

// QueryPort is the port of the Query API.
func (s *StandIn) QueryPort() int { return s.query.port() }

func (s *StandIn) url(of *server) string {
	return "http://" + net.JoinHostPort(s.options.Host, strconv.Itoa(of.port()))
}

func (s *StandIn) owns(id string) bool {
	for _, n := range s.nodes {
		if n.ID == id {
			return true
		}
	}
	return false
}

// listSelf registers the registry as a node that never expires.
func (s *StandIn) listSelf() {
	if !s.options.ListSelf {
		return
	}
	r := s.registry
	r.mu.Lock()
	defer r.mu.Unlock()
	r.self = uuid.NewSHA1(seed, []byte("registry")).String()
	now := time.Now()
	doc := map[string]any{
		"id": r.self, "version": stampOf(now).String(), "label": "test registry", "description": "",
		"tags": map[string]any{}, "href": s.QueryURL() + "/", "hostname": "registry.test", "caps": map[string]any{},
		"api": map[string]any{"versions": []any{"v1.3"}, "endpoints": []any{
			map[string]any{"host": s.options.Host, "port": float64(s.QueryPort()), "protocol": "http"}}},
		"services": []any{map[string]any{"href": s.QueryURL() + "/x-dns-sd/v1.0", "type": "urn:x-dns-sd/v1.0"}},
		"clocks":   []any{}, "interfaces": []any{},
	}
	if _, _, err := r.store.put(nodes, doc, now); err != nil {
		s.options.Log.Error("registry_node_refused", "error", err.Error())
	}
}
