package agent

import (
	"errors"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/mxl-stack/mxl-fabrics-agent/fabrics"
	"github.com/mxl-stack/mxl-fabrics-agent/peers"
)

// targetAt is a TargetInfo of an address.
func targetAt(t *testing.T, address string) fabrics.TargetInfo {
	t.Helper()
	ap := netip.MustParseAddrPort(address)
	b := make([]byte, 16)
	b[0], b[2], b[3] = 2, byte(ap.Port()>>8), byte(ap.Port())
	a := ap.Addr().As4()
	copy(b[4:], a[:])
	return fabrics.TargetInfo{AddressFormat: 2, Address: b}
}

func TestCheckTargetAddress(t *testing.T) {
	entry := peers.Peer{HostID: "b", RemoteFabricAddr: "192.0.2.2", ControlURL: "http://203.0.113.2:8095/api/v1"}
	found := peers.Peer{HostID: "b", ControlURL: "http://203.0.113.2:8095/api/v1"}
	named := peers.Peer{HostID: "b", RemoteFabricAddr: "b-fabric", ControlURL: "http://b:8095/api/v1"}
	for name, c := range map[string]struct {
		peer       peers.Peer
		from, to   string
		refused    bool
		wantInText string
	}{
		"the address of the entry":           {entry, "203.0.113.2:40000", "192.0.2.2:23500", false, ""},
		"where it is controlled":             {entry, "198.51.100.1:40000", "203.0.113.2:23500", false, ""},
		"where the request comes from":       {entry, "198.51.100.1:40000", "198.51.100.1:23500", false, ""},
		"somewhere else":                     {entry, "203.0.113.2:40000", "198.51.100.9:23500", true, "198.51.100.9"},
		"another address of a host found":    {found, "203.0.113.2:40000", "198.51.100.9:23500", false, ""},
		"an entry by names":                  {named, "203.0.113.2:40000", "198.51.100.9:23500", false, ""},
		"every address of this host":         {found, "203.0.113.2:40000", "0.0.0.0:23500", true, "cannot be connected to"},
		"a group":                            {found, "203.0.113.2:40000", "224.0.0.1:23500", true, "cannot be connected to"},
		"no port":                            {found, "203.0.113.2:40000", "192.0.2.2:0", true, "cannot be connected to"},
		"a request of which nobody knows it": {entry, "", "192.0.2.2:23500", false, ""},
	} {
		err := checkTargetAddress(targetAt(t, c.to), &c.peer, c.from)
		if (err != nil) != c.refused {
			t.Errorf("%s: %v", name, err)
		}
		var field *fabrics.FieldError
		if err != nil && (!errors.As(err, &field) || field.Field != "fabricAddress" || !strings.Contains(err.Error(), c.wantInText)) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestPullAsksForTheSecret: once the source has said that it knows the secret, the
// target that stands and every later one take no other; a source that was started
// anew is asked again.
func TestPullAsksForTheSecret(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newPullBench(t)
		defer b.cancel()
		b.passes(1, aWish())
		if b.targets[0].secret {
			t.Error("asked for before the source has said anything")
		}
		b.answer.TargetSecret = true
		b.passes(2, aWish())
		if !b.targets[0].secret {
			t.Error("the target that stands does not ask for it")
		}
		again := aWish()
		again.MirrorGeneration++
		b.passes(2, again)
		if n := len(b.setups); n != 2 || !b.setups[1].SecretOnly {
			t.Errorf("%d targets, the last with %+v", n, b.setups[n-1])
		}
		again.BootID = "another"
		b.answer.TargetSecret = false
		b.passes(2, again)
		if n := len(b.setups); n != 3 || b.setups[2].SecretOnly {
			t.Errorf("%d targets, the last with %+v", n, b.setups[n-1])
		}
	})
}
