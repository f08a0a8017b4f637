package agent

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"os"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/mxl-stack/mxl-fabrics-agent/agent/config"
	"github.com/mxl-stack/mxl-fabrics-agent/mxl"
	"github.com/mxl-stack/mxl-fabrics-agent/peers"
)

// simulatedPeers answers for peers that offer flows and send none.
type simulatedPeers map[string]*peers.Inventory

func (s simulatedPeers) Info(_ context.Context, url string) (peers.Info, error) {
	return peers.Info{HostID: url, BootID: url}, nil
}

func (s simulatedPeers) Inventory(_ context.Context, url string) (*peers.Inventory, error) {
	head := mxl.Rational{Numerator: 25, Denominator: 1}.IndexAt(mxl.Now())
	inv := *s[url]
	inv.Domains = append([]peers.Domain(nil), inv.Domains...)
	for i := range inv.Domains {
		inv.Domains[i].Flows = append([]peers.Flow(nil), inv.Domains[i].Flows...)
		for j := range inv.Domains[i].Flows {
			inv.Domains[i].Flows[j].HeadIndex = &head
		}
	}
	return &inv, nil
}

func (s simulatedPeers) Follow(ctx context.Context, _ string, _ func(peers.Event)) error {
	<-ctx.Done()
	return ctx.Err()
}

// plant is flows spread over domains of ten, the domains spread over hosts.
func plant(hosts, flows int) simulatedPeers {
	out := simulatedPeers{}
	for h := range hosts {
		url := fmt.Sprintf("host-%03d", h)
		out[url] = &peers.Inventory{HostID: url, Revision: 1, Domains: []peers.Domain{}}
	}
	for d := range flows / 10 {
		domain := peers.Domain{ID: uuid.NewSHA1(uuid.NameSpaceOID, fmt.Appendf(nil, "domain %d", d)).String(), Options: json.RawMessage("{}")}
		for f := range 10 {
			id := uuid.NewSHA1(uuid.NameSpaceOID, fmt.Appendf(nil, "flow %d %d", d, f)).String()
			def := fmt.Sprintf(`{"id":%q,"label":"flow","description":"","tags":{"urn:x-nmos:tag:grouphint/v1.0":["plant:Data"]},"parents":[],`+
				`"format":"urn:x-nmos:format:data","media_type":"video/smpte291","grain_rate":{"numerator":25,"denominator":1}}`, id)
			domain.Flows = append(domain.Flows, peers.Flow{
				ID: id, Def: json.RawMessage(def), DefText: def, Format: "discrete", MediaType: "video/smpte291", Active: true, Live: true,
				GrainRate: peers.Rational{Numerator: 25, Denominator: 1}, RingDepth: 5, PayloadSize: 4096,
			})
		}
		inv := out[fmt.Sprintf("host-%03d", d%hosts)]
		inv.Domains = append(inv.Domains, domain)
	}
	return out
}

// mirroring is an agent that mirrors a plant and whose passes the caller makes.
func mirroring(tb testing.TB, hosts, flows int) *Agent {
	tb.Helper()
	root, err := os.MkdirTemp("/dev/shm", "mxl-pass-")
	if err != nil {
		root = tb.TempDir()
	}
	tb.Cleanup(func() { _ = os.RemoveAll(root) })
	simulated := plant(hosts, flows)
	static := "["
	for url := range simulated {
		static += fmt.Sprintf(`{"host_id":%q,"control_url":%q,"local_fabric_addr":"127.0.0.1"},`, url, "http://"+url)
	}
	store, err := config.Load(config.Machine{
		Environ: []string{
			"STATE_DIR=" + tb.TempDir(), "HOST_ID=here", "NMOS_ENABLE=false", "MXL_ROOT=" + root, "TMPFS_RESERVE_MB=0",
			"FABRIC_INTERFACE=127.0.0.1", "PEERS=" + static[:len(static)-1] + "]",
		},
		Hostname: func() (string, error) { return "here", nil },
		Addrs:    func() ([]net.Addr, error) { return nil, nil },
	})
	if err != nil {
		tb.Fatal(err)
	}
	a, err := New(store, slog.New(slog.DiscardHandler))
	if err != nil {
		tb.Fatal(err)
	}
	list := staticPeers(store.Config())
	for i := range list {
		list[i].ControlURL = list[i].HostID
	}
	a.table = peers.NewTable(peers.Config{HostID: "here", Static: list, Interval: time.Hour, Client: simulated, Log: a.log})
	if _, err := a.room.Adopt(); err != nil {
		tb.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); a.table.Run(ctx) }()
	tb.Cleanup(func() {
		cancel()
		<-done
		a.mirrors.wait()
		_, _ = a.room.Close(false)
	})
	deadline := time.Now().Add(time.Minute)
	for {
		a.pass(ctx)
		a.mirrors.wait()
		open := 0
		for k := range a.view.load().plan.index {
			if f, _ := a.mirrors.flow(k); f != nil {
				open++
			}
		}
		if open == flows {
			break
		}
		if time.Now().After(deadline) {
			tb.Fatalf("%d of %d flows are mirrored", open, flows)
		}
		select {
		case <-a.wake:
		case <-time.After(20 * time.Millisecond):
		}
	}
	a.pass(ctx)
	return a
}

// BenchmarkPass is a pass over mirrors of which none changes.
func BenchmarkPass(b *testing.B) {
	for _, size := range []struct{ hosts, flows int }{{20, 500}, {80, 2000}} {
		b.Run(fmt.Sprintf("hosts=%d/flows=%d", size.hosts, size.flows), func(b *testing.B) {
			a := mirroring(b, size.hosts, size.flows)
			b.ReportAllocs()
			b.ResetTimer()
			for b.Loop() {
				a.pass(b.Context())
			}
		})
	}
}
