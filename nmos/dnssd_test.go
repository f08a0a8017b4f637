package nmos

import (
	"encoding/binary"
	"hash/maphash"
	"io"
	"math"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"
)

func name(s string) dnsmessage.Name { return dnsmessage.MustNewName(s) }

func header(n string, flush bool) dnsmessage.ResourceHeader {
	h := dnsmessage.ResourceHeader{Name: name(n), Class: dnsmessage.ClassINET, TTL: 120}
	if flush {
		h.Class |= flushBit
	}
	return h
}

// serviceRecords are the records of one instance in a domain.
func serviceRecords(service, domain, label, host, addr string, port uint16, text ...string) []dnsmessage.Resource {
	inst := label + "." + service + "." + domain
	list := []dnsmessage.Resource{
		{Header: header(host, true), Body: &dnsmessage.AResource{A: netip.MustParseAddr(addr).As4()}}, // A before SRV occurs
		{Header: header(service+"."+domain, false), Body: &dnsmessage.PTRResource{PTR: name(inst)}},
		{Header: header(inst, true), Body: &dnsmessage.TXTResource{TXT: text}},
		{Header: header(inst, true), Body: &dnsmessage.SRVResource{Target: name(host), Port: port}},
	}
	return list
}

func pack(tb testing.TB, m dnsmessage.Message) []byte {
	tb.Helper()
	b, err := m.Pack()
	if err != nil {
		tb.Fatal(err)
	}
	return b
}

func TestParseDNSSkipsWhatItDoesNotKnow(t *testing.T) {
	list := serviceRecords(registerService, "local.", "reg", "h.local.", "192.0.2.1", 3210, "api_ver=v1.3")
	odd := dnsmessage.Resource{Header: header("h.local.", true), Body: &dnsmessage.UnknownResource{Type: 47, Data: []byte{1, 2, 3}}} // NSEC
	other := dnsmessage.Resource{Header: dnsmessage.ResourceHeader{Name: name("h.local."), Class: dnsmessage.ClassCHAOS, TTL: 1}, Body: &dnsmessage.AResource{}}
	packet := pack(t, dnsmessage.Message{
		Header: dnsmessage.Header{Response: true}, Answers: append([]dnsmessage.Resource{odd}, list[:2]...),
		Authorities: []dnsmessage.Resource{odd, other}, Additionals: append(list[2:], odd),
	})
	m, err := parseDNS(packet)
	if err != nil || len(m.records) != 4 {
		t.Fatalf("%d records, %v", len(m.records), err)
	}
	c := newRecordCache()
	c.add(m.records, at(0))
	got := c.instances(registerService+".local.", at(1))
	if len(got) != 1 || got[0].host != "h.local." || got[0].port != 3210 || got[0].text["api_ver"] != "v1.3" || len(got[0].addrs) != 1 {
		t.Errorf("instances %+v", got)
	}
	if got := c.instances(registerService+".local.", at(121)); len(got) != 0 {
		t.Errorf("past its life: %+v", got)
	}
	// Cut anywhere, it is an error or less, never a panic.
	for n := range packet {
		parseDNS(packet[:n])
	}
}

// An instance name with dots in its first label, as RFC 6763 allows.
func TestDotsInsideLabels(t *testing.T) {
	list := serviceRecords(registerService, "local.", "Registry 10\x1e0\x1e0\x1e1:80", "h.local.", "192.0.2.1", 3210, "api_proto=http", "api_ver=v1.3", "pri=0")
	packet := pack(t, dnsmessage.Message{Header: dnsmessage.Header{Response: true}, Answers: list})
	showDots(packet)
	if !strings.Contains(string(packet), "Registry 10.0.0.1:80") || strings.Contains(string(packet), "\x1e") {
		t.Fatalf("packet %q", packet)
	}
	var p dnsmessage.Message
	if err := p.Unpack(slices.Clone(packet)); err == nil {
		t.Error("the parser takes such names by now: dns_labels.go can go")
	}
	m, err := parseDNS(packet)
	if err != nil || len(m.records) != 4 {
		t.Fatalf("%d records, %v", len(m.records), err)
	}
	c := newRecordCache()
	c.add(m.records, at(0))
	got := c.instances(registerService+".local.", at(0))
	if len(got) != 1 {
		t.Fatalf("instances %+v", got)
	}
	if b, reason, ok := usable(got[0]); !ok || b.url != "http://192.0.2.1:3210" {
		t.Errorf("%+v, %q", b, reason)
	}
	if s := showName(got[0].name); !strings.HasPrefix(s, "registry 10.0.0.1:80.") {
		t.Errorf("shown as %q", s)
	}
}

