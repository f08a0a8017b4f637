package explain

import (
	"encoding/json"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/mxl-stack/mxl-fabrics-agent/tests/mesh"
)

// Exit codes of the command (operations.md, "Command line").
const (
	orderly = 0
	unasked = 1
	broken  = 2
)

// One mesh goes through what a controller and an operator do to it.
func TestSituations(t *testing.T) {
	p := newPlant(t).run()
	f := asked()
	here := func(w wanted) { t.Helper(); p.expect(p.B, domainID, f.ID, w) }
	there := func(w wanted) { t.Helper(); p.expect(p.A, domainID, f.ID, w) }

	t.Log("no receiver is connected")
	here(wanted{"", unasked, "Nothing is broken. No receiver on this host is connected to this flow", "activate the receiver"})
	there(wanted{"", unasked, "Nobody asks for this flow", "whose receiver"})

	t.Log("connected and flowing")
	p.flowing()
	here(wanted{"", orderly, "The mirror is live", ""})
	there(wanted{"", orderly, "Sent to host-b over tcp", ""})

	t.Log("the receiver is not enabled")
	p.connect(false, domainID, f.ID)
	here(wanted{"", unasked, "master_enable is false", "activate the receiver"})

	t.Log("an unknown flow of a known domain, an unknown domain")
	p.connect(true, domainID, unknownID)
	p.expect(p.B, domainID, unknownID, wanted{"origin", broken, "stale_reference: host-a lists the domain with 1 flow", "ids are old"})
	p.expect(p.A, domainID, unknownID, wanted{"origin", broken, "with 1 flow, and not this one", "Check the flow id"})
	p.connect(true, unknownID, unknownID)
	p.expect(p.B, unknownID, unknownID, wanted{"origin", broken, "unresolved: no peer that answers lists the domain; 1 of 1 answer", "Check the domain id"})
	here(wanted{"", unasked, "1 to others, 1 to none", "activate the receiver"})

	t.Log("excluded")
	p.connect(true, domainID, f.ID)
	p.must(p.B.Configure(p.ctx, map[string]string{"MIRROR_EXCLUDE_FLOWS": f.ID}))
	here(wanted{"mirror", broken, "filter of this host excludes", "MIRROR_EXCLUDE_FLOWS"})
	p.must(p.B.Configure(p.ctx, map[string]string{"MIRROR_EXCLUDE_FLOWS": ""}))
	here(wanted{"", orderly, "The mirror is live", ""})

	t.Log("the writer is killed, comes back, and ends")
	p.writer.Signal(syscall.SIGKILL)
	here(wanted{"origin", broken, "no writer holds it", "Start its writer on host-a"})
	there(wanted{"origin", broken, "no writer holds it", "Start its writer"})
	p.write()
	here(wanted{"", orderly, "The mirror is live", ""})
	p.writer.Stop(5 * time.Second)
	here(wanted{"origin", broken, "stale_reference", "start the writer"})
	there(wanted{"origin", broken, "with 0 flows", "Check the flow id"})
	p.write()
	here(wanted{"", orderly, "The mirror is live", ""})

	t.Log("the writer hangs")
	p.writer.Signal(syscall.SIGSTOP)
	here(wanted{"origin", broken, "writes nothing now", "signal of the function"})
	there(wanted{"origin", broken, "writes nothing now", "signal of the function"})
	p.writer.Signal(syscall.SIGCONT)
	here(wanted{"", orderly, "The mirror is live", ""})

	t.Log("the registry goes away: what was known stays")
	p.NMOS.StopRegistry()
	here(wanted{"", orderly, "The mirror is live", ""})
	p.must(p.NMOS.StartRegistry())

	t.Log("the source's agent stops")
	p.A.Stop(15 * time.Second)
	here(wanted{"peer", broken, "host-a does not answer", "Start its agent"})
	if code := func() int { a, _ := p.explain(p.A, domainID, f.ID); return a.Code }(); code != 3 {
		t.Errorf("exit code %d for an agent that does not run, want 3", code)
	}
	p.must(p.A.Start(p.ctx))
	here(wanted{"", orderly, "The mirror is live", ""})

	t.Log("the destination's agent stops")
	p.B.Stop(15 * time.Second)
	there(wanted{"peer", broken, "host-b does not answer", "Start its agent"})
}

