package nmos

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync"
	"time"
)

const (
	// lookupTimeout and lookupLife bound and cache the DNS of endpoint names
	// (interface reference §13.2).
	lookupTimeout = 250 * time.Millisecond
	lookupLife    = 30 * time.Second
	lookupsAtOnce = 8
	// failedAtOnce of them are for names whose last lookup failed: those that nobody
	// knows take the resolver's whole time-out, and come back every lookupLife.
	failedAtOnce = 6
	lookupsKept  = 4096 // names are foreign: the cache is bounded
	addressLife  = 5 * time.Second
)

// LocalConfig configures which nodes are on this host.
type LocalConfig struct {
	OwnNodeID string         // never local
	IDs       []string       // LOCAL_NODE_IDS
	Hostnames []string       // LOCAL_NODE_HOSTNAMES: host names or node ids
	CIDRs     []netip.Prefix // LOCAL_NODE_CIDRS
	Hostname  string         // empty: os.Hostname

	Addresses func() []netip.Addr                                          // nil: all interfaces of this host, loopback too
	Lookup    func(ctx context.Context, name string) ([]netip.Addr, error) // nil: the system resolver
	Now       func() time.Time                                             // nil: time.Now
	Log       *slog.Logger                                                 // nil: discarded
}

// LocalNode is what the rules look at.
type LocalNode struct {
	ID       string
	Hostname string
	Hosts    []string // api.endpoints[].host: names or IP literals
}

// LocalRules decides whether a node is on this host. Names are looked up beside
// the caller: Match never blocks, and Resolved fires when an answer came.
type LocalRules struct {
	cfg      LocalConfig
	ids      map[string]bool
	names    map[string]bool
	hostname string
	resolved chan struct{}
	slots    chan struct{}
	lookups  sync.WaitGroup

	mu        sync.Mutex
	addresses []netip.Addr
	addressAt time.Time
	cache     map[string]*lookup
	failing   int // lookups that run, of names whose last one failed
}

type lookup struct {
	addrs   []netip.Addr
	at      time.Time // of the last answer or failure; zero: none yet
	running bool
	failed  bool
}

// NewLocalRules completes the configuration.
func NewLocalRules(cfg LocalConfig) *LocalRules {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Hostname == "" {
		cfg.Hostname, _ = os.Hostname() // without a name the hostname rule never matches
	}
	if cfg.Addresses == nil {
		cfg.Addresses = hostAddresses
	}
	if cfg.Lookup == nil {
		cfg.Lookup = func(ctx context.Context, name string) ([]netip.Addr, error) {
			return net.DefaultResolver.LookupNetIP(ctx, "ip", name)
		}
	}
	cfg.Log = orDiscard(cfg.Log)
	l := &LocalRules{
		cfg: cfg, ids: map[string]bool{}, names: map[string]bool{}, hostname: hostName(cfg.Hostname),
		resolved: make(chan struct{}, 1), slots: make(chan struct{}, lookupsAtOnce), cache: map[string]*lookup{},
	}
	for _, id := range cfg.IDs {
		l.ids[strings.ToLower(strings.TrimSpace(id))] = true
	}
	for _, name := range cfg.Hostnames {
		l.names[hostName(name)] = true
	}
	delete(l.ids, "")
	delete(l.names, "")
	return l
}

// Match gives the first rule that makes the node local: "list", "hostname",
// "ip" or "cidr" (interface reference §13.2). Our own node is never local.
func (l *LocalRules) Match(n LocalNode) (rule string, local bool) {
	id, name := strings.ToLower(n.ID), hostName(n.Hostname)
	switch {
	case id == strings.ToLower(l.cfg.OwnNodeID):
		return "", false
	case l.ids[id]:
		return "list", true
	// "localhost" is everybody's name and proves nothing.
	case name != "" && name != "localhost" && name == l.hostname:
		return "hostname", true
	case l.names[name] || l.names[id]:
		return "list", true
	}
	own := l.ownAddresses()
	var addrs []netip.Addr
	for _, h := range n.Hosts {
		if a, err := netip.ParseAddr(strings.Trim(h, "[]")); err == nil {
			addrs = append(addrs, a.WithZone("").Unmap())
		} else if len(l.cfg.CIDRs) > 0 {
			addrs = append(addrs, l.resolve(hostName(h))...)
		}
	}
	for _, a := range addrs {
		if slices.Contains(own, a) {
			return "ip", true
		}
	}
	for _, a := range addrs {
		for _, p := range l.cfg.CIDRs {
			if p.Contains(a) {
				return "cidr", true
			}
		}
	}
	return "", false
}

