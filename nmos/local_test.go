package nmos

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func prefixes(list ...string) (out []netip.Prefix) {
	for _, p := range list {
		out = append(out, netip.MustParsePrefix(p))
	}
	return out
}

func TestLocalRules(t *testing.T) {
	own, listed := "00000001-0000-4000-8000-000000000000", "00000002-0000-4000-8000-000000000000"
	l := NewLocalRules(LocalConfig{
		OwnNodeID: own, IDs: []string{" " + listed + " ", ""}, Hostnames: []string{"Other.Test.", "00000003-0000-4000-8000-000000000000"},
		Hostname: "host-b.test", CIDRs: prefixes("10.42.1.0/24", "2001:db8:1::/64"),
		Addresses: func() []netip.Addr {
			return []netip.Addr{netip.MustParseAddr("127.0.0.1"), netip.MustParseAddr("192.0.2.2"), netip.MustParseAddr("2001:db8::2")}
		},
		Lookup: func(context.Context, string) ([]netip.Addr, error) { return nil, errors.New("none") },
	})
	for name, c := range map[string]struct {
		node LocalNode
		want string
	}{
		"own, though everything fits": {LocalNode{own, "host-b.test", []string{"127.0.0.1"}}, ""},
		"listed id":                   {LocalNode{ID: listed}, "list"},
		"listed id before host name":  {LocalNode{ID: listed, Hostname: "host-b.test"}, "list"},
		"our host name":               {LocalNode{ID: "x", Hostname: "HOST-B.test."}, "hostname"},
		"localhost proves nothing":    {LocalNode{ID: "x", Hostname: "localhost"}, ""},
		"no host name proves nothing": {LocalNode{ID: "x"}, ""},
		"listed host name":            {LocalNode{ID: "x", Hostname: "other.test"}, "list"},
		"node id in the host names":   {LocalNode{ID: "00000003-0000-4000-8000-000000000000"}, "list"},
		"our address":                 {LocalNode{ID: "x", Hosts: []string{"198.51.100.1", "192.0.2.2"}}, "ip"},
		"our address before cidr":     {LocalNode{ID: "x", Hosts: []string{"10.42.1.9", "192.0.2.2"}}, "ip"},
		"loopback":                    {LocalNode{ID: "x", Hosts: []string{"127.0.0.1"}}, "ip"},
		"mapped":                      {LocalNode{ID: "x", Hosts: []string{"::ffff:192.0.2.2"}}, "ip"},
		"our ipv6 address":            {LocalNode{ID: "x", Hosts: []string{"2001:DB8::2"}}, "ip"},
		"ipv6 in brackets":            {LocalNode{ID: "x", Hosts: []string{"[2001:db8::2]"}}, "ip"},
		"pod":                         {LocalNode{ID: "x", Hosts: []string{"10.42.1.77"}}, "cidr"},
		"another node's pod":          {LocalNode{ID: "x", Hosts: []string{"10.42.2.77"}}, ""},
		"ipv6 pod":                    {LocalNode{ID: "x", Hosts: []string{"2001:db8:1::9"}}, "cidr"},
		"elsewhere":                   {LocalNode{ID: "x", Hostname: "host-c.test", Hosts: []string{"192.0.2.3", "", "name with blanks"}}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			if rule, local := l.Match(c.node); rule != c.want || local != (c.want != "") {
				t.Errorf("rule %q, %t; want %q", rule, local, c.want)
			}
		})
	}
	l.wait()
}

