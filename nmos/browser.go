package nmos

import (
	"context"
	"hash/maphash"
	"log/slog"
	"net"
	"net/netip"
	"strings"
	"sync"
	"time"
)

const (
	// browseEvery is how often unicast DNS is asked again; browseSoon while
	// something is still missing.
	browseEvery = 30 * time.Second
	browseSoon  = 5 * time.Second
	// failedFor is how long an entry that failed is passed over: mDNS caches keep
	// dead services for up to 75 min.
	failedFor = 30 * time.Second
	// Multicast questions: after 1 s, then at doubling distances up to 60 s
	// (RFC 6762 §5.2 allows an hour; registries come and go faster).
	multicastFirst = time.Second
	multicastMost  = time.Minute
	// aloneFor is how long no registry has to be found before our node is
	// advertised: from v1.3 on that is for peer-to-peer operation only.
	aloneFor = 10 * time.Second
)

// BrowserConfig configures DNS-SD. The zero value is the normal one.
type BrowserConfig struct {
	// Static addresses are used as they are and come before browsing: an API that
	// is configured is not browsed for.
	Static StaticDirectory
	// Node is advertised as _nmos-node._tcp while Registered says no; nil: never.
	Node       *Node
	Registered func() bool

	ResolvConf string          // empty: /etc/resolv.conf
	Group      netip.AddrPort  // zero: 224.0.0.251:5353
	Interfaces []net.Interface // nil: all that are up and multicast
	Log        *slog.Logger    // nil: discarded
}

// Browser is the Directory of NMOS_DNS_SD=true: registries found by unicast
// DNS-SD in the search domains, and by multicast where that gives nothing.
type Browser struct {
	cfg  BrowserConfig
	seed maphash.Seed
	now  func() time.Time

	mu        sync.Mutex
	unicast   [2][]browsed // by service
	multicast [2][]browsed
	failed    map[string]time.Time
}

// services are what is browsed for, by index of the lists above.
var services = [2]string{registerService, queryService}

// NewBrowser completes the configuration. It does no I/O.
func NewBrowser(cfg BrowserConfig) *Browser {
	if cfg.ResolvConf == "" {
		cfg.ResolvConf = "/etc/resolv.conf"
	}
	if !cfg.Group.IsValid() {
		cfg.Group = multicastGroup
	}
	cfg.Log = orDiscard(cfg.Log)
	return &Browser{cfg: cfg, seed: maphash.MakeSeed(), now: time.Now, failed: map[string]time.Time{}}
}

// RegistrationURLs implements Directory.
func (b *Browser) RegistrationURLs() []string { return b.urls(0, b.cfg.Static.Registration) }

// QueryURLs implements Directory.
func (b *Browser) QueryURLs() []string { return b.urls(1, b.cfg.Static.Query) }

// Failed implements Directory: the entry goes behind the others for 30 s.
func (b *Browser) Failed(url string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.now()
	for u, at := range b.failed {
		if now.Sub(at) >= failedFor {
			delete(b.failed, u)
		}
	}
	b.failed[url] = now
}

func (b *Browser) urls(service int, static []string) []string {
	if len(static) > 0 {
		return static
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	list := b.unicast[service]
	if len(list) == 0 {
		list = b.multicast[service]
	}
	var good, bad []string
	for _, e := range list {
		if at, ok := b.failed[e.url]; ok && b.now().Sub(at) < failedFor {
			bad = append(bad, e.url)
		} else {
			good = append(good, e.url)
		}
	}
	return append(good, bad...)
}

// Run browses until ctx ends. Where multicast cannot be used, unicast goes on.
func (b *Browser) Run(ctx context.Context) error {
	var multicast sync.WaitGroup
	defer multicast.Wait()
	multicast.Go(func() {
		if err := b.runMulticast(ctx); err != nil {
			b.cfg.Log.Warn("nmos_dns_sd_multicast_failed", "error", err)
		}
	})
	for {
		resolver := readResolverConfig(b.cfg.ResolvConf)
		missing := false
		for i, service := range services {
			if b.configured(i) {
				continue
			}
			cache := newRecordCache()
			cache.add(browseUnicast(ctx, resolver, service), b.now())
			if ctx.Err() != nil {
				return nil
			}
			var found []instance
			for _, domain := range resolver.domains {
				found = append(found, cache.instances(service+"."+domain, b.now())...)
			}
			b.store(&b.unicast[i], service, found)
			missing = missing || len(found) == 0
		}
		wait := browseEvery
		if missing {
			wait = browseSoon
		}
		if !sleep(ctx, jitter(wait)) {
			return nil
		}
	}
}

func (b *Browser) configured(service int) bool {
	return len([...][]string{b.cfg.Static.Registration, b.cfg.Static.Query}[service]) > 0
}

// store takes over what was found and says in the log what changed.
func (b *Browser) store(list *[]browsed, service string, found []instance) {
	var entries []browsed
	for _, i := range found {
		if e, reason, ok := usable(i); ok {
			entries = append(entries, e)
		} else if reason != "" {
			b.cfg.Log.Debug("nmos_dns_sd_ignored", "service", service, "instance", showName(i.name), "reason", reason)
		}
	}
	entries = order(entries, b.seed)
	b.mu.Lock()
	before := *list
	*list = entries
	b.mu.Unlock()
	for _, e := range entries {
		if !listed(before, e.url) {
			b.cfg.Log.Info("nmos_dns_sd_found", "service", service, "instance", showName(e.name), "url", e.url, "pri", e.pri)
		}
	}
	for _, e := range before {
		if !listed(entries, e.url) {
			b.cfg.Log.Info("nmos_dns_sd_lost", "service", service, "instance", showName(e.name), "url", e.url)
		}
	}
}

// showName is a name for the log.
func showName(name string) string {
	return clip(strings.ReplaceAll(name, string(rune(dotInLabel)), "."))
}

func listed(list []browsed, url string) bool {
	for _, e := range list {
		if e.url == url {
			return true
		}
	}
	return false
}

// wanted are the services that multicast has to find: not configured, and
// nothing by unicast (NMOS reference §5).
func (b *Browser) wanted() (list []int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i := range services {
		if !b.configured(i) && len(b.unicast[i]) == 0 {
			list = append(list, i)
		}
	}
	return list
}
