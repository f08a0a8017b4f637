package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"syscall"
	"time"

	"github.com/mxl-stack/mxl-fabrics-agent/tests/plant"

	"github.com/mxl-stack/mxl-fabrics-agent/tests/mesh"
)

// peers are the scenarios about agents that are none, or old ones.
func peers() []scenario {
	return []scenario{
		{name: "peer_garbage", about: "at a peer's address somebody answers garbage and worse", run: peerReplaced(garbage)},
		{name: "peer_slow", about: "at a peer's address somebody answers one byte every half second", run: peerReplaced(dripping)},
		{name: "peer_mute", about: "at a peer's address somebody takes every request and never answers", run: peerReplaced(mute)},
		{name: "fabric_garbage", about: "a host sends noise to every fabric port of another one", run: fabricGarbage},
		{name: "peer_outdated", about: "an agent is replaced by one of an older contract", run: peerOutdated},
	}
}

// peerReplaced puts a rogue in the place of the agent of host a.
func peerReplaced(how manners) func(context.Context, *run) error {
	return func(ctx context.Context, r *run) error {
		r.touch(at(r.a))
		r.ended[r.a] = true
		r.a.Signal(syscall.SIGTERM)
		if err := ends(r.a.Process, 15*time.Second); err != nil {
			return err
		}
		g, err := newRogue(r.a, r.random.Uint64(), how)
		if err != nil {
			return err
		}
		held := mesh.Pause(ctx, 5*time.Second)
		closed := g.close()
		asked := g.requests()
		r.over(at(r.a))
		if err := r.a.Launch(""); err != nil {
			return err
		}
		if asked == 0 {
			return fmt.Errorf("nobody asked the rogue at %s", r.a.HostID)
		}
		if held != nil {
			return held
		}
		return closed
	}
}

// fabricGarbage sends noise to the fabric ports of host b. It touches no path.
func fabricGarbage(ctx context.Context, r *run) error {
	noisy, stop := context.WithTimeout(ctx, 3*time.Second)
	defer stop()
	n, err := babble(noisy, r.a, r.b.End(r.a).Prefix.Addr().String(), r.random.Uint64())
	if err == nil {
		r.note("%d connections with noise", n)
	}
	return err
}

// Ports in the namespace of a host whose agent stands behind proxies.
const (
	hiddenWebPort = 9095
	firstProxy    = 9101
)

// peerOutdated starts the agent of host a anew so that it speaks and hears an
// older contract only.
func peerOutdated(ctx context.Context, r *run) error {
	r.touch(at(r.a))
	r.ended[r.a] = true
	r.a.Signal(syscall.SIGTERM)
	if err := ends(r.a.Process, 15*time.Second); err != nil {
		return err
	}
	dial := &http.Transport{DialContext: func(ctx context.Context, network, address string) (conn net.Conn, err error) {
		err = r.a.Inside(func() error {
			conn, err = new(net.Dialer).DialContext(ctx, network, address)
			return err
		})
		return conn, err
	}}
	var servers []*http.Server
	ahead := func(port int, behind string) error {
		target, err := url.Parse(behind)
		if err != nil {
			return err
		}
		server, err := listenAt(r.a, port, outdated(target, dial))
		if err == nil {
			servers = append(servers, server)
		}
		return err
	}
	controls := map[*plant.Host]string{}
	for i, other := range []*plant.Host{r.b, r.c} {
		if err := ahead(firstProxy+i, other.URL); err != nil {
			return err
		}
		controls[other] = "http://" + net.JoinHostPort(r.a.Address.String(), strconv.Itoa(firstProxy+i))
	}
	if err := ahead(plant.WebPort, "http://"+net.JoinHostPort(r.a.Address.String(), strconv.Itoa(hiddenWebPort))); err != nil {
		return err
	}
	r.clean(func(ctx context.Context) error { return r.modernAgain(ctx, servers, dial) })
	if err := r.configure(hiddenWebPort, controls); err != nil {
		return err
	}
	r.over(at(r.a))
	return r.a.Launch("")
}

// modernAgain takes the proxies away and starts the agent as it was.
func (r *run) modernAgain(ctx context.Context, servers []*http.Server, dial *http.Transport) error {
	r.a.Signal(syscall.SIGTERM)
	if err := ends(r.a.Process, 15*time.Second); err != nil {
		return err
	}
	for _, server := range servers {
		_ = server.Close()
	}
	dial.CloseIdleConnections()
	if err := r.configure(plant.WebPort, map[*plant.Host]string{r.b: r.b.URL, r.c: r.c.URL}); err != nil {
		return err
	}
	if err := r.a.Launch(""); err != nil {
		return err
	}
	return r.Steady(ctx, patience)
}

// configure gives the agent of host a a web port and the control URLs of its
// peers for its next start.
func (r *run) configure(web int, controls map[*plant.Host]string) error {
	var list []map[string]string
	for other, control := range controls {
		list = append(list, map[string]string{
			"host_id": other.HostID, "provider": "tcp", "control_url": control + "/api/v1",
			"local_fabric_addr": r.a.End(other).Prefix.Addr().String(), "remote_fabric_addr": other.End(r.a).Prefix.Addr().String(),
		})
	}
	text, err := json.Marshal(list)
	if err != nil {
		return err
	}
	r.a.Set("PEERS", string(text))
	r.a.Set("WEB_PORT", strconv.Itoa(web))
	return nil
}
