package fabrics

import (
	"bytes"
	"fmt"
	"log/slog"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/mxl-stack/mxl-fabrics-agent/fabrics/ofi"
)

func TestAdmission(t *testing.T) {
	own, other := newSecret(), newSecret()
	peer, stranger := netip.MustParseAddr("192.0.2.2"), netip.MustParseAddr("198.51.100.7")
	for name, c := range map[string]struct {
		only     bool
		peers    []netip.Addr
		from     netip.Addr
		echoed   secret
		admitted bool
	}{
		"the secret, from anywhere":               {true, []netip.Addr{peer}, stranger, own, true},
		"another target's secret":                 {false, nil, peer, other, false},
		"no secret, nothing known":                {false, nil, stranger, secret{}, true},
		"no secret, from the peer":                {false, []netip.Addr{peer}, peer, secret{}, true},
		"no secret, from the peer, as mapped":     {false, []netip.Addr{peer}, netip.AddrFrom16(peer.As16()), secret{}, true},
		"no secret, not from the peer":            {false, []netip.Addr{peer}, stranger, secret{}, false},
		"no secret, from nobody knows where":      {false, []netip.Addr{peer}, netip.Addr{}, secret{}, false},
		"no secret, from the peer, that has some": {true, []netip.Addr{peer}, peer, secret{}, false},
	} {
		a := admission{secret: own, secretOnly: c.only, peers: c.peers}
		if why := a.refusal(c.from, c.echoed); (why == "") != c.admitted {
			t.Errorf("%s: %q", name, why)
		}
	}
}

// ackFrame acknowledges a write that was never made: libfabric's tcp provider takes
// the head of an empty queue for it (MXL Fabrics reference §10.2).
var ackFrame = []byte{3, 0, 0, 0, 2, 0, 16, 0, 16, 0, 0, 0, 0, 0, 0, 0}

// TestStrangersAreRefused: whoever is not from the peer, or does not know the secret
// once that is asked for, gets no connection; it is counted and named once; the one
// that is meant connects.
func TestStrangersAreRefused(t *testing.T) {
	f := newFlow(t, videoDef("video/v210", 192, 108, rate50), 200*time.Millisecond, 200*time.Millisecond)
	w := f.grainWriter(t, f.mirror)
	var lines bytes.Buffer
	target := openTarget(t, TargetConfig{
		Discrete: w, FlowID: f.id, Peers: []netip.Addr{netip.MustParseAddr("127.0.0.2")},
		Log: slog.New(slog.NewTextHandler(&lines, nil)),
	})
	dial := func(from string, data []byte) ofi.EventKind {
		p := newRawPeer(t, from, 8192+w.PayloadSize(), false)
		defer p.close()
		p.data = data
		p.dial(target.Info())
		kind, _ := p.wait(2 * time.Second)
		if kind == ofi.EventConnected {
			sendGrain(p, target, w, 1000)
			p.completed(1, time.Second)
		}
		return kind
	}
	knows := signature{secret: target.Info().Secret}.bytes()
	stale := signature{secret: newSecret()}.bytes()
	gone := func() {
		eventually(t, 2*time.Second, func() string { return fmt.Sprintf("%+v", target.Stats()) }, func() bool { return !target.Stats().Connected })
	}
	for range 3 {
		if kind := dial("127.0.0.3", nil); kind != ofi.EventError {
			t.Errorf("a stranger got event %v", kind)
		}
	}
	if kind := dial("127.0.0.2", stale); kind != ofi.EventError {
		t.Errorf("the secret of another target got event %v", kind)
	}
	if st := target.Stats(); st.Strangers != 4 || st.Connections != 0 || st.Errors != 0 || st.Refused != 0 {
		t.Errorf("%+v", st)
	}
	for _, from := range []string{"127.0.0.2", "127.0.0.3"} {
		if kind := dial(from, map[string][]byte{"127.0.0.3": knows}[from]); kind != ofi.EventConnected {
			t.Errorf("event %v from %s", kind, from)
		}
		gone()
	}
	target.RequireSecret()
	fullPass(&target.lane.lane)
	if kind := dial("127.0.0.2", nil); kind != ofi.EventError {
		t.Errorf("without the secret, although it is asked for: event %v", kind)
	}
	if kind := dial("127.0.0.3", knows); kind != ofi.EventConnected {
		t.Errorf("with the secret: event %v", kind)
	}
	gone()
	target.Close()
	if n := strings.Count(lines.String(), "fabric_stranger_refused"); n != 1 {
		t.Errorf("%d lines within seconds:\n%s", n, &lines)
	}
}

// TestSourceKnowsTheSecret: a source of this package connects to a target that wants
// its secret.
func TestSourceKnowsTheSecret(t *testing.T) {
	f := newFlow(t, videoDef("video/v210", 192, 108, rate50), 200*time.Millisecond, 200*time.Millisecond)
	f.grainWriter(t, f.origin)
	target := openTarget(t, TargetConfig{Discrete: f.grainWriter(t, f.mirror), FlowID: f.id, SecretOnly: true})
	connect(t, openSource(t, f), "b", target)
}
