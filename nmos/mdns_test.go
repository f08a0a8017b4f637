package nmos

import (
	"context"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"
)

func testAdvertisement(tb testing.TB) advertisement {
	tb.Helper()
	a, err := newAdvertisement(testNode(tb))
	if err != nil {
		tb.Fatal(err)
	}
	return a
}

func TestAdvertisementAnswers(t *testing.T) {
	a := testAdvertisement(t)
	const inst, host = "mxl-fabrics-agent_node-a_6c7c9cb6._nmos-node._tcp.local.", "mxl-fabrics-agent-6c7c9cb6.local."
	for what, c := range map[string]struct {
		name    string
		kind    dnsmessage.Type
		answers int
	}{
		"the service":         {"_nmos-node._tcp.local.", dnsmessage.TypePTR, 1},
		"in other case":       {"_NMOS-Node._tcp.LOCAL.", dnsmessage.TypePTR, 1},
		"all services":        {allServices, dnsmessage.TypePTR, 1},
		"the instance, SRV":   {inst, dnsmessage.TypeSRV, 1},
		"the instance, TXT":   {inst, dnsmessage.TypeTXT, 1},
		"the instance, all":   {inst, dnsmessage.TypeALL, 2},
		"the host":            {host, dnsmessage.TypeA, 1},
		"the host over ipv6":  {host, dnsmessage.TypeAAAA, 0},
		"somebody's service":  {"_http._tcp.local.", dnsmessage.TypePTR, 0},
		"somebody's instance": {"x._nmos-node._tcp.local.", dnsmessage.TypeSRV, 0},
	} {
		question := dnsmessage.Question{Name: name(c.name), Type: c.kind, Class: dnsmessage.ClassINET | flushBit}
		q, err := parseDNS(pack(t, dnsmessage.Message{Header: dnsmessage.Header{ID: 7}, Questions: []dnsmessage.Question{question}}))
		if err != nil {
			t.Fatal(err)
		}
		for _, legacy := range []bool{false, true} {
			packet := a.answer(q, legacy)
			if (packet != nil) != (c.answers > 0) {
				t.Errorf("%s: answered %t", what, packet != nil)
			}
			if packet == nil {
				continue
			}
			var m dnsmessage.Message
			if err := m.Unpack(packet); err != nil || len(m.Answers) != c.answers || !m.Response {
				t.Errorf("%s: %+v, %v", what, m, err)
			}
			if legacy != (m.ID == 7) || legacy != (len(m.Questions) == 1) || (legacy && m.Answers[0].Header.TTL != legacyTTL) {
				t.Errorf("%s, legacy %t: id %d, %d questions", what, legacy, m.ID, len(m.Questions))
			}
		}
	}
	if packet := a.answer(answerMessage{header: dnsmessage.Header{Response: true}}, false); packet != nil {
		t.Error("a response was answered")
	}
}

func TestAdvertisementNames(t *testing.T) {
	n, err := NewNode(NodeConfig{HostID: "host.with.dots." + strings.Repeat("x", 80) + "é", HostAddress: netip.MustParseAddr("2001:db8::1"), Port: 1, WebPort: 2})
	if err != nil {
		t.Fatal(err)
	}
	a, err := newAdvertisement(n)
	if err != nil {
		t.Fatal(err)
	}
	label, rest, _ := strings.Cut(a.instance.String(), ".")
	if len(label) > maxLabelBytes || rest != "_nmos-node._tcp.local." {
		t.Errorf("instance %s", a.instance)
	}
	if packet, err := a.announce(true); err != nil || len(packet) == 0 {
		t.Error(err)
	}
}

// multicastPlace finds an interface and a group that work here, away from the
// real mDNS.
func multicastPlace(t *testing.T) (netip.AddrPort, []net.Interface) {
	t.Helper()
	l, err := net.ListenPacket("udp4", ":0")
	if err != nil {
		t.Fatal(err)
	}
	port := l.LocalAddr().(*net.UDPAddr).Port
	l.Close()
	lo, err := net.InterfaceByName("lo")
	if err != nil {
		t.Fatal(err)
	}
	return netip.AddrPortFrom(netip.MustParseAddr("224.0.0.251"), uint16(port)), []net.Interface{*lo}
}

func runBrowser(t *testing.T, cfg BrowserConfig) *Browser {
	t.Helper()
	cfg.ResolvConf = "/nonexistent"
	b := NewBrowser(cfg)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- b.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return b
}

