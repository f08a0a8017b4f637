package agent

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"sync"
	"time"

	"github.com/mxl-stack/mxl-fabrics-agent/agent/config"
	"github.com/mxl-stack/mxl-fabrics-agent/nmos"
)

// nmosSide is everything the agent runs towards NMOS.
type nmosSide struct {
	node         *nmos.Node
	listeners    *nmos.Listeners
	registration *nmos.Registration
	observer     *nmos.Observer
	browser      *nmos.Browser // nil without NMOS_DNS_SD
	configured   bool          // a Registration API is configured, or looked for
	observes     bool          // a Query API is
	port         int
	address      netip.Addr
	dnsSD        bool
	log          *slog.Logger
}

func newNMOSSide(cfg *config.Config, log *slog.Logger) (*nmosSide, error) {
	address, err := netip.ParseAddr(cfg.NMOSHostAddress)
	if err != nil {
		return nil, &config.Error{Key: "NMOS_HOST_ADDRESS", Value: cfg.NMOSHostAddress, Err: fmt.Errorf("not an address, and this host has no IPv4 address to announce: %w", err)}
	}
	n := &nmosSide{port: cfg.NMOSPort, address: address, dnsSD: cfg.NMOSDNSSD, log: log}
	n.node, err = nmos.NewNode(nmos.NodeConfig{
		HostID: cfg.HostID, Seed: cfg.NMOSSeed, Label: cfg.NMOSLabel, Tags: cfg.NMOSTags,
		HostAddress: address, Port: cfg.NMOSPort, WebPort: cfg.WebPort,
	})
	if err != nil {
		return nil, err
	}
	var directory nmos.StaticDirectory
	if cfg.NMOSRegistryAddress != "" {
		n.configured = true
		registry, err := nmos.BaseURL(cfg.NMOSRegistryAddress, cfg.NMOSRegistryPort)
		if err != nil {
			return nil, &config.Error{Key: "NMOS_REGISTRY_ADDRESS", Value: cfg.NMOSRegistryAddress, Err: err}
		}
		directory.Registration = []string{registry}
	}
	if cfg.NMOSQueryAddress != "" {
		query, err := nmos.BaseURL(cfg.NMOSQueryAddress, cfg.NMOSQueryPort)
		if err != nil {
			return nil, &config.Error{Key: "NMOS_QUERY_ADDRESS", Value: cfg.NMOSQueryAddress, Err: err}
		}
		n.observes = true
		directory.Query = []string{query}
	}
	var where nmos.Directory = directory
	if cfg.NMOSDNSSD {
		n.configured, n.observes = true, true
		n.browser = nmos.NewBrowser(nmos.BrowserConfig{
			Static: directory, Node: n.node, Log: log,
			Registered: func() bool { return n.registration.Status().Registered },
		})
		where = n.browser
	}
	n.registration, err = nmos.NewRegistration(nmos.RegistrationConfig{Node: n.node, Directory: where, Log: log})
	if err != nil {
		return nil, err
	}
	local := nmos.NewLocalRules(nmos.LocalConfig{
		OwnNodeID: n.node.ID(), IDs: cfg.LocalNodeIDs, Hostnames: cfg.LocalNodeHostnames, CIDRs: cfg.LocalNodeCIDRs, Log: log,
	})
	n.observer, err = nmos.NewObserver(nmos.ObserverConfig{
		Directory: where, Local: local, OwnNodeID: n.node.ID(), OwnHostID: cfg.HostID,
		PollInterval:      cfg.NMOSPollInterval.Duration(),
		RegistrationEpoch: func() uint64 { return n.registration.Status().Epoch },
		Log:               log,
	})
	return n, err
}

func (n *nmosSide) listen() error {
	var err error
	n.listeners, err = nmos.Listen(n.port)
	return err
}

// run starts the node, the registration and the observer.
func (n *nmosSide) run(ctx context.Context, rooms *sync.WaitGroup) {
	n.log.Info("nmos_node_started", "port", n.port, "node_id", n.node.ID(), "host_address", n.address, "dns_sd", n.dnsSD)
	start := func(name string, f func(context.Context) error) {
		rooms.Go(func() {
			if err := f(ctx); err != nil && ctx.Err() == nil {
				n.log.Error("room_failed", "room", name, "error", err)
			}
		})
	}
	start("nmos_node", func(ctx context.Context) error { return n.node.Serve(ctx, n.listeners, n.log) })
	if n.browser != nil {
		start("nmos_dns_sd", n.browser.Run)
	}
	start("nmos_registration", n.registration.Run)
	start("nmos_observer", n.observer.Run)
}

// leave takes our node out of the registry.
func (n *nmosSide) leave(log *slog.Logger, limit time.Duration) {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	if err := n.registration.Close(ctx); err != nil {
		log.Warn("nmos_node_delete", "node_id", n.node.ID(), "error", err)
	}
}

func (a *Agent) observerChanges() <-chan struct{} {
	if a.nmos == nil {
		return nil
	}
	return a.nmos.observer.Changes()
}

// observed is what NMOS says now; without NMOS nothing, and no demand.
func (a *Agent) observed() nmos.Snapshot {
	if a.nmos == nil {
		return nmos.Snapshot{RegistryUp: true}
	}
	return a.nmos.observer.Snapshot()
}

// registered says whether a registry holds our node.
func (n *nmosSide) registered() bool { return n.registration.Status().Registered }

// problem is what is wrong with NMOS, empty when nothing is.
func (n *nmosSide) problem() string {
	return cmp.Or(n.registration.Status().LastError, n.observer.Snapshot().RegistryError)
}