// Resolved fires when a lookup ended and Match may say something else.
func (l *LocalRules) Resolved() <-chan struct{} { return l.resolved }

func (l *LocalRules) ownAddresses() []netip.Addr {
	l.mu.Lock()
	defer l.mu.Unlock()
	if now := l.cfg.Now(); l.addressAt.IsZero() || now.Sub(l.addressAt) >= addressLife {
		l.addresses, l.addressAt = l.cfg.Addresses(), now
	}
	return l.addresses
}

// resolve gives what is known of a name and starts a lookup when that is old.
func (l *LocalRules) resolve(name string) []netip.Addr {
	if name == "" || len(name) > 253 { // RFC 1035 §2.3.4
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.cfg.Now()
	e := l.cache[name]
	if e != nil && (e.running || (!e.at.IsZero() && now.Sub(e.at) < lookupLife)) {
		return e.addrs
	}
	if e == nil {
		if len(l.cache) >= lookupsKept {
			l.forgetOld(now)
		}
		if len(l.cache) >= lookupsKept {
			return nil
		}
		e = &lookup{}
		l.cache[name] = e
	}
	if e.failed && l.failing >= failedAtOnce {
		return e.addrs // as when there is no slot
	}
	select {
	case l.slots <- struct{}{}:
		e.running = true
		if e.failed {
			l.failing++
		}
		l.lookups.Go(func() { l.lookup(name, e) })
	default: // the next Match tries again: every ended lookup fires Resolved
	}
	return e.addrs
}

func (l *LocalRules) lookup(name string, e *lookup) {
	ctx, cancel := context.WithTimeout(context.Background(), lookupTimeout)
	defer cancel()
	addrs, err := l.cfg.Lookup(ctx, name)
	<-l.slots
	for i, a := range addrs {
		addrs[i] = a.WithZone("").Unmap()
	}
	dnsErr, isDNS := errors.AsType[*net.DNSError](err)
	l.mu.Lock()
	if e.failed {
		l.failing--
	}
	newlyFailed := err != nil && !e.failed
	e.running, e.at, e.failed = false, l.cfg.Now(), err != nil
	// A resolver that does not answer proves nothing: the last answer stays.
	if err == nil || (isDNS && dnsErr.IsNotFound) {
		e.addrs = addrs
	}
	l.mu.Unlock()
	if newlyFailed {
		l.cfg.Log.Debug("local_node_name_unresolved", "name", clip(name), "error", err)
	}
	select {
	case l.resolved <- struct{}{}:
	default:
	}
}

func (l *LocalRules) forgetOld(now time.Time) {
	for name, e := range l.cache {
		if !e.running && now.Sub(e.at) >= lookupLife {
			delete(l.cache, name)
		}
	}
}

// wait blocks until no lookup runs; each is bounded by lookupTimeout.
func (l *LocalRules) wait() { l.lookups.Wait() }

func hostName(s string) string {
	return strings.ToLower(strings.TrimSuffix(strings.TrimSpace(s), "."))
}

func hostAddresses() []netip.Addr {
	list, err := net.InterfaceAddrs()
	if err != nil {
		return nil // nothing is local by address then; asked again after addressLife
	}
	var out []netip.Addr
	for _, a := range list {
		if n, ok := a.(*net.IPNet); ok {
			if ip, ok := netip.AddrFromSlice(n.IP); ok {
				out = append(out, ip.Unmap())
			}
		}
	}
	return out
}