func TestRecordCache(t *testing.T) {
	c := newRecordCache()
	ptr := record{name: "s.", kind: dnsmessage.TypePTR, ttl: time.Minute, target: "i.s."}
	srv := record{name: "i.s.", kind: dnsmessage.TypeSRV, ttl: time.Minute, target: "h.", port: 1, flush: true}
	a := func(s string) record {
		return record{name: "h.", kind: dnsmessage.TypeA, ttl: time.Minute, addr: netip.MustParseAddr(s), flush: true}
	}
	c.add([]record{ptr, srv, a("192.0.2.2"), a("192.0.2.1")}, at(0)) // two addresses of one packet
	if i := c.instances("S.", at(0)); len(i) != 1 || len(i[0].addrs) != 2 || i[0].addrs[0] != netip.MustParseAddr("192.0.2.1") {
		t.Errorf("%+v", i)
	}
	c.add([]record{a("192.0.2.9")}, at(10)) // replaces both
	if i := c.instances("s.", at(10)); len(i[0].addrs) != 1 || i[0].addrs[0] != netip.MustParseAddr("192.0.2.9") {
		t.Errorf("%+v", i)
	}
	ptr.ttl = 0
	c.add([]record{ptr}, at(11)) // goodbye
	if i := c.instances("s.", at(11)); len(i) != 0 {
		t.Errorf("%+v", i)
	}
	for n := range 3 * recordsKept {
		c.add([]record{{name: strconv.Itoa(n), kind: dnsmessage.TypePTR, ttl: time.Hour}}, at(12))
	}
	if c.size > recordsKept {
		t.Errorf("%d records kept", c.size)
	}
	c.forget(at(1_000_000))
	if c.size != 0 || len(c.records) != 0 {
		t.Errorf("%d records, %d keys after their life", c.size, len(c.records))
	}
}

// The rules of NMOS reference §5, one row each.
func TestUsableInstances(t *testing.T) {
	good := map[string]string{"api_proto": "http", "api_ver": "v1.2,v1.3", "api_auth": "false", "pri": "10"}
	for rule, c := range map[string]struct {
		change func(*instance, map[string]string)
		want   string
		pri    int
		reason bool
	}{
		"as it should be": {func(*instance, map[string]string) {}, "http://192.0.2.1:3210", 10, false},
		"case and blanks": {func(_ *instance, t map[string]string) {
			t["api_proto"], t["api_ver"], t["api_auth"] = "HTTP", "v1.0, v1.3 ", "False"
		}, "http://192.0.2.1:3210", 10, false},
		"no api_auth":            {func(_ *instance, t map[string]string) { delete(t, "api_auth") }, "http://192.0.2.1:3210", 10, false},
		"authorization":          {func(_ *instance, t map[string]string) { t["api_auth"] = "true" }, "", 0, true},
		"another version":        {func(_ *instance, t map[string]string) { t["api_ver"] = "v1.2,v1.30,v11.3" }, "", 0, true},
		"no version":             {func(_ *instance, t map[string]string) { delete(t, "api_ver") }, "", 0, true},
		"another protocol":       {func(_ *instance, t map[string]string) { t["api_proto"] = "https" }, "", 0, true},
		"no protocol":            {func(_ *instance, t map[string]string) { delete(t, "api_proto") }, "", 0, true},
		"no priority":            {func(_ *instance, t map[string]string) { delete(t, "pri") }, "http://192.0.2.1:3210", math.MaxInt, false},
		"priority is no number":  {func(_ *instance, t map[string]string) { t["pri"] = "-1" }, "http://192.0.2.1:3210", math.MaxInt, false},
		"no port":                {func(i *instance, _ map[string]string) { i.port = 0 }, "", 0, true},
		"name without address":   {func(i *instance, _ map[string]string) { i.addrs = nil }, "http://reg.example.:3210", 10, false},
		".local without address": {func(i *instance, _ map[string]string) { i.addrs, i.host = nil, "h.local." }, "", 0, false},
		"bad name":               {func(i *instance, _ map[string]string) { i.addrs, i.host = nil, "u@h/x." }, "", 0, false},
		"ipv6":                   {func(i *instance, _ map[string]string) { i.addrs = []netip.Addr{netip.MustParseAddr("2001:db8::1")} }, "http://[2001:db8::1]:3210", 10, false},
		"no TXT yet":             {func(i *instance, _ map[string]string) { i.text = nil }, "", 0, false},
		"no SRV yet":             {func(i *instance, _ map[string]string) { i.host = "" }, "", 0, false},
	} {
		t.Run(rule, func(t *testing.T) {
			text := map[string]string{}
			for k, v := range good {
				text[k] = v
			}
			i := instance{name: "x", host: "reg.example.", port: 3210, addrs: []netip.Addr{netip.MustParseAddr("192.0.2.1")}, text: text}
			c.change(&i, text)
			got, reason, ok := usable(i)
			want := strings.ReplaceAll(c.want, "example.:", "example:")
			if got.url != want || ok != (want != "") || (reason != "") != c.reason || got.pri != c.pri {
				t.Errorf("%+v, %q, %t", got, reason, ok)
			}
		})
	}
}

