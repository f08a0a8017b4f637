package main

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/mxl-stack/mxl-fabrics-agent/mxl"
	"github.com/mxl-stack/mxl-fabrics-agent/peers"
)

// simulatedPeers are agents that offer flows and never send any.
type simulatedPeers struct {
	servers []*httptest.Server
	quit    chan struct{}
}

var rate = mxl.Rational{Numerator: 25, Denominator: 1}

func newPeers() *simulatedPeers {
	m := &simulatedPeers{quit: make(chan struct{})}
	for i := range peerCount {
		inventory := peers.Inventory{HostID: hostOf(i), Revision: 1, Domains: []peers.Domain{}}
		for d := i; d < domainCount; d += peerCount {
			inventory.Domains = append(inventory.Domains, domainOf(d))
		}
		m.servers = append(m.servers, httptest.NewServer(m.serve(i, inventory)))
	}
	return m
}

func hostOf(i int) string { return fmt.Sprintf("peer-%02d", i) }

func domainOf(d int) peers.Domain {
	out := peers.Domain{ID: id("domain", d, 0), Path: fmt.Sprintf("/mxl/domain-%d", d), Options: json.RawMessage("{}")}
	for f := range flowsEach {
		flow := id("flow", d, f)
		def := fmt.Sprintf(`{"id":%q,"label":"flow","description":"","tags":{"urn:x-nmos:tag:grouphint/v1.0":["scale:Data"]},"parents":[],`+
			`"format":"urn:x-nmos:format:data","media_type":"video/smpte291","grain_rate":{"numerator":25,"denominator":1}}`, flow)
		out.Flows = append(out.Flows, peers.Flow{
			ID: flow, Def: json.RawMessage(def), DefText: def, Format: "discrete", MediaType: "video/smpte291", Active: true, Live: true,
			GrainRate: peers.Rational{Numerator: 25, Denominator: 1}, RingDepth: 5, PayloadSize: 4096,
		})
	}
	return out
}

func id(kind string, d, f int) string {
	return uuid.NewSHA1(uuid.NameSpaceOID, fmt.Appendf(nil, "%s/%d/%d", kind, d, f)).String()
}

// serve answers as an agent does; the heads are those of the moment.
func (m *simulatedPeers) serve(i int, inventory peers.Inventory) http.Handler {
	boot := uuid.NewString()
	answer := func(w http.ResponseWriter, value any) {
		body, err := json.Marshal(value)
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Length", fmt.Sprint(len(body)))
		_, _ = w.Write(body)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /api/v1/info", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, peers.Info{HostID: hostOf(i), BootID: boot, Version: "simulated", Providers: []string{"tcp"}})
	})
	mux.HandleFunc("GET /api/v1/inventory", func(w http.ResponseWriter, _ *http.Request) {
		now := inventory
		now.Domains = make([]peers.Domain, len(inventory.Domains))
		head := rate.IndexAt(mxl.Now())
		for d, domain := range inventory.Domains {
			domain.Flows = append([]peers.Flow(nil), domain.Flows...)
			for f := range domain.Flows {
				domain.Flows[f].HeadIndex = &head
			}
			now.Domains[d] = domain
		}
		answer(w, now)
	})
	mux.HandleFunc("GET /api/v1/events", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = w.Write([]byte("event: inventory\ndata: 1\n\n"))
		for {
			_ = http.NewResponseController(w).Flush()
			select {
			case <-m.quit:
				return
			case <-r.Context().Done():
				return
			case <-time.After(15 * time.Second):
				_, _ = w.Write([]byte("event: ping\ndata: {}\n\n"))
			}
		}
	})
	return mux
}

// setting is the value of PEERS.
func (m *simulatedPeers) setting() string {
	var list []string
	for i, s := range m.servers {
		list = append(list, fmt.Sprintf(`{"host_id":%q,"control_url":"%s/api/v1","local_fabric_addr":"127.0.0.1"}`, hostOf(i), s.URL))
	}
	return "[" + strings.Join(list, ",") + "]"
}

func (m *simulatedPeers) close() {
	close(m.quit)
	for _, s := range m.servers {
		s.Close()
	}
}

func freePort() (int, error) {
	l, err := net.Listen("tcp", ":0")
	if err != nil {
		return 0, err
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}
