package peers

import (
	"testing"
	"testing/synctest"
	"time"
)

func TestIdentityDoubt(t *testing.T) {
	for _, c := range []struct {
		name, hostID, bootID, want string
	}{
		{"the expected one", "node-b", "b", ""},
		{"one that tells no id", "", "b", ""},
		{"another one", "node-z", "z", `it answers as "node-z"`},
		{"another host with our id", "node-a", "z", `it answers with this host's own HOST_ID "node-a": every agent needs one of its own`},
		{"ourselves", "node-a", "own", "its control url leads to this agent itself"},
	} {
		if got := identityDoubt("node-b", "node-a", "own", Info{HostID: c.hostID, BootID: c.bootID}); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

// TestOtherHostAnswers: the peer stays up, says what is wrong as long as it is,
// and the log has one line for the begin and one for the end.
func TestOtherHostAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		f.with("u:b", func(h *fakeHost) { h.hostID = "z" })
		table, lines := running(t, f, Config{Static: []Static{{HostID: "b", ControlURL: "u:b"}}})
		synctest.Wait()
		<-table.Changed()
		time.Sleep(10 * time.Second)
		synctest.Wait()
		p, _ := table.Peer("b")
		if !p.Up || !p.Settled || p.Warning != `it answers as "z"` {
			t.Errorf("up %v, settled %v, %q", p.Up, p.Settled, p.Warning)
		}
		f.with("u:b", func(h *fakeHost) { h.hostID = "b" })
		for len(table.changed) > 0 {
			<-table.Changed()
		}
		time.Sleep(3 * time.Second)
		synctest.Wait()
		if p, _ := table.Peer("b"); p.Warning != "" {
			t.Errorf("still %q", p.Warning)
		}
		if len(table.changed) == 0 {
			t.Error("the end of the doubt is no change")
		}
		if differs, agrees := lines.count("peer_host_id_differs"), lines.count("peer_host_id_agrees"); differs != 1 || agrees != 1 {
			t.Errorf("%d and %d lines, want 1 and 1", differs, agrees)
		}
	})
}