func TestOrderOfRegistries(t *testing.T) {
	list := []browsed{{"a", "http://a", 100}, {"b", "http://b", 0}, {"c", "http://c", 0}, {"d", "http://d", 20}, {"b2", "http://b", 0}}
	firsts := map[string]int{}
	for range 64 {
		seed := maphash.MakeSeed()
		got := order(slices.Clone(list), seed)
		if len(got) != 4 || got[2].url != "http://d" || got[3].url != "http://a" {
			t.Fatalf("order %+v", got)
		}
		if again := order(slices.Clone(list), seed); again[0] != got[0] {
			t.Fatal("the order is not steady within one process")
		}
		firsts[got[0].url]++
	}
	if firsts["http://b"] == 0 || firsts["http://c"] == 0 {
		t.Errorf("equals are not mixed: %v", firsts)
	}
}

func TestBrowserPassesOverFailures(t *testing.T) {
	now := at(0)
	b := NewBrowser(BrowserConfig{})
	b.now = func() time.Time { return now }
	b.multicast[0] = []browsed{{"a", "http://a", 0}, {"b", "http://b", 1}}
	expect := func(want ...string) {
		t.Helper()
		if got := b.RegistrationURLs(); !slices.Equal(got, want) {
			t.Errorf("%v, want %v", got, want)
		}
	}
	expect("http://a", "http://b")
	b.Failed("http://a")
	expect("http://b", "http://a")
	now = now.Add(failedFor)
	expect("http://a", "http://b")
	b.unicast[0] = []browsed{{"u", "http://u", 99}} // unicast first, multicast only where it gives nothing
	expect("http://u")
	if w := b.wanted(); !slices.Equal(w, []int{1}) {
		t.Errorf("multicast looks for %v", w)
	}
	b = NewBrowser(BrowserConfig{Static: StaticDirectory{Registration: []string{"http://s"}}})
	b.multicast[0] = []browsed{{"a", "http://a", 0}}
	if got := b.RegistrationURLs(); !slices.Equal(got, []string{"http://s"}) {
		t.Errorf("configured: %v", got)
	}
}

func TestResolverConfig(t *testing.T) {
	c := parseResolverConfig("# x\nnameserver 192.0.2.53\nnameserver 2001:db8::53\nsearch old.test\nsearch a.test. b.test .\noptions ndots:5\nnameserver\n")
	if !slices.Equal(c.servers, []string{"192.0.2.53:53", "[2001:db8::53]:53"}) || !slices.Equal(c.domains, []string{"a.test.", "b.test."}) {
		t.Errorf("%+v", c)
	}
}

