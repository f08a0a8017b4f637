package nmos

import (
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

func TestObserverFindsWhatReceiversWant(t *testing.T) {
	for name, change := range map[string]func(*facility, *ObserverConfig){
		"subscriptions":            func(*facility, *ObserverConfig) {},
		"polling only":             func(_ *facility, c *ObserverConfig) { c.NoSubscriptions = true },
		"subscriptions refused":    func(f *facility, _ *ObserverConfig) { f.noSubs = true },
		"no parameters, no paging": func(f *facility, _ *ObserverConfig) { f.plainOnly, f.pageSize = true, 0 },
	} {
		t.Run(name, func(t *testing.T) {
			f := newFacility(t)
			for n := range 13 { // more than one page of each kind
				f.putNode(n, "127.0.0.1", 2*n, 2*n+1)
			}
			f.putNode(50, "192.0.2.77", 99)
			o := observe(t, f, func(c *ObserverConfig) { change(f, c) })
			s := await(t, o, "26 local receivers read", func(s Snapshot) bool {
				n := 0
				for _, r := range s.Receivers {
					if r.Local && r.ActiveKnown {
						n++
					}
				}
				return s.RegistryUp && n == 26
			})
			if len(s.Receivers) != 27 || s.receiver(99).Local || s.receiver(99).ActiveKnown {
				t.Errorf("%d receivers, the remote one %+v", len(s.Receivers), s.receiver(99))
			}
			if r := s.receiver(3); r.LocalRule != "ip" || r.NodeLabel != "node 1" || r.Label != "receiver 3" || r.Wanted() || r.Stale {
				t.Errorf("receiver 3: %+v", r)
			}
			f.activate(1, 3, true, domain1, flow1, "2:0")
			await(t, o, "activation", func(s Snapshot) bool {
				r := s.receiver(3)
				return r.Wanted() && r.DomainID == domain1 && r.FlowID == flow1
			})
			f.activate(1, 3, true, domain1, strings.ToUpper(flow2), "2:0") // same version: coarse clocks exist
			await(t, o, "switch", func(s Snapshot) bool { return s.receiver(3).FlowID == flow2 })
			f.activate(1, 3, false, domain1, flow2, "3:0")
			await(t, o, "deactivation", func(s Snapshot) bool { return s.receiver(3).ActiveKnown && !s.receiver(3).Wanted() })
			if f.readsOf(testID(kindReceiver, 99)) != 0 {
				t.Error("a remote receiver's /active was read")
			}
		})
	}
}

// With subscriptions a change is seen at once, not at the next poll.
func TestObserverSubscriptionIsFast(t *testing.T) {
	f := newFacility(t)
	f.putNode(1, "127.0.0.1", 1)
	o := observe(t, f, func(c *ObserverConfig) { c.PollInterval = time.Minute })
	await(t, o, "subscriptions and a first read", func(s Snapshot) bool { return s.Subscribed && s.receiver(1).ActiveKnown })
	start := time.Now()
	f.activate(1, 1, true, domain1, flow1, "2:0")
	await(t, o, "activation", func(s Snapshot) bool { return s.receiver(1).Wanted() })
	if took := time.Since(start); took > 2*time.Second {
		t.Errorf("seen after %v", took)
	}
	f.putNode(2, "127.0.0.1", 2)
	await(t, o, "a new node", func(s Snapshot) bool { return s.receiver(2).ActiveKnown })
}

func TestObserverSubscribesAgainAfterADrop(t *testing.T) {
	f := newFacility(t)
	f.putNode(1, "127.0.0.1", 1)
	o := observe(t, f, nil)
	await(t, o, "subscriptions", func(s Snapshot) bool { return s.Subscribed && s.receiver(1).ActiveKnown })
	f.dropSockets()
	await(t, o, "the drop", func(s Snapshot) bool { return !s.Subscribed })
	s := await(t, o, "new subscriptions", func(s Snapshot) bool { return s.Subscribed })
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.subs <= int(kinds) || s.Stale || !s.RegistryUp {
		t.Errorf("%d subscriptions made, snapshot %+v", f.subs, s)
	}
}

// A message over the library's own 32 KiB limit is normal.
func TestObserverLargeMessage(t *testing.T) {
	f := newFacility(t)
	for n := range 200 {
		f.putNode(n, "192.0.2.1", n)
	}
	o := observe(t, f, nil)
	await(t, o, "subscriptions", func(s Snapshot) bool { return s.Subscribed && len(s.Receivers) == 200 })
}

func TestObserverKeepsWhatItKnew(t *testing.T) {
	for name, fail := range map[string]func(*facility){
		"500":         func(f *facility) { f.status = 500 },
		"truncated":   func(f *facility) { f.truncate = true },
		"no array":    func(f *facility) { f.raw = `{"receivers":[]}` },
		"null":        func(f *facility) { f.raw = `null` },
		"over 8 MiB":  func(f *facility) { f.raw = `["` + strings.Repeat("x", responseLimit) + `"]` },
		"empty":       func(f *facility) { f.docs = [kinds][]facilityDoc{} },
		"some return": func(f *facility) { f.docs[kindReceiver], f.docs[kindDevice] = nil, nil },
	} {
		t.Run(name, func(t *testing.T) {
			f := newFacility(t)
			f.putNode(1, "127.0.0.1", 1)
			f.activate(1, 1, true, domain1, flow1, "2:0")
			var lines logLines
			o := observe(t, f, func(c *ObserverConfig) {
				c.NoSubscriptions = true
				c.Log = slog.New(slog.NewJSONHandler(&lines, nil))
			})
			before := await(t, o, "the activation", func(s Snapshot) bool { return s.receiver(1).Wanted() })
			f.set(func() { fail(f) })
			s := await(t, o, "staleness", func(s Snapshot) bool { return s.Stale })
			if r := s.receiver(1); !r.Wanted() || !r.Local || !r.Stale {
				t.Errorf("the receiver is %+v", r)
			}
			if down := name != "empty" && name != "some return"; down != !s.RegistryUp || down != (s.RegistryError != "") {
				t.Errorf("registry up %t, error %q", s.RegistryUp, s.RegistryError)
			} else if down {
				s = await(t, o, "errors", func(s Snapshot) bool { return s.PollErrors > before.PollErrors+2 })
				if n := lines.count("nmos_registry_down"); n != 1 {
					t.Errorf("%d lines about one outage", n)
				}
			}
			if name == "over 8 MiB" && !strings.Contains(s.RegistryError, "8 MiB") {
				t.Errorf("error %q does not name the limit", s.RegistryError)
			}
			// What a node says about itself still counts.
			f.activate(1, 1, true, domain1, flow2, "")
			await(t, o, "a switch during the outage", func(s Snapshot) bool { return s.receiver(1).FlowID == flow2 })
		})
	}
}

func TestObserverRemovedReceiverGoes(t *testing.T) {
	f := newFacility(t)
	f.putNode(7, "192.0.2.50")
	f.putNode(1, "127.0.0.1", 1, 2)
	o := observe(t, f, func(c *ObserverConfig) {
		c.OwnNodeID = testID(kindNode, 7)
		c.RemoveHold, c.RestartHold = 300*time.Millisecond, 100*time.Millisecond
	})
	await(t, o, "two receivers", func(s Snapshot) bool { return s.Subscribed && s.receiver(1).ActiveKnown && s.receiver(2).ActiveKnown })
	start := time.Now()
	f.remove(kindReceiver, testID(kindReceiver, 1))
	await(t, o, "the mark", func(s Snapshot) bool { return s.receiver(1).Stale && s.Stale })
	s := await(t, o, "the removal", func(s Snapshot) bool { return len(s.Receivers) == 1 })
	if took := time.Since(start); took < 250*time.Millisecond {
		t.Errorf("gone after %v", took)
	}
	if s.Stale || s.receiver(2).Stale {
		t.Errorf("still stale: %+v", s)
	}
}

func TestObserverRestartedRegistry(t *testing.T) {
	f := newFacility(t)
	own := testID(kindNode, 7)
	f.putNode(7, "192.0.2.50")
	f.putNode(1, "127.0.0.1", 1)
	f.activate(1, 1, true, domain1, flow1, "2:0")
	// Long beside a pass on a busy machine: what one pass lost must not be let go of
	// before the next one shows the restart.
	const hold = 700 * time.Millisecond
	var epoch atomic.Uint64
	o := observe(t, f, func(c *ObserverConfig) {
		c.OwnNodeID, c.RegistrationEpoch = own, epoch.Load
		c.RemoveHold, c.RestartHold = hold, hold
	})
	await(t, o, "the activation", func(s Snapshot) bool { return s.Subscribed && s.receiver(1).Wanted() })
	f.restart()
	await(t, o, "the mark", func(s Snapshot) bool { return s.receiver(1).Stale })
	// Only we come back; no pass need have seen us away.
	epoch.Add(1)
	f.putNode(7, "192.0.2.50")
	f.set(func() { f.reads = map[string]int{} })
	back := time.Now()
	await(t, o, "ten more reads, long after the holds", func(s Snapshot) bool {
		if !s.receiver(1).Wanted() {
			t.Fatalf("the receiver went though its node answers: %+v", s)
		}
		return f.readsOf(testID(kindReceiver, 1)) >= 10 && time.Since(back) > 2*hold
	})
	// When the node goes too, that is the end of it.
	f.set(func() {
		f.activeAt = func(w http.ResponseWriter, _ *http.Request, _ string) bool {
			writeError(w, http.StatusNotFound, "gone")
			return true
		}
	})
	await(t, o, "the end", func(s Snapshot) bool { return len(s.Receivers) == 0 })
}

func TestObserverActiveFallBacks(t *testing.T) {
	f := newFacility(t)
	var hang atomic.Bool
	f.activeAt = func(w http.ResponseWriter, r *http.Request, id string) bool {
		if id == testID(kindReceiver, 2) && hang.Load() {
			<-r.Context().Done()
			return true
		}
		return false
	}
	for r, controls := range []string{
		`{"type":"urn:x-nmos:control:sr-ctrl/v1.1","href":"%/x-nmos/connection/v1.1/"}`,                                                                         // 409 names v1.2
		`{"type":"urn:x-nmos:control:sr-ctrl/v1.2","href":"http://127.0.0.1:1/x"},{"type":"urn:x-nmos:control:sr-ctrl/v1.2","href":"%/x-nmos/connection/v1.2"}`, // the second interface
		`{"type":"urn:x-nmos:control:sr-ctrl/v1.2","href":"%/x-nmos/connection/v1.2///"}`,
		`{"type":"urn:x-nmos:control:sr-ctrl/v1.2","href":"http://u:p@127.0.0.1/x"},{"type":"urn:x-nmos:control:sr-ctrl/v1.2","href":"file:///etc/passwd"}`,
	} {
		f.putNode(r, "127.0.0.1", r)
		f.put(kindDevice, testID(kindDevice, r), `{"id":"`+testID(kindDevice, r)+`","node_id":"`+testID(kindNode, r)+`","controls":[`+strings.ReplaceAll(controls, "%", f.srv.URL)+`]}`)
		f.activate(r, r, true, domain1, flow1, "2:0")
	}
	var lines logLines
	o := observe(t, f, func(c *ObserverConfig) { c.Log = slog.New(slog.NewJSONHandler(&lines, nil)) })
	s := await(t, o, "three readable receivers", func(s Snapshot) bool {
		return s.receiver(0).Wanted() && s.receiver(1).Wanted() && s.receiver(2).Wanted() && s.BadResources >= 2
	})
	if s.receiver(3).ActiveKnown {
		t.Error("read at an href with userinfo or another scheme")
	}
	await(t, o, "errors", func(s Snapshot) bool { return s.ActiveErrors > 2 })
	if n := lines.count("nmos_active_unavailable"); n != 1 {
		t.Errorf("%d lines about one unreadable receiver", n)
	}

	// One node that hangs costs its own receivers freshness and nobody else.
	hang.Store(true)
	await(t, o, "a stale active", func(s Snapshot) bool { return s.receiver(2).ActiveStale && s.receiver(2).Wanted() })
	f.activate(0, 0, true, domain1, flow2, "3:0")
	start := time.Now()
	await(t, o, "another receiver's switch", func(s Snapshot) bool { return s.receiver(0).FlowID == flow2 })
	if took := time.Since(start); took > 1500*time.Millisecond { // a read times out after 2 s
		t.Errorf("seen after %v while another node hangs", took)
	}
	hang.Store(false)
	await(t, o, "recovery", func(s Snapshot) bool { return !s.receiver(2).ActiveStale })
}

func TestObserverAgents(t *testing.T) {
	f := newFacility(t)
	agent := func(n int, body string) {
		f.put(kindNode, testID(kindNode, n), `{"id":"`+testID(kindNode, n)+`","version":"1:0",`+body+`}`)
	}
	service := `"services":[{"type":"other","href":"http://x/"},{"type":"` + ServiceType + `","href":"http://192.0.2.1:8095/api/v1/"}]`
	agent(1, service+`,"tags":{"`+HostIDTag+`":["node-b"],"odd":7},"hostname":"h"`)
	agent(2, service+`,"tags":{},"hostname":"node-c"`)
	agent(3, service+`,"tags":{"`+HostIDTag+`":["me"]}`)
	agent(4, service+`,"tags":{"`+HostIDTag+`":["node-b"]}`) // the same host id twice
	agent(5, `"services":[{"type":"`+ServiceType+`","href":"ftp://192.0.2.1/"}],"hostname":"node-d"`)
	agent(6, service) // nobody's
	o := observe(t, f, func(c *ObserverConfig) { c.OwnHostID = "me" })
	s := await(t, o, "agents", func(s Snapshot) bool { return len(s.Agents) > 0 })
	want := []Agent{
		{HostID: "node-b", ControlURL: "http://192.0.2.1:8095/api/v1", NodeID: testID(kindNode, 1)},
		{HostID: "node-c", ControlURL: "http://192.0.2.1:8095/api/v1", NodeID: testID(kindNode, 2)},
	}
	if len(s.Agents) != 2 || s.Agents[0] != want[0] || s.Agents[1] != want[1] {
		t.Errorf("agents %+v", s.Agents)
	}
	if s.BadResources != 2 {
		t.Errorf("%d bad resources, want 2", s.BadResources)
	}
}

func TestObserverOneBadResource(t *testing.T) {
	f := newFacility(t)
	f.putNode(1, "127.0.0.1", 1)
	bad := []string{
		`{}`, `7`, `null`, `"x"`, `[]`, `{"id":7}`, `{"id":"not-a-uuid"}`, `{"id":"` + testID(kindReceiver, 90) + `"}`,
		`{"id":"` + testID(kindReceiver, 91) + `","transport":[]}`,
		`{"id":"` + testID(kindReceiver, 92) + `","transport":"urn:x-nmos:transport:mxl","device_id":"no"}`,
		`{"id":"` + testID(kindReceiver, 93) + `","transport":"urn:x-nmos:transport:mxl","device_id":"` + testID(kindDevice, 1) + `","label":{}}`,
	}
	f.plainOnly, f.pageSize = true, 0 // no filter, so that all of them arrive
	for i, b := range bad {
		f.docs[kindReceiver] = append(f.docs[kindReceiver], facilityDoc{id: string(rune('a' + i)), body: b})
	}
	var lines logLines
	o := observe(t, f, func(c *ObserverConfig) {
		c.NoSubscriptions = true
		c.Log = slog.New(slog.NewJSONHandler(&lines, nil))
	})
	await(t, o, "the good one", func(s Snapshot) bool { return s.receiver(1).ActiveKnown })
	f.set(func() { f.passes = 0 })
	s := await(t, o, "five passes", func(Snapshot) bool { f.mu.Lock(); defer f.mu.Unlock(); return f.passes > 5 })
	if len(s.Receivers) != 1 || !s.RegistryUp {
		t.Errorf("snapshot %+v", s)
	}
	if n := lines.count("nmos_resource_ignored"); n != len(bad) || s.BadResources != uint64(len(bad)) {
		t.Errorf("%d lines, %d counted, want %d each and once", n, s.BadResources, len(bad))
	}
}

func TestObserverWithoutRegistry(t *testing.T) {
	f := newFacility(t)
	var lines logLines
	o := observe(t, f, func(c *ObserverConfig) {
		c.Directory = StaticDirectory{}
		c.PollInterval = time.Millisecond
		c.Log = slog.New(slog.NewJSONHandler(&lines, nil))
	})
	time.Sleep(50 * time.Millisecond) // nothing is to happen
	if s := o.Snapshot(); s.RegistryUp || s.RegistryError != "" || s.PollErrors != 0 || s.Stale || lines.buf.Len() != 0 {
		t.Errorf("snapshot %+v, log %s", s, lines.buf.String())
	}
}
