package nmosstandin

import (
	"encoding/json"
	"io"
	"net/http"
	"strconv"
)

// The control endpoints, on the control port and beside the NMOS APIs on the
// registry's two ports:
//
//	PUT  /control     {"master_enable", "mxl_domain_id", "mxl_flow_id"[, "receiver"]}: activate
//	                  a receiver (an id or a number over all nodes; default 0)
//	GET  /control     the receivers and their /active
//	PUT  /faults      Faults; GET shows them, DELETE ends them
//	GET  /deleted     paths of DELETE requests at the Registration API
//	GET  /registered  registered nodes that are not the stand-in's own
//	GET  /stats       Stats; DELETE starts anew
//	POST /registry/stop, /registry/start (empty), /sockets/drop, /nodes/<n>/stop
//	GET  /addresses   where everything listens
func (s *StandIn) serveControl(w http.ResponseWriter, r *http.Request) {
	answer := s.controlled(r)
	body := encode(answer.body)
	if answer.status != http.StatusNoContent {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	}
	w.WriteHeader(answer.status)
	_, _ = w.Write(body)
}

func (s *StandIn) controlled(r *http.Request) reply {
	parts, _ := segments(r.URL.Path, "")
	if len(parts) == 3 && parts[0] == "nodes" && parts[2] == "stop" && r.Method == http.MethodPost {
		number, err := strconv.Atoi(parts[1])
		if err != nil || number < 0 || number >= len(s.nodes) {
			return notFound()
		}
		s.nodes[number].stop()
		return reply{status: http.StatusNoContent}
	}
	switch r.Method + " " + r.URL.Path {
	case "PUT /control", "POST /control":
		return s.connect(r)
	case "GET /control":
		return found(s.connections())
	case "PUT /faults", "POST /faults":
		var f Faults
		if err := readJSON(r, &f); err != nil {
			return refuse(http.StatusBadRequest, "%v", err)
		}
		if err := s.SetFaults(f); err != nil {
			return refuse(http.StatusBadRequest, "%v", err)
		}
		return found(f)
	case "GET /faults":
		return found(s.Faults())
	case "DELETE /faults":
		_ = s.SetFaults(Faults{})
	case "GET /deleted":
		return found(s.Deleted())
	case "GET /registered":
		return found(s.Registered())
	case "GET /stats":
		return found(s.Stats())
	case "DELETE /stats":
		s.ResetStats()
	case "POST /sockets/drop":
		s.DropSockets()
	case "POST /registry/stop":
		s.StopRegistry()
	case "POST /registry/start":
		if err := s.StartRegistry(); err != nil {
			return refuse(http.StatusInternalServerError, "%v", err)
		}
	case "GET /addresses":
		return found(s.Addresses())
	default:
		return notFound()
	}
	return reply{status: http.StatusNoContent}
}

// Addresses tells where everything listens.
type Addresses struct {
	Registry string        `json:"registry"`
	Query    string        `json:"query"`
	Control  string        `json:"control"`
	Nodes    []NodeAddress `json:"nodes"`
}

// NodeAddress is one media node.
type NodeAddress struct {
	ID        string   `json:"id"`
	URL       string   `json:"url"`
	Receivers []string `json:"receivers"`
}

// Addresses lists the origins of all servers and the ids of nodes and receivers.
func (s *StandIn) Addresses() Addresses {
	a := Addresses{Registry: s.RegistryURL(), Query: s.QueryURL(), Control: s.ControlURL(), Nodes: []NodeAddress{}}
	for _, n := range s.nodes {
		entry := NodeAddress{ID: n.ID, URL: n.URL(), Receivers: []string{}}
		for _, r := range n.receivers {
			entry.Receivers = append(entry.Receivers, r.ID)
		}
		a.Nodes = append(a.Nodes, entry)
	}
	return a
}

func readJSON(r *http.Request, into any) error {
	body, err := io.ReadAll(io.LimitReader(r.Body, 1<<20))
	if err != nil {
		return err
	}
	return json.Unmarshal(body, into)
}

func (s *StandIn) connect(r *http.Request) reply {
	var body struct {
		MasterEnable *bool           `json:"master_enable"`
		DomainID     *string         `json:"mxl_domain_id"`
		FlowID       *string         `json:"mxl_flow_id"`
		Receiver     json.RawMessage `json:"receiver"`
	}
	if err := readJSON(r, &body); err != nil {
		return refuse(http.StatusBadRequest, "%v", err)
	}
	target := s.receiver(body.Receiver)
	if target == nil {
		return refuse(http.StatusNotFound, "no receiver %s", body.Receiver)
	}
	now := target.state(true)
	wanted := Connection{MasterEnable: now.MasterEnable}
	if body.MasterEnable != nil {
		wanted.MasterEnable = *body.MasterEnable
	}
	wanted.DomainID = pick(body.DomainID, now.TransportParams[0].DomainID)
	wanted.FlowID = pick(body.FlowID, now.TransportParams[0].FlowID)
	if err := target.Connect(wanted); err != nil {
		return refuse(http.StatusBadRequest, "%v", err)
	}
	return found(target.state(true))
}

// pick is the asked value, else the current one; nil and empty are null.
func pick(asked, current *string) string {
	switch {
	case asked != nil:
		return *asked
	case current != nil:
		return *current
	}
	return ""
}

// receiver finds a receiver by id or number; nothing given means the first.
func (s *StandIn) receiver(which json.RawMessage) *Receiver {
	all := s.Receivers()
	var number int
	var id string
	switch {
	case len(which) == 0:
	case json.Unmarshal(which, &number) == nil:
	case json.Unmarshal(which, &id) == nil:
		for _, r := range all {
			if r.ID == id {
				return r
			}
		}
		return nil
	default:
		return nil
	}
	if number < 0 || number >= len(all) {
		return nil
	}
	return all[number]
}

type receiverView struct {
	Receiver string        `json:"receiver"`
	Node     string        `json:"node"`
	Active   endpointState `json:"active"`
}

func (s *StandIn) connections() []receiverView {
	list := []receiverView{}
	for _, r := range s.Receivers() {
		list = append(list, receiverView{r.ID, r.node.ID, r.state(true)})
	}
	return list
}