// Each of these is there from the start of the agents.
func TestMisconfigured(t *testing.T) {
	peers := func(p *plant, of *mesh.Agent, entry map[string]string) {
		text, err := json.Marshal([]map[string]string{entry})
		p.must(err)
		of.Set("PEERS", string(text))
	}
	for _, c := range []struct {
		name    string
		prepare func(*plant)
		want    wanted
		source  *wanted // at A, when that is looked at too
		then    func(*plant)
	}{
		{name: "the source takes the peer for one of verbs", prepare: func(p *plant) {
			peers(p, p.A, map[string]string{"host_id": "host-b", "control_url": p.B.URL + "/api/v1", "provider": "verbs", "local_fabric_addr": "127.0.0.1"})
		}, want: wanted{"lane", broken, "http 500: provider verbs has no interface", "On host-a: The local fabric address"}},
		{name: "the destination wants verbs", prepare: func(p *plant) {
			peers(p, p.B, map[string]string{"host_id": "host-a", "control_url": p.A.URL + "/api/v1", "provider": "verbs", "local_fabric_addr": "127.0.0.1"})
		}, want: wanted{"lane", broken, "provider verbs", "DEFAULT_PROVIDER=tcp"}},
		{name: "the local address is on no device", prepare: func(p *plant) {
			peers(p, p.B, map[string]string{"host_id": "host-a", "control_url": p.A.URL + "/api/v1", "provider": "tcp", "local_fabric_addr": "192.0.2.77"})
		}, want: wanted{"link", broken, "no local interface has 192.0.2.77", "local_fabric_addr"}},
		{name: "the source's local address is on no device", prepare: func(p *plant) {
			peers(p, p.A, map[string]string{"host_id": "host-b", "control_url": p.B.URL + "/api/v1", "provider": "tcp", "local_fabric_addr": "192.0.2.77"})
		}, want: wanted{"lane", broken, "no local interface has 192.0.2.77", "local_fabric_addr"},
			source: &wanted{"link", broken, "no local interface has 192.0.2.77", "local_fabric_addr"}},
		{name: "no room for the mirror", prepare: func(p *plant) { p.reserve = "1048576" },
			want: wanted{"mirror", broken, "insufficient_space", "TMPFS_RESERVE_MB"}},
		{name: "the control url lacks its path", prepare: func(p *plant) {
			peers(p, p.B, map[string]string{"host_id": "host-a", "control_url": p.A.URL, "provider": "tcp", "local_fabric_addr": "127.0.0.1"})
		}, want: wanted{"origin", broken, "0 of 1 answer, not host-a (http 404", "has to end in /api/v1"}},
		{name: "nobody knows the source", prepare: func(p *plant) {
			p.B.Set("PEERS", "")
			p.A.Set("NMOS_ENABLE", "false")
		}, want: wanted{"origin", broken, "unresolved", "Configure PEERS"}},
		{name: "the control url leads to ourselves", prepare: func(p *plant) {
			peers(p, p.B, map[string]string{"host_id": "host-a", "control_url": p.B.URL + "/api/v1", "provider": "tcp", "local_fabric_addr": "127.0.0.1"})
		}, want: wanted{"origin", broken, "unresolved", "its control url leads to this agent itself"}},
		{name: "another name than the source's", prepare: func(p *plant) {
			peers(p, p.B, map[string]string{"host_id": "host-x", "control_url": p.A.URL + "/api/v1", "provider": "tcp", "local_fabric_addr": "127.0.0.1"})
		}, want: wanted{"", orderly, "The mirror is live", ""}, then: func(p *plant) {
			if lines := p.B.Logged("peer_host_id_differs", "peer", "host-x", "host_id", "host-a"); len(lines) != 1 {
				p.t.Errorf("%d lines peer_host_id_differs, want 1", len(lines))
			}
			var rows []struct {
				HostID  string `json:"host_id"`
				Up      bool   `json:"up"`
				Warning string `json:"warning"`
			}
			p.must(p.B.Get(p.ctx, "/api/v1/peers", &rows))
			for _, row := range rows {
				if !row.Up || (row.HostID == "host-x") != (row.Warning == `it answers as "host-a"`) {
					p.t.Errorf("%+v", row)
				}
			}
		}},
		{name: "NMOS is off", prepare: func(p *plant) {
			p.B.Set("NMOS_ENABLE", "false")
		}, want: wanted{"receiver", broken, "NMOS is off", "NMOS_ENABLE=true"}},
		{name: "a directory of another agent is in the way", prepare: func(p *plant) {
			directory := p.B.MirrorDomain(domainID)
			p.must(os.MkdirAll(directory, 0o755))
			p.must(os.WriteFile(filepath.Join(directory, "domain_def.json"), []byte(`{"id":"`+domainID+`","label":"","description":"","tags":{},
				"x-mxl-fabrics-agent":{"mirror":true,"source_host_id":"host-a","owner_host_id":"host-z"}}`), 0o644))
		}, want: wanted{"mirror", broken, "is not this agent's", "HOST_ID"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			p := newPlant(t)
			c.prepare(p)
			p.run()
			p.connect(true, domainID, asked().ID)
			p.expect(p.B, domainID, asked().ID, c.want)
			if c.source != nil {
				p.expect(p.A, domainID, asked().ID, *c.source)
			}
			if c.then != nil {
				c.then(p)
			}
		})
	}
}

// A destination that starts while the registry is away knows no receivers and says
// why.
func TestRegistryAwayAtTheStart(t *testing.T) {
	p := newPlant(t)
	p.must(p.A.Start(p.ctx))
	p.write()
	p.connect(true, domainID, asked().ID)
	p.NMOS.StopRegistry()
	p.must(p.B.Launch(""))
	p.expect(p.B, domainID, asked().ID, wanted{"receiver", broken, "registry does not answer", "NMOS_REGISTRY_ADDRESS"})
	p.must(p.NMOS.StartRegistry())
	p.expect(p.B, domainID, asked().ID, wanted{"", orderly, "The mirror is live", ""})
}
