package measured

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/mxl-stack/mxl-fabrics-agent/mxl"
	"github.com/mxl-stack/mxl-fabrics-agent/peers"
)

// Peers are simulated agents that offer flows and never send any, each with a
// server of its own. Their answers are made beforehand but for the heads, which are
// those of the moment.
type Peers struct {
	servers []*httptest.Server
	quit    chan struct{}
}

var rate = mxl.Rational{Numerator: 25, Denominator: 1}

// headMark stands for a head index in a prepared answer: as many digits as one has.
const headMark = 11111111111

// NewPeers starts hosts that share domains of flowsEach flows, with these options.
func NewPeers(hosts, domains, flowsEach int, options string) (*Peers, error) {
	m := &Peers{quit: make(chan struct{})}
	for i := range hosts {
		inventory := peers.Inventory{HostID: hostOf(i), Revision: 1, Domains: []peers.Domain{}}
		for d := i; d < domains; d += hosts {
			inventory.Domains = append(inventory.Domains, domainOf(d, flowsEach, options))
		}
		body, err := json.Marshal(inventory)
		if err != nil {
			m.Close()
			return nil, err
		}
		m.servers = append(m.servers, httptest.NewServer(m.serve(i, body)))
	}
	return m, nil
}

func hostOf(i int) string { return fmt.Sprintf("peer-%03d", i) }

func domainOf(d, flows int, options string) peers.Domain {
	head := uint64(headMark)
	out := peers.Domain{ID: ID("domain", d, 0), Path: fmt.Sprintf("/mxl/domain-%d", d), Options: json.RawMessage(options)}
	for f := range flows {
		flow := ID("flow", d, f)
		def := Definition(flow)
		out.Flows = append(out.Flows, peers.Flow{
			ID: flow, Def: json.RawMessage(def), DefText: def, Format: "discrete", MediaType: "video/smpte291", Active: true, Live: true,
			GrainRate: peers.Rational{Numerator: 25, Denominator: 1}, RingDepth: 5, PayloadSize: 4096, HeadIndex: &head,
		})
	}
	return out
}

// Definition is that of a small flow: five grains of 4 KiB.
func Definition(flow string) string {
	return fmt.Sprintf(`{"id":%q,"label":"flow","description":"","tags":{"urn:x-nmos:tag:grouphint/v1.0":["scale:Data"]},"parents":[],`+
		`"format":"urn:x-nmos:format:data","media_type":"video/smpte291","grain_rate":{"numerator":25,"denominator":1}}`, flow)
}

// ID is a UUID that is the same in every run.
func ID(kind string, d, f int) string {
	return uuid.NewSHA1(uuid.NameSpaceOID, fmt.Appendf(nil, "%s/%d/%d", kind, d, f)).String()
}

// serve answers as an agent does.
func (m *Peers) serve(i int, inventory []byte) http.Handler {
	info, _ := json.Marshal(peers.Info{HostID: hostOf(i), BootID: uuid.NewString(), Version: "simulated", Providers: []string{"tcp"}})
	answer := func(w http.ResponseWriter, body []byte) {
		w.Header().Set("Content-Length", strconv.Itoa(len(body)))
		_, _ = w.Write(body)
	}
	mark := strconv.AppendUint(nil, headMark, 10)
	mux := http.NewServeMux()
	mux.HandleFunc("GET /api/v1/info", func(w http.ResponseWriter, _ *http.Request) { answer(w, info) })
	mux.HandleFunc("GET /api/v1/inventory", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, bytes.ReplaceAll(inventory, mark, strconv.AppendUint(nil, rate.IndexAt(mxl.Now()), 10)))
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

// Setting is the value of PEERS.
func (m *Peers) Setting() string {
	var list []string
	for i, s := range m.servers {
		list = append(list, fmt.Sprintf(`{"host_id":%q,"control_url":"%s/api/v1","local_fabric_addr":"127.0.0.1"}`, hostOf(i), s.URL))
	}
	return "[" + strings.Join(list, ",") + "]"
}

// Close ends the servers.
func (m *Peers) Close() {
	close(m.quit)
	for _, s := range m.servers {
		s.Close()
	}
}
