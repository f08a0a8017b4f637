package main

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/mxl-stack/mxl-fabrics-agent/tests/mesh"
	"github.com/mxl-stack/mxl-fabrics-agent/tests/plant"
)

// outcome is what was measured.
type outcome struct {
	Peers, Replications, Metric, Log []time.Duration // from the pull to link_down there
	Down                             []time.Duration // to the last of them
	Flowing                          []time.Duration // from the return to a verified grain
	AddressDown, AddressBack         []time.Duration // the same of an address that goes and comes
	Found                            []time.Duration // from an address that was never there to a verified grain
	Retries                          int             // set-ups and requests while the link was down
	TargetsKept                      int             // fabric ports that still listened
	untouched                        [2]mesh.Totals
}

// downTimes is when one host had said everywhere that a link is down.
type downTimes struct{ peers, replications, metric, log time.Duration }

func (t downTimes) last() time.Duration { return max(t.peers, t.replications, t.metric, t.log) }

// linkDown waits until a host says with a reason, in each place, that the link to
// a peer is down. seen is how many peer_link_down lines there were before.
func linkDown(ctx context.Context, h *plant.Host, peer string, since time.Time, seen int, reason string) (t downTimes, err error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	poll := time.NewTicker(5 * time.Millisecond)
	defer poll.Stop()
	checks := []struct {
		what string
		took *time.Duration
		ok   func() bool
	}{
		{"log", &t.log, func() bool {
			lines := h.Logged("peer_link_down", "peer", peer)
			return len(lines) > seen && strings.HasPrefix(lines[len(lines)-1]["reason"], reason)
		}},
		{"peers", &t.peers, func() bool {
			var rows []struct {
				HostID    string `json:"host_id"`
				LinkUp    bool   `json:"link_up"`
				LinkError string `json:"link_error"`
			}
			if h.Get(ctx, "/api/v1/peers", &rows) != nil {
				return false
			}
			for _, row := range rows {
				if row.HostID == peer {
					return !row.LinkUp && strings.HasPrefix(row.LinkError, reason)
				}
			}
			return false
		}},
		{"replications", &t.replications, func() bool {
			var rows []struct {
				Role, Peer, State string
				LastError         string `json:"last_error"`
			}
			if h.Get(ctx, "/api/v1/replications", &rows) != nil {
				return false
			}
			down := 0
			for _, row := range rows {
				if row.Peer == peer && row.Role == "destination" && row.State == "link_down" && strings.HasPrefix(row.LastError, reason) {
					down++
				}
			}
			return down == 1
		}},
		{"metric", &t.metric, func() bool {
			page, err := peerUp(ctx, h, peer)
			return err == nil && page == "0"
		}},
	}
	for open := len(checks); open > 0; {
		for i := range checks {
			if c := &checks[i]; *c.took == 0 && c.ok() {
				*c.took = time.Since(since)
				open--
			}
		}
		select {
		case <-ctx.Done():
			return t, fmt.Errorf("%s does not say everywhere that the link to %s is down: %+v", h.HostID, peer, t)
		case <-poll.C:
		}
	}
	return t, nil
}

// peerUp is the value of peer_up of a peer.
func peerUp(ctx context.Context, h *plant.Host, peer string) (string, error) {
	_, body, err := h.Do(ctx, "GET", "/metrics", nil)
	if err != nil {
		return "", err
	}
	for line := range bytes.Lines(body) {
		if text := string(line); strings.HasPrefix(text, "mxl_fabrics_agent_peer_up{") && strings.Contains(text, `peer="`+peer+`"`) {
			fields := strings.Fields(text)
			return fields[len(fields)-1], nil
		}
	}
	return "", fmt.Errorf("%s has no peer_up of %s", h.HostID, peer)
}

// pair is one host with the mirror that the fault stops.
type pair struct {
	host    *plant.Host
	peer    string
	witness *witness
	targets int // that stay open: of other links
}

func (s *site) pairs() []pair {
	return []pair{{s.a, s.b.HostID, s.atA, 0}, {s.b, s.a.HostID, s.atB, 1}}
}

// pullCable pulls the cable and plugs it in once.
func (s *site) pullCable(ctx context.Context) error {
	if err := mesh.Pause(ctx, time.Duration(rand.IntN(300))*time.Millisecond); err != nil {
		return err
	}
	pairs := s.pairs()
	seen := make([]int, len(pairs))
	for i, p := range pairs {
		seen[i] = len(p.host.Logged("peer_link_down", "peer", p.peer))
	}
	pulled := time.Now()
	if err := s.plant.Cable(s.a, s.b).Down(); err != nil {
		return err
	}
	times, err := together(pairs, func(i int, p pair) (downTimes, error) {
		return linkDown(ctx, p.host, p.peer, pulled, seen[i], "no carrier on ")
	})
	if err != nil {
		return err
	}
	for _, t := range times {
		s.found.Peers = append(s.found.Peers, t.peers)
		s.found.Replications = append(s.found.Replications, t.replications)
		s.found.Metric = append(s.found.Metric, t.metric)
		s.found.Log = append(s.found.Log, t.log)
		s.found.Down = append(s.found.Down, t.last())
	}
	if err := s.staysDown(ctx, pairs); err != nil {
		return err
	}
	plugged := time.Now()
	if err := s.plant.Cable(s.a, s.b).Up(); err != nil {
		return err
	}
	back, err := together(pairs, func(_ int, p pair) (time.Duration, error) { return p.witness.after(ctx, plugged, 20*time.Second) })
	s.found.Flowing = append(s.found.Flowing, back...)
	return err
}