// dnsServer answers over udp, truncated when told so, and over tcp on one port.
func dnsServer(t *testing.T, zone []dnsmessage.Resource, truncate bool) string {
	t.Helper()
	answerTo := func(packet []byte, udp bool) []byte {
		var q dnsmessage.Message
		if q.Unpack(packet) != nil || len(q.Questions) != 1 {
			return nil
		}
		m := dnsmessage.Message{Header: dnsmessage.Header{ID: q.ID, Response: true}, Questions: q.Questions}
		for _, r := range zone {
			if strings.EqualFold(r.Header.Name.String(), q.Questions[0].Name.String()) && bodyType(r.Body) == q.Questions[0].Type {
				m.Answers = append(m.Answers, r)
			}
		}
		if len(m.Answers) == 0 {
			m.RCode = dnsmessage.RCodeNameError
		}
		if udp && truncate {
			m.Answers, m.Truncated = nil, true
		}
		return pack(t, m)
	}
	var (
		tcp net.Listener
		udp net.PacketConn
		err error
	)
	for range 20 { // until both protocols have the port
		if tcp, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
			t.Fatal(err)
		}
		if udp, err = net.ListenPacket("udp", tcp.Addr().String()); err == nil {
			break
		}
		tcp.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{}, 2)
	go func() {
		defer func() { done <- struct{}{} }()
		buf := make([]byte, 4096)
		for {
			n, from, err := udp.ReadFrom(buf)
			if err != nil {
				return
			}
			_, _ = udp.WriteTo([]byte("noise"), from) // not an answer
			_, _ = udp.WriteTo(answerTo(buf[:n], true), from)
		}
	}()
	go func() {
		defer func() { done <- struct{}{} }()
		for {
			c, err := tcp.Accept()
			if err != nil {
				return
			}
			var size [2]byte
			_, _ = io.ReadFull(c, size[:])
			q := make([]byte, binary.BigEndian.Uint16(size[:]))
			_, _ = io.ReadFull(c, q)
			a := answerTo(q, false)
			_, _ = c.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(a))), a...))
			c.Close()
		}
	}()
	t.Cleanup(func() { tcp.Close(); udp.Close(); <-done; <-done })
	return tcp.Addr().String()
}

func TestBrowseUnicast(t *testing.T) {
	zone := append(serviceRecords(registerService, "example.test.", "one", "reg1.example.test.", "192.0.2.1", 3210, "api_proto=http", "api_ver=v1.3", "api_auth=false", "pri=5"),
		serviceRecords(registerService, "example.test.", "two", "reg2.example.test.", "192.0.2.2", 3211, "api_proto=http", "api_ver=v1.3", "pri=1")...)
	for _, truncate := range []bool{false, true} {
		server := dnsServer(t, zone, truncate)
		cfg := resolverConfig{servers: []string{"127.0.0.1:1", server}, domains: []string{"nothing.test.", "example.test."}}
		c := newRecordCache()
		c.add(browseUnicast(t.Context(), cfg, registerService), at(0))
		b := NewBrowser(BrowserConfig{})
		b.store(&b.unicast[0], registerService, c.instances(registerService+".example.test.", at(0)))
		if got := b.RegistrationURLs(); !slices.Equal(got, []string{"http://192.0.2.2:3211", "http://192.0.2.1:3210"}) {
			t.Errorf("truncated %t: %v", truncate, got)
		}
	}
}

func TestReadResolverConfig(t *testing.T) {
	conf := filepath.Join(t.TempDir(), "resolv.conf")
	if err := os.WriteFile(conf, []byte("nameserver 192.0.2.53\nsearch example.test\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if c := readResolverConfig(conf); !slices.Equal(c.domains, []string{"example.test."}) || len(c.servers) != 1 {
		t.Errorf("%+v", c)
	}
	if c := readResolverConfig(conf + "-missing"); len(c.servers)+len(c.domains) != 0 {
		t.Errorf("%+v", c)
	}
}

func FuzzDNSMessage(f *testing.F) {
	f.Add(pack(f, dnsmessage.Message{Header: dnsmessage.Header{Response: true}, Answers: serviceRecords(registerService, "local.", "reg", "h.local.", "192.0.2.1", 3210, "api_proto=http", "api_ver=v1.3", "pri=0")}))
	f.Add(pack(f, dnsmessage.Message{Questions: []dnsmessage.Question{{Name: name(peerService + ".local."), Type: dnsmessage.TypePTR, Class: dnsmessage.ClassINET}}}))
	a := testAdvertisement(f)
	f.Fuzz(func(t *testing.T, packet []byte) {
		m, err := parseDNS(packet)
		a.answer(m, false)
		a.answer(m, true)
		if err != nil {
			return
		}
		c := newRecordCache()
		c.add(m.records, at(0))
		for _, service := range services {
			for _, i := range c.instances(service+".local.", at(0)) {
				if b, _, ok := usable(i); ok {
					if _, err := checkHref(b.url, "http"); err != nil {
						t.Errorf("url %q: %v", b.url, err)
					}
				}
			}
		}
	})
}
