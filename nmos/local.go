package nmos

import (
	"context"
	"log/slog"
	"net/netip"
	"time"
)

// LocalConfig configures which nodes are on this host.
type LocalConfig struct {
	OwnNodeID string         // never local
	IDs       []string       // LOCAL_NODE_IDS
	Hostnames []string       // LOCAL_NODE_HOSTNAMES: host names or node ids
	CIDRs     []netip.Prefix // LOCAL_NODE_CIDRS
	Hostname  string         // empty: os.Hostname

	Addresses func() []netip.Addr                                          // nil: all interfaces of this host
	Lookup    func(ctx context.Context, name string) ([]netip.Addr, error) // nil: the system resolver
	Now       func() time.Time                                             // nil: time.Now
	Log       *slog.Logger                                                 // nil: discarded
}

// LocalRules decides whether a node is on this host.
type LocalRules struct{}

// NewLocalRules completes the configuration.
func NewLocalRules(cfg LocalConfig) *LocalRules { return &LocalRules{} }