// A registry that answers questions and one that only announces itself are both
// found, without addresses in the first packet, and go with a goodbye.
func TestMulticastBrowse(t *testing.T) {
	group, interfaces := multicastPlace(t)
	registry, err := openMulticast(t.Context(), group, interfaces)
	if err != nil {
		t.Fatal(err)
	}
	list := serviceRecords(registerService, "local.", "reg", "reg.local.", "192.0.2.1", 3210, "api_proto=http", "api_ver=v1.3", "api_auth=false", "pri=0")
	query := serviceRecords(queryService, "local.", "qry", "reg.local.", "192.0.2.1", 3211, "api_proto=http", "api_ver=v1.3", "pri=0")
	asked := make(chan struct{}, 64)
	finished := make(chan struct{})
	go func() {
		defer close(finished)
		buf := make([]byte, 9000)
		for {
			n, _, _, err := registry.conn.ReadFrom(buf)
			if err != nil {
				return
			}
			m, err := parseDNS(buf[:n])
			if err != nil || m.header.Response {
				continue
			}
			select {
			case asked <- struct{}{}:
			default:
			}
			out := dnsmessage.Message{Header: dnsmessage.Header{Response: true, Authoritative: true}}
			for _, q := range m.questions {
				for _, r := range list { // each record only when asked for by name
					if q.Name.String() == r.Header.Name.String() && (q.Type == bodyType(r.Body) || q.Type == dnsmessage.TypeALL) {
						out.Answers = append(out.Answers, r)
					}
				}
			}
			if len(out.Answers) > 0 {
				packet, _ := out.Pack()
				_ = registry.send(packet)
			}
		}
	}()
	defer func() { registry.close(); <-finished }()

	b := runBrowser(t, BrowserConfig{Group: group, Interfaces: interfaces})
	within(t, "the registration api", func() bool { return slices.Equal(b.RegistrationURLs(), []string{"http://192.0.2.1:3210"}) })
	<-asked
	announcement := dnsmessage.Message{Header: dnsmessage.Header{Response: true}, Answers: query}
	if err := registry.send(pack(t, announcement)); err != nil {
		t.Fatal(err)
	}
	within(t, "the query api", func() bool { return slices.Equal(b.QueryURLs(), []string{"http://192.0.2.1:3211"}) })
	for i := range announcement.Answers {
		announcement.Answers[i].Header.TTL = 0
	}
	if err := registry.send(pack(t, announcement)); err != nil {
		t.Fatal(err)
	}
	within(t, "the goodbye", func() bool { return len(b.QueryURLs()) == 0 })
}

// Our node is advertised only while no registry holds it.
func TestMulticastAdvertise(t *testing.T) {
	group, interfaces := multicastPlace(t)
	listener, err := openMulticast(t.Context(), group, interfaces)
	if err != nil {
		t.Fatal(err)
	}
	var announced, goodbyes atomic.Int32
	finished := make(chan struct{})
	go func() {
		defer close(finished)
		buf := make([]byte, 9000)
		for {
			n, _, _, err := listener.conn.ReadFrom(buf)
			if err != nil {
				return
			}
			m, err := parseDNS(buf[:n])
			if err != nil || !m.header.Response || !has(m.records, "_nmos-node._tcp.local.", dnsmessage.TypePTR) {
				continue
			}
			if m.records[0].ttl == 0 {
				goodbyes.Add(1)
			} else {
				announced.Add(1)
			}
		}
	}()
	defer func() { listener.close(); <-finished }()
	var registered atomic.Bool
	registered.Store(true)
	var offset atomic.Int64
	b := NewBrowser(BrowserConfig{
		Group: group, Interfaces: interfaces, ResolvConf: "/nonexistent",
		Node: testNode(t), Registered: registered.Load, Log: slog.New(slog.DiscardHandler),
	})
	b.now = func() time.Time { return time.Now().Add(time.Duration(offset.Load())) }
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); b.Run(ctx) }()
	defer func() { cancel(); <-done }()

	offset.Add(int64(2 * aloneFor))
	ask := pack(t, dnsmessage.Message{Questions: []dnsmessage.Question{{Name: name("_nmos-node._tcp.local."), Type: dnsmessage.TypePTR, Class: dnsmessage.ClassINET}}})
	for range 10 { // two ticks of the browser and more
		if err := listener.send(ask); err != nil {
			t.Fatal(err)
		}
		time.Sleep(250 * time.Millisecond)
	}
	if n := announced.Load(); n != 0 {
		t.Fatalf("advertised %d times while registered", n)
	}
	registered.Store(false)
	offset.Add(int64(2 * aloneFor))
	within(t, "two announcements", func() bool { return announced.Load() >= 2 })
	before := announced.Load()
	if err := listener.send(ask); err != nil {
		t.Fatal(err)
	}
	within(t, "an answer", func() bool { return announced.Load() > before })
	registered.Store(true)
	within(t, "a goodbye", func() bool { return goodbyes.Load() == 1 })
	registered.Store(false)
	offset.Add(int64(2 * aloneFor))
	before = announced.Load()
	within(t, "a second start", func() bool { return announced.Load() > before })
	cancel()
	<-done
	within(t, "a goodbye at exit", func() bool { return goodbyes.Load() == 2 })
}

func within(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !ok(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited 30 s for %s", what)
		}
	}
}
