package peers

import (
	"errors"
	"testing"
	"time"
)

var start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func good(boot string, revision uint64) reading {
	return reading{info: Info{BootID: boot}, inventory: &Inventory{Revision: revision}}
}

var bad = reading{err: errors.New("connect")}

// TestAdvance walks a peer through polls 2 s apart.
func TestAdvance(t *testing.T) {
	type after struct {
		up, settled bool
		incarnation uint64
	}
	for name, c := range map[string]struct {
		polls []reading
		want  []after
	}{
		"settles with the second good poll":    {[]reading{good("x", 1), good("x", 1)}, []after{{true, false, 1}, {true, true, 1}}},
		"not up, not settled":                  {[]reading{bad, good("x", 1), good("x", 2)}, []after{{false, false, 0}, {true, false, 1}, {true, true, 1}}},
		"a failed poll unsettles":              {[]reading{good("x", 1), good("x", 1), bad, good("x", 1), good("x", 1)}, []after{{true, false, 1}, {true, true, 1}, {false, false, 1}, {true, false, 1}, {true, true, 1}}},
		"another boot id is another process":   {[]reading{good("x", 1), good("x", 1), good("y", 1), good("y", 1)}, []after{{true, false, 1}, {true, true, 1}, {true, false, 2}, {true, true, 2}}},
		"seen after a time down":               {[]reading{good("x", 5), bad, good("y", 6)}, []after{{true, false, 1}, {false, false, 1}, {true, false, 2}}},
		"a revision that fell is one too":      {[]reading{good("x", 5), good("x", 5), good("x", 2), good("x", 2)}, []after{{true, false, 1}, {true, true, 1}, {true, false, 2}, {true, true, 2}}},
		"a revision that rises is none":        {[]reading{good("x", 5), good("x", 7)}, []after{{true, false, 1}, {true, true, 1}}},
		"no finished scan, not settled":        {[]reading{good("x", 0), good("x", 0), good("x", 1)}, []after{{true, false, 1}, {true, false, 1}, {true, true, 1}}},
		"an empty boot id is no other process": {[]reading{good("x", 1), good("", 1), good("x", 1)}, []after{{true, false, 1}, {true, false, 1}, {true, true, 1}}},
	} {
		p := Peer{HostID: "b", UnsettledSince: start}
		for i, r := range c.polls {
			r.at = start.Add(time.Duration(i) * 2 * time.Second)
			p = advance(p, r)
			if got := (after{p.Up, p.Settled, p.Incarnation}); got != c.want[i] {
				t.Errorf("%s, poll %d: got %+v, want %+v", name, i, got, c.want[i])
			}
			if p.Up == (p.Error != "") || p.Up == p.UpSince.IsZero() || p.Settled != p.UnsettledSince.IsZero() || p.PolledAt != r.at {
				t.Errorf("%s, poll %d: inconsistent %+v", name, i, p)
			}
			if p.Up && (p.ReceivedAt != r.at || p.Offers() != r.inventory) || !p.Up && p.Offers() != nil {
				t.Errorf("%s, poll %d: inventory at %v", name, i, p.ReceivedAt)
			}
		}
	}
}

func TestDecides(t *testing.T) {
	for name, c := range map[string]struct {
		peer          Peer
		decides, down bool
	}{
		"settled":         {Peer{Up: true, Settled: true}, true, false},
		"down":            {Peer{}, false, true},
		"just up":         {Peer{Up: true, UnsettledSince: start.Add(-60 * time.Second)}, false, false},
		"unsettled often": {Peer{Up: true, UnsettledSince: start.Add(-61 * time.Second)}, false, true},
	} {
		if decides, down := c.peer.Decides(start); decides != c.decides || down != c.down {
			t.Errorf("%s: decides %v, down %v", name, decides, down)
		}
	}
}

func TestWants(t *testing.T) {
	l := listener{heard: make(map[string]string)}
	p := Peer{Inventory: &Inventory{Revision: 3}}
	for i, c := range []struct {
		e    Event
		want bool
	}{
		{Event{"inventory", "3"}, false},
		{Event{"inventory", "4"}, true},
		{Event{"inventory", `{"revision":4}`}, true},
		{Event{"inventory", `{"revision":4}`}, false},
		{Event{"replication", `{"replication_id":"r","state":"pending","origin_head":1}`}, true},
		{Event{"replication", `{"replication_id":"r","state":"pending","origin_head":2}`}, false},
		{Event{"replication", `{"replication_id":"r","state":"active","origin_head":3}`}, true},
		{Event{"replication", `nonsense`}, false},
		{Event{"peer", `{"host_id":"x"}`}, true},
		{Event{"peer", `{"host_id":"x"}`}, false},
		{Event{"mirror", `{}`}, false},
		{Event{"ping", `{}`}, false},
		{Event{"", ``}, false},
	} {
		if got := l.wants(c.e, p); got != c.want {
			t.Errorf("event %d %v: %v", i, c.e, got)
		}
	}
}

func TestNextPoll(t *testing.T) {
	now := time.Now()
	for name, tc := range map[string]struct {
		interval time.Duration
		failed   bool
		since    time.Duration // since the last good poll
		want     time.Duration
	}{
		"a good poll":               {2 * time.Second, false, 0, 2 * time.Second},
		"a failed one":              {2 * time.Second, true, time.Second, downGap},
		"away for long":             {2 * time.Second, true, downPatience, 2 * time.Second},
		"an interval shorter yet":   {210 * time.Millisecond, true, time.Second, 210 * time.Millisecond},
		"never sooner than the gap": {100 * time.Millisecond, true, time.Second, pollGap},
	} {
		if got := nextPoll(tc.interval, tc.failed, now.Add(-tc.since), now); got != tc.want {
			t.Errorf("%s: %v, want %v", name, got, tc.want)
		}
	}
}
