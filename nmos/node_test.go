package nmos

import (
	"net"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"testing"
	"time"
)

// nodeVariants are the configurations whose documents must satisfy every rule.
func nodeVariants(t *testing.T) map[string]*Node {
	t.Helper()
	nodes := map[string]*Node{}
	for name, cfg := range map[string]NodeConfig{
		"plain": {HostID: "node-a", HostAddress: netip.MustParseAddr("192.0.2.10"), Port: 3232, WebPort: 8095},
		"full": {HostID: "node-a", Seed: "seed", Label: "Label <&> é", HostAddress: netip.MustParseAddr("::ffff:192.0.2.10"), Port: 1, WebPort: 65535,
			Tags: map[string][]string{"room": {"a", "b"}, "empty": {}, "nil": nil, HostIDTag: {"forged"}}},
		"ipv6": {HostID: "node-a", HostAddress: netip.MustParseAddr("2001:db8::7"), Port: 65534, WebPort: 8095},
	} {
		n, err := NewNode(cfg)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		nodes[name] = n
	}
	return nodes
}

// TestNodeSchemaRules has one subtest per rule of NMOS reference §1, §2 and the
// interface reference §13.1.
func TestNodeSchemaRules(t *testing.T) {
	text := func(v any) string { s, _ := v.(string); return s }
	list := func(v any) []any { l, _ := v.([]any); return l }
	object := func(v any) map[string]any { m, _ := v.(map[string]any); return m }
	rules := []struct {
		name string
		ok   func(doc map[string]any) bool
	}{
		{"required keys are there", func(d map[string]any) bool {
			for _, k := range []string{"id", "version", "label", "description", "tags", "href", "api", "caps", "services", "clocks", "interfaces"} {
				if _, ok := d[k]; !ok {
					return false
				}
			}
			return true
		}},
		{"id is a lower case uuid of version 1-5", func(d map[string]any) bool {
			return regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-[1-5][0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`).MatchString(text(d["id"]))
		}},
		{"version is seconds:nanoseconds without padding", func(d map[string]any) bool {
			return regexp.MustCompile(`^(0|[1-9][0-9]*):(0|[1-9][0-9]{0,8})$`).MatchString(text(d["version"]))
		}},
		{"version is TAI, 37 s ahead of UTC", func(d map[string]any) bool {
			v, err := ParseTimestamp(text(d["version"]))
			ahead := v.Seconds - time.Now().Unix()
			return err == nil && ahead >= 30 && ahead <= 37
		}},
		{"label and description are strings", func(d map[string]any) bool {
			_, a := d["label"].(string)
			return a && d["description"] == "mxl-fabrics-agent"
		}},
		{"tags are arrays of strings", func(d map[string]any) bool {
			tags, ok := d["tags"].(map[string]any)
			for _, v := range tags {
				values, isList := v.([]any)
				ok = ok && isList
				for _, x := range values {
					_, isText := x.(string)
					ok = ok && isText
				}
			}
			return ok
		}},
		{"host-id tag is HOST_ID whatever NMOS_TAGS says", func(d map[string]any) bool {
			l := list(object(d["tags"])[HostIDTag])
			return len(l) == 1 && l[0] == "node-a"
		}},
		{"href is a URI with scheme and final slash", func(d map[string]any) bool {
			u, err := url.Parse(text(d["href"]))
			return err == nil && u.Scheme == "http" && u.Host != "" && u.Path == "/"
		}},
		{"hostname, if present, is a host name", func(d map[string]any) bool {
			h, present := d["hostname"]
			return !present || regexp.MustCompile(`^[A-Za-z0-9.-]+$`).MatchString(text(h))
		}},
		{"api.versions names what is served, without slashes", func(d map[string]any) bool {
			l := list(object(d["api"])["versions"])
			return len(l) == 1 && l[0] == "v1.3"
		}},
		{"api.endpoints have host, integer port, protocol, boolean authorization", func(d map[string]any) bool {
			eps := list(object(d["api"])["endpoints"])
			for _, x := range eps {
				e := object(x)
				port, isNumber := e["port"].(float64)
				auth, isBool := e["authorization"].(bool)
				if _, err := netip.ParseAddr(text(e["host"])); err != nil || !isNumber || port < 1 || port > 65535 || port != float64(int(port)) ||
					e["protocol"] != "http" || !isBool || auth {
					return false
				}
			}
			return len(eps) > 0
		}},
		{"href equals one endpoint", func(d map[string]any) bool {
			u, err := url.Parse(text(d["href"]))
			return err == nil && slices.ContainsFunc(list(object(d["api"])["endpoints"]), func(x any) bool {
				e := object(x)
				port, _ := e["port"].(float64)
				return net.JoinHostPort(text(e["host"]), strconv.Itoa(int(port))) == u.Host && e["protocol"] == u.Scheme
			})
		}},
		{"caps is an empty object", func(d map[string]any) bool {
			m, ok := d["caps"].(map[string]any)
			return ok && len(m) == 0
		}},
		{"one service of our type at the control api, no slash at the end", func(d map[string]any) bool {
			l := list(d["services"])
			s := object(l[0])
			u, err := url.Parse(text(s["href"]))
			return len(l) == 1 && s["type"] == ServiceType && s["authorization"] == false && err == nil && u.Scheme == "http" && u.Path == "/api/v1"
		}},
		{"clocks is an array", func(d map[string]any) bool { l, ok := d["clocks"].([]any); return ok && len(l) == 0 }},
		{"interfaces is an array", func(d map[string]any) bool { l, ok := d["interfaces"].([]any); return ok && len(l) == 0 }},
		{"asset tags: all three or none", func(d map[string]any) bool {
			n := 0
			for _, k := range []string{"manufacturer", "product", "instance-id"} {
				if _, ok := object(d["tags"])["urn:x-nmos:tag:asset:"+k+"/v1.0"]; ok {
					n++
				}
			}
			return n == 0 || n == 3
		}},
	}
	for name, n := range nodeVariants(t) {
		doc := unmarshal(t, n.Document())
		for _, r := range rules {
			t.Run(name+"/"+r.name, func(t *testing.T) {
				if !r.ok(doc) {
					t.Errorf("broken by %s", n.Document())
				}
			})
		}
	}
}

func TestNodeID(t *testing.T) {
	if got := NodeID("node-a"); got != "6c7c9cb6-7445-5ea2-a152-a8c9937d4512" {
		t.Errorf("id of node-a is %s", got)
	}
	if testNode(t).ID() != NodeID("node-a") {
		t.Error("without a seed the id comes from the host id")
	}
	n, err := NewNode(NodeConfig{HostID: "node-a", Seed: "other", HostAddress: netip.MustParseAddr("192.0.2.10"), Port: 1, WebPort: 2})
	if err != nil || n.ID() != NodeID("other") {
		t.Errorf("%v, id %s", err, n.ID())
	}
}

func TestNodeVersionRises(t *testing.T) {
	now := time.Unix(1000, 999_999_999)
	cfg := NodeConfig{HostID: "node-a", HostAddress: netip.MustParseAddr("192.0.2.10"), Port: 3232, WebPort: 8095, Now: func() time.Time { return now }}
	n, err := NewNode(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if got := n.Version().String(); got != "1037:999999999" {
		t.Fatalf("version %s", got)
	}
	now = now.Add(time.Hour)
	if err := n.Update(cfg); err != nil || n.Version().String() != "1037:999999999" {
		t.Errorf("%v: an unchanged node got version %v", err, n.Version())
	}
	select {
	case <-n.changes():
		t.Error("an unchanged node told of a change")
	default:
	}
	now = now.Add(-2 * time.Hour) // the clock goes back
	cfg.Label = "b"
	if err := n.Update(cfg); err != nil || n.Version().String() != "1038:0" {
		t.Errorf("%v: version %v, want one nanosecond more", err, n.Version())
	}
	<-n.changes()
	cfg.Seed = "other"
	if err := n.Update(cfg); err == nil {
		t.Error("the id changed")
	}
}

func TestNodeConfigErrors(t *testing.T) {
	good := NodeConfig{HostID: "a", HostAddress: netip.MustParseAddr("192.0.2.10"), Port: 3232, WebPort: 8095}
	for name, change := range map[string]func(*NodeConfig){
		"no host id":          func(c *NodeConfig) { c.HostID = "" },
		"no address":          func(c *NodeConfig) { c.HostAddress = netip.Addr{} },
		"unspecified address": func(c *NodeConfig) { c.HostAddress = netip.IPv6Unspecified() },
		"port 65535":          func(c *NodeConfig) { c.Port = 65535 }, // the WebSocket is one above
		"web port 0":          func(c *NodeConfig) { c.WebPort = 0 },
	} {
		cfg := good
		change(&cfg)
		if _, err := NewNode(cfg); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

func TestTimestamps(t *testing.T) {
	for text, ok := range map[string]bool{"1:2": true, "0:0": true, "10:5": true, "1:0000000001": true, "": false, "1": false, "1:": false, ":1": false, "-1:0": false, "1:2:3": false, "a:b": false, "99999999999999999999:0": false} {
		if _, err := ParseTimestamp(text); (err == nil) != ok {
			t.Errorf("ParseTimestamp(%q): %v", text, err)
		}
	}
	a, b := Timestamp{9, 999}, Timestamp{10, 5} // as text 9 is after 10
	if a.Compare(b) >= 0 || b.Compare(a) <= 0 || b.Compare(Timestamp{10, 5}) != 0 || b.Compare(Timestamp{10, 40}) >= 0 {
		t.Error("timestamps are two integers")
	}
}