// staysDown looks on while the link is down: whatever is set up, asked or
// logged is a retry.
func (s *site) staysDown(ctx context.Context, pairs []pair) error {
	if err := mesh.Pause(ctx, 300*time.Millisecond); err != nil { // targets close and sources are told
		return err
	}
	before := make([][3]uint64, len(pairs))
	for i, p := range pairs {
		open, err := listening(p.host)
		if err != nil {
			return err
		}
		s.found.TargetsKept += max(0, open-p.targets)
		if before[i], err = tries(ctx, p); err != nil {
			return err
		}
	}
	if err := mesh.Pause(ctx, time.Second+time.Duration(rand.IntN(1000))*time.Millisecond); err != nil {
		return err
	}
	for i, p := range pairs {
		now, err := tries(ctx, p)
		if err != nil {
			return err
		}
		for j := range now {
			s.found.Retries += int(now[j] - before[i][j])
		}
	}
	return nil
}

// attempts are the lines that setting up, asking and connecting leave in the log.
var attempts = [][]byte{[]byte(`"fabric_endpoint"`), []byte(`"target_setup_failed"`), []byte(`"target_connected"`), []byte(`"target_failed"`),
	[]byte(`"add_target_failed"`), []byte(`"replication_request_failed"`), []byte(`"replication_restarted"`), []byte(`"source_connection_lost"`)}

// tries counts what a retry leaves behind: errors and set-ups of the replication,
// and lines of the log. Nothing on the other cables makes such a line.
func tries(ctx context.Context, p pair) (counts [3]uint64, err error) {
	var rows []struct {
		Role, Peer, State string
		Errors, Restarts  uint64
	}
	if err := p.host.Get(ctx, "/api/v1/replications", &rows); err != nil {
		return counts, err
	}
	for _, row := range rows {
		if row.Peer != p.peer {
			continue
		}
		if row.State != "link_down" && row.Role == "destination" {
			return counts, fmt.Errorf("%s: the replication from %s is %s while the link is down", p.host.HostID, p.peer, row.State)
		}
		counts[0] += row.Errors
		counts[1] += row.Restarts
	}
	output := p.host.Output()
	for _, line := range attempts {
		counts[2] += uint64(bytes.Count(output, line))
	}
	return counts, nil
}

// listening counts the fabric ports that a host's agent listens on.
func listening(h *plant.Host) (open int, err error) {
	for _, name := range []string{"tcp", "tcp6"} {
		text, err := os.ReadFile("/proc/" + strconv.Itoa(h.PID()) + "/net/" + name)
		if err != nil {
			return 0, err
		}
		for line := range bytes.Lines(text) {
			fields := strings.Fields(string(line))
			if len(fields) < 4 || fields[3] != "0A" { // TCP_LISTEN
				continue
			}
			_, port, _ := strings.Cut(fields[1], ":")
			if n, err := strconv.ParseUint(port, 16, 16); err == nil && n >= 23500 && n < 23600 {
				open++
			}
		}
	}
	return open, nil
}

// takeAddress takes b's address on the cable away and gives it back, three times,
// while everything runs.
func (s *site) takeAddress(ctx context.Context) error {
	end := s.b.End(s.a)
	p := s.pairs()[1]
	for range 3 {
		seen := len(p.host.Logged("peer_link_down", "peer", p.peer))
		gone := time.Now()
		if err := end.AddressRemove(); err != nil {
			return err
		}
		t, err := linkDown(ctx, p.host, p.peer, gone, seen, "source interface unavailable: no local interface has ")
		if err != nil {
			return err
		}
		s.found.AddressDown = append(s.found.AddressDown, t.last())
		if err := mesh.Pause(ctx, time.Second); err != nil {
			return err
		}
		back := time.Now()
		if err := end.AddressAdd(); err != nil {
			return err
		}
		took, err := p.witness.after(ctx, back, 20*time.Second)
		if err != nil {
			return err
		}
		s.found.AddressBack = append(s.found.AddressBack, took)
	}
	fmt.Printf("links: address taken 3 times: link_down after %v at most, flowing %v after its return at most\n",
		longest(s.found.AddressDown), longest(s.found.AddressBack))
	return nil
}

// startWithoutAddress starts b's agent without its address on the cable, three
// times, and adds it then.
func (s *site) startWithoutAddress(ctx context.Context) error {
	end := s.b.End(s.a)
	for range 3 {
		s.b.Stop(15 * time.Second)
		if err := end.AddressRemove(); err != nil {
			return err
		}
		if err := s.b.Start(ctx); err != nil {
			return err
		}
		if _, err := linkDown(ctx, s.b, s.a.HostID, time.Now(), 0, "source interface unavailable: no local interface has "); err != nil {
			return err
		}
		if err := mesh.Pause(ctx, time.Second); err != nil {
			return err
		}
		added := time.Now()
		if err := end.AddressAdd(); err != nil {
			return err
		}
		took, err := s.atB.after(ctx, added, 20*time.Second)
		if err != nil {
			return err
		}
		s.found.Found = append(s.found.Found, took)
	}
	fmt.Printf("links: an address that was not there at the start: flowing %v later at most\n", longest(s.found.Found))
	return nil
}

// together does the same for all pairs at once.
func together[T any](pairs []pair, do func(int, pair) (T, error)) ([]T, error) {
	type result struct {
		at  int
		got T
		err error
	}
	results := make(chan result)
	for i, p := range pairs {
		go func() {
			got, err := do(i, p)
			results <- result{i, got, err}
		}()
	}
	all := make([]T, len(pairs))
	var failed error
	for range pairs {
		r := <-results
		all[r.at] = r.got
		if r.err != nil {
			failed = r.err
		}
	}
	return all, failed
}
