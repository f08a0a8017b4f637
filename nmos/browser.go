package nmos

import (
	"context"
	"hash/maphash"
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"time"

	"golang.org/x/net/dns/dnsmessage"
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
			b.cfg.Log.Debug("nmos_dns_sd_ignored", "service", service, "instance", clip(i.name), "reason", reason)
		}
	}
	entries = order(entries, b.seed)
	b.mu.Lock()
	before := *list
	*list = entries
	b.mu.Unlock()
	for _, e := range entries {
		if !listed(before, e.url) {
			b.cfg.Log.Info("nmos_dns_sd_found", "service", service, "instance", clip(e.name), "url", e.url, "pri", e.pri)
		}
	}
	for _, e := range before {
		if !listed(entries, e.url) {
			b.cfg.Log.Info("nmos_dns_sd_lost", "service", service, "instance", clip(e.name), "url", e.url)
		}
	}
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

// runMulticast asks and listens for services, and answers for our node.
func (b *Browser) runMulticast(ctx context.Context) error {
	socket, err := openMulticast(ctx, b.cfg.Group, b.cfg.Interfaces)
	if err != nil {
		return err
	}
	packets := make(chan multicastPacket, 16)
	var reader sync.WaitGroup
	reader.Go(func() { readMulticast(socket, packets) })
	defer reader.Wait()
	defer socket.close()

	m := &multicastRun{b: b, socket: socket, cache: newRecordCache(), every: multicastFirst, aloneSince: b.now(), asked: map[string]time.Time{}}
	defer m.withdraw()
	tick := time.NewTimer(jitter(200 * time.Millisecond)) // many hosts start at once
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			go func() { // the reader may wait to hand over
				for range packets {
				}
			}()
			return nil
		case p, ok := <-packets:
			if !ok {
				return net.ErrClosed
			}
			m.receive(p)
		case <-tick.C:
			m.ask()
			m.advertise()
			tick.Reset(time.Second)
		}
	}
}

type multicastPacket struct {
	message answerMessage
	from    *net.UDPAddr
}

// readMulticast reads until the socket closes; what is no DNS message is dropped.
func readMulticast(s *multicastSocket, out chan<- multicastPacket) {
	defer close(out)
	buf := make([]byte, 64<<10)
	for {
		n, _, from, err := s.conn.ReadFrom(buf)
		if err != nil {
			return
		}
		m, err := parseDNS(buf[:n])
		addr, ok := from.(*net.UDPAddr)
		if err != nil || !ok {
			continue
		}
		out <- multicastPacket{m, addr}
	}
}

// multicastRun is the state of one run of multicast DNS-SD.
type multicastRun struct {
	b      *Browser
	socket *multicastSocket
	cache  *recordCache
	every  time.Duration
	next   time.Time            // of the next question for services
	asked  map[string]time.Time // when the missing parts of an instance were asked for

	aloneSince time.Time // since when no registry holds our node
	ours       *advertisement
	announced  int // of two announcements (RFC 6762 §8.3)
}

func (m *multicastRun) receive(p multicastPacket) {
	if !p.message.header.Response {
		if m.ours != nil {
			legacy := p.from.Port != m.socket.group.Port
			if packet := m.ours.answer(p.message, legacy); packet != nil {
				if legacy {
					_ = m.socket.reply(packet, p.from) // the asker asks again
				} else {
					_ = m.socket.send(packet)
				}
			}
		}
		return
	}
	m.cache.add(p.message.records, m.b.now())
	m.store()
}

func (m *multicastRun) store() {
	for i, service := range services {
		if !m.b.configured(i) {
			m.b.store(&m.b.multicast[i], service, m.cache.instances(service+"."+localDomain, m.b.now()))
		}
	}
}

// ask sends the questions that are due: for services, and at most once a second
// for what is missing of an instance.
func (m *multicastRun) ask() {
	now := m.b.now()
	m.store() // records have run out meanwhile
	var questions []dnsmessage.Question
	add := func(name string, kind dnsmessage.Type) {
		if n, err := dnsmessage.NewName(name); err == nil && len(questions) < 32 {
			questions = append(questions, dnsmessage.Question{Name: n, Type: kind, Class: dnsmessage.ClassINET})
		}
	}
	wanted := m.b.wanted()
	if len(wanted) > 0 && !now.Before(m.next) {
		for _, i := range wanted {
			add(services[i]+"."+localDomain, dnsmessage.TypePTR)
		}
		m.next = now.Add(m.every)
		m.every = min(m.every*2, multicastMost)
	}
	for name, at := range m.asked {
		if now.Sub(at) >= time.Minute {
			delete(m.asked, name)
		}
	}
	for _, i := range wanted {
		for _, inst := range m.cache.instances(services[i]+"."+localDomain, now) {
			if at, ok := m.asked[inst.name]; (ok && now.Sub(at) < multicastFirst) || len(m.asked) > recordsKept {
				continue
			}
			switch {
			case inst.host == "" || inst.text == nil:
				add(inst.name, dnsmessage.TypeALL)
			case len(inst.addrs) == 0:
				add(inst.host, dnsmessage.TypeA)
				add(inst.host, dnsmessage.TypeAAAA)
			default:
				continue
			}
			m.asked[inst.name] = now
		}
	}
	if len(questions) == 0 {
		return
	}
	q := dnsmessage.Message{Questions: questions}
	if packet, err := q.Pack(); err == nil {
		_ = m.socket.send(packet) // no link now: asked again
	}
}

// advertise announces our node while no registry holds it, and withdraws it as
// soon as one does (NMOS reference §5).
func (m *multicastRun) advertise() {
	cfg := m.b.cfg
	if cfg.Node == nil {
		return
	}
	now := m.b.now()
	if cfg.Registered != nil && cfg.Registered() {
		m.aloneSince = now
		m.withdraw()
		return
	}
	if now.Sub(m.aloneSince) < aloneFor {
		return
	}
	if m.ours == nil {
		a, err := newAdvertisement(cfg.Node)
		if err != nil {
			return // names are built from ids: cannot be
		}
		m.ours, m.announced = &a, 0
		cfg.Log.Info("nmos_node_advertised", "instance", a.instance.String())
	}
	if m.announced < 2 {
		m.announced++
		if packet, err := m.ours.announce(false); err == nil {
			_ = m.socket.send(packet)
		}
	}
}

func (m *multicastRun) withdraw() {
	if m.ours == nil {
		return
	}
	if packet, err := m.ours.announce(true); err == nil {
		_ = m.socket.send(packet)
	}
	m.ours = nil
	m.b.cfg.Log.Info("nmos_node_withdrawn")
}