// Names are looked up beside Match, for at most 250 ms, and kept for 30 s.
func TestLocalRulesLookup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked atomic.Int32
		var fail atomic.Pointer[error]
		l := NewLocalRules(LocalConfig{
			Hostname: "host-b.test", CIDRs: prefixes("10.42.1.0/24"), Addresses: func() []netip.Addr { return nil },
			Lookup: func(ctx context.Context, name string) ([]netip.Addr, error) {
				asked.Add(1)
				if name == "slow.test" {
					<-ctx.Done()
					return nil, ctx.Err()
				}
				if err := fail.Load(); err != nil {
					return nil, *err
				}
				return []netip.Addr{netip.MustParseAddr("::ffff:10.42.1.5")}, nil
			},
		})
		node := LocalNode{ID: "x", Hosts: []string{"pod.test"}}
		if _, local := l.Match(node); local {
			t.Error("local before the name was looked up")
		}
		<-l.Resolved()
		if rule, _ := l.Match(node); rule != "cidr" {
			t.Errorf("rule %q", rule)
		}
		time.Sleep(29 * time.Second)
		l.Match(node)
		if n := asked.Load(); n != 1 {
			t.Errorf("%d lookups in 30 s", n)
		}
		timeout := error(&net.DNSError{Err: "i/o timeout", IsTimeout: true})
		fail.Store(&timeout)
		time.Sleep(2 * time.Second)
		l.Match(node)
		<-l.Resolved()
		if rule, _ := l.Match(node); rule != "cidr" || asked.Load() != 2 {
			t.Errorf("rule %q after a resolver time-out, %d lookups", rule, asked.Load())
		}
		gone := error(&net.DNSError{Err: "no such host", IsNotFound: true})
		fail.Store(&gone)
		time.Sleep(31 * time.Second)
		l.Match(node)
		<-l.Resolved()
		if _, local := l.Match(node); local {
			t.Error("still local though the name is gone")
		}
		start := time.Now()
		l.Match(LocalNode{ID: "y", Hosts: []string{"slow.test"}})
		if time.Since(start) != 0 {
			t.Error("Match waited")
		}
		<-l.Resolved()
		if took := time.Since(start); took != lookupTimeout {
			t.Errorf("a lookup took %v", took)
		}
	})
}

func TestLocalRulesWithoutCIDRsLooksNothingUp(t *testing.T) {
	l := NewLocalRules(LocalConfig{Hostname: "h", Lookup: func(context.Context, string) ([]netip.Addr, error) {
		t.Error("looked up")
		return nil, nil
	}})
	l.Match(LocalNode{ID: "x", Hosts: []string{"pod.test"}})
	l.wait()
}

// Names are foreign: neither the cache nor the lookups at once grow with them.
func TestLocalRulesManyNames(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var running, most atomic.Int32
		l := NewLocalRules(LocalConfig{
			Hostname: "h", CIDRs: prefixes("10.0.0.0/8"), Addresses: func() []netip.Addr { return nil },
			Lookup: func(ctx context.Context, _ string) ([]netip.Addr, error) {
				most.Store(max(most.Load(), running.Add(1)))
				defer running.Add(-1)
				time.Sleep(time.Millisecond)
				return nil, errors.New("none")
			},
		})
		for range 3 {
			for n := range 6000 {
				l.Match(LocalNode{ID: "x", Hosts: []string{testID(kindNode, n) + ".test"}})
			}
			synctest.Wait()
			time.Sleep(time.Second)
		}
		l.wait()
		if len(l.cache) > lookupsKept || most.Load() > lookupsAtOnce {
			t.Errorf("%d names kept, %d lookups at once", len(l.cache), most.Load())
		}
	})
}

// Names that nobody knows, as many as are kept, do not keep a good one waiting: it is
// looked up again within the second in which it is due.
func TestLocalRulesDeadNamesDelayNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var last time.Time
		var longest time.Duration
		var mu sync.Mutex
		l := NewLocalRules(LocalConfig{
			Hostname: "h", CIDRs: prefixes("10.0.0.0/8"), Addresses: func() []netip.Addr { return nil },
			Lookup: func(ctx context.Context, name string) ([]netip.Addr, error) {
				if name != "good.test" {
					<-ctx.Done()
					return nil, ctx.Err()
				}
				mu.Lock()
				defer mu.Unlock()
				if !last.IsZero() {
					longest = max(longest, time.Since(last))
				}
				last = time.Now()
				return []netip.Addr{netip.MustParseAddr("10.0.0.1")}, nil
			},
		})
		match := func() {
			for n := range 1000 {
				l.Match(LocalNode{ID: "x", Hosts: []string{testID(kindNode, n) + ".test"}})
			}
			l.Match(LocalNode{ID: "y", Hosts: []string{"good.test"}})
		}
		for range 160 { // every name has failed once by then
			match()
			time.Sleep(lookupTimeout)
		}
		mu.Lock()
		longest = 0
		mu.Unlock()
		for range 400 {
			match()
			time.Sleep(lookupTimeout)
		}
		l.wait()
		if longest == 0 || longest > lookupLife+time.Second {
			t.Errorf("the good name was looked up again after %v", longest)
		}
	})
}
