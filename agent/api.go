package agent

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"github.com/google/uuid"

	"github.com/mxl-stack/mxl-fabrics-agent/agent/config"
	"github.com/mxl-stack/mxl-fabrics-agent/agent/httpapi"
	"github.com/mxl-stack/mxl-fabrics-agent/agent/openapi"
	"github.com/mxl-stack/mxl-fabrics-agent/agent/ui"
	"github.com/mxl-stack/mxl-fabrics-agent/fabrics"
	"github.com/mxl-stack/mxl-fabrics-agent/mxl"
	"github.com/mxl-stack/mxl-fabrics-agent/peers"
)

// MXLVersion is what /api/v1/info shows as mxl_version: the SDK release whose
// shared-memory format and fabrics protocol this agent speaks.
const MXLVersion = "1.2 (native)"

// Version of the agent; the build sets it.
var Version = "0.1.0-dev"

// routesTable is every endpoint (contract, "HTTP API").
func (a *Agent) routesTable() []httpapi.Route {
	get := func(path string, h http.HandlerFunc) httpapi.Route {
		return httpapi.Route{Method: http.MethodGet, Path: path, Handle: h}
	}
	page := ui.New(func() bool { return a.store.Config().WebEnable })
	return append(page.Routes(), []httpapi.Route{
		get("/livez", func(w http.ResponseWriter, _ *http.Request) {
			httpapi.WriteJSON(w, http.StatusOK, map[string]string{"status": "live"})
		}),
		get("/readyz", a.getReady),
		get("/statusz", a.getStatus),
		get("/metrics", a.getMetrics),
		get("/api/v1/openapi.json", func(w http.ResponseWriter, _ *http.Request) {
			httpapi.WriteBody(w, http.StatusOK, "application/json", openapi.Document())
		}),
		get("/api/v1/info", a.getInfo),
		get("/api/v1/inventory", a.getInventory),
		get("/api/v1/mirrors", a.getMirrors),
		get("/api/v1/demand", a.getDemand),
		get("/api/v1/replications", a.getReplications),
		get("/api/v1/peers", a.getPeers),
		get("/api/v1/events", a.hub.ServeHTTP),
		get("/api/v1/explain/{domain_id}/{flow_id}", a.getExplain),
		get("/api/v1/config", a.getConfig),
		get("/api/v1/config/env", a.getConfigEnv),
		get("/api/v1/config/export", a.getConfigExport),
		{Method: http.MethodPut, Path: "/api/v1/config", Handle: a.putConfig},
		{Method: http.MethodPost, Path: "/api/v1/config/import", Handle: a.importConfig},
		{Method: http.MethodDelete, Path: "/api/v1/mirrors/{domain_id}", Handle: a.deleteMirror},
		{Method: http.MethodPost, Path: "/api/v1/mirrors/{domain_id}/{flow_id}/rebuild", Handle: a.rebuildMirror},
		{Method: http.MethodPost, Path: "/api/v1/peers/{id}/test", Handle: a.testPeer},
		{Method: http.MethodPost, Path: "/api/v1/replications", Handle: a.postReplication},
		{Method: http.MethodDelete, Path: "/api/v1/replications/{id}/targets/{dest}", Handle: a.deleteTarget},
		{Method: http.MethodDelete, Path: "/api/v1/replications/{rest...}", Handle: func(w http.ResponseWriter, _ *http.Request) {
			httpapi.WriteError(w, http.StatusBadRequest, "path must be /api/v1/replications/{id}/targets/{dest}")
		}},
	}...)
}

// Endpoints lists every endpoint as method and path, in the order of the routes
// table, for documents and their tests.
func Endpoints() []string {
	var list []string
	for _, r := range new(Agent).routesTable() {
		list = append(list, r.Method+" "+r.Path)
	}
	return list
}

// ready says whether the agent is ready and, when it is not, what is missing.
func (a *Agent) ready() (bool, string) {
	select {
	case <-a.passed:
	default:
		return false, "no reconcile pass yet"
	}
	if fault := a.root.problem(); fault != "" {
		return false, fault
	}
	if a.nmos != nil && a.nmos.configured && !a.nmos.registered() {
		return false, "this node is not registered"
	}
	return true, ""
}

func (a *Agent) getReady(w http.ResponseWriter, _ *http.Request) {
	if ok, missing := a.ready(); !ok {
		httpapi.WriteJSON(w, http.StatusServiceUnavailable, map[string]string{"status": "not ready", "reason": missing})
		return
	}
	httpapi.WriteJSON(w, http.StatusOK, map[string]string{"status": "ready"})
}

func (a *Agent) getStatus(w http.ResponseWriter, _ *http.Request) {
	cfg := a.store.Config()
	passed := false
	select {
	case <-a.passed:
		passed = true
	default:
	}
	body := struct {
		HostID         string `json:"host_id"`
		BootID         string `json:"boot_id"`
		Ready          bool   `json:"ready"`
		NMOS           bool   `json:"nmos"`
		NMOSRegistered bool   `json:"nmos_registered"`
		NMOSError      string `json:"nmos_error"`
		TAIOffset      int    `json:"tai_offset_seconds"`
		Tmpfs          bool   `json:"mxl_root_tmpfs"`
	}{HostID: cfg.HostID, BootID: a.bootID, Ready: passed, TAIOffset: a.tai, Tmpfs: a.root.tmpfs()}
	if a.nmos != nil {
		body.NMOS, body.NMOSRegistered = true, a.nmos.registered()
		body.NMOSError = a.nmos.problem()
	}
	httpapi.WriteJSON(w, http.StatusOK, body)
}

func (a *Agent) getInfo(w http.ResponseWriter, _ *http.Request) {
	providers := []string{}
	for _, p := range fabrics.Providers() {
		providers = append(providers, string(p))
	}
	httpapi.WriteJSON(w, http.StatusOK, peers.Info{
		BootID: a.bootID, HostID: a.store.Config().HostID, LibfabricVersion: fabrics.Version(), MXLRootTmpfs: a.root.tmpfs(),
		MXLVersion: MXLVersion, Providers: providers, TAIOffsetSeconds: a.tai, Version: Version,
	})
}

// getInventory lists the local domains with the heads of this moment. Before the
// first scan there is nothing to say, and an empty list would be a wrong answer.
func (a *Agent) getInventory(w http.ResponseWriter, _ *http.Request) {
	snapshot := a.scanner.Snapshot()
	if snapshot.Revision == 0 {
		httpapi.WriteError(w, http.StatusServiceUnavailable, "the first scan is not finished")
		return
	}
	heads := a.scanner.HeadIndexes(mxl.Now(), mxl.DomainLocal)
	inv := inventoryOf(a.store.Config().HostID, &snapshot, heads)
	inv.Fit()
	httpapi.WriteJSON(w, http.StatusOK, inv)
}

// inventoryOf is the local part of a scan as peers read it.
func inventoryOf(hostID string, snapshot *mxl.Snapshot, heads map[mxl.FlowKey]mxl.HeadIndex) peers.Inventory {
	inv := peers.Inventory{HostID: hostID, Revision: snapshot.Revision, Domains: []peers.Domain{}}
	for _, p := range snapshot.Problems {
		inv.Unusable = append(inv.Unusable, peers.Unusable{Name: p.Path, Reason: p.Reason})
	}
	for i := range snapshot.Domains {
		d := &snapshot.Domains[i]
		if d.Class != mxl.DomainLocal {
			continue
		}
		domain := peers.Domain{ID: d.ID, Path: d.Path, Options: d.Options, Flows: []peers.Flow{}}
		for j := range d.Flows {
			f := &d.Flows[j]
			if !f.Replicable() || f.Def == nil {
				domain.NotReplicable = append(domain.NotReplicable, peers.Unusable{Name: f.Directory, Reason: f.Reason})
				continue
			}
			domain.Flows = append(domain.Flows, inventoryFlow(d, f, heads))
		}
		inv.Domains = append(inv.Domains, domain)
	}
	return inv
}

func inventoryFlow(d *mxl.DomainRecord, f *mxl.FlowRecord, heads map[mxl.FlowKey]mxl.HeadIndex) peers.Flow {
	rate := peers.Rational{Numerator: f.Rate.Numerator, Denominator: f.Rate.Denominator}
	out := peers.Flow{
		ID: f.ID.String(), Def: json.RawMessage(f.Definition), DefText: string(f.Definition), Format: "discrete", MediaType: f.MediaType,
		Active: f.Active, Live: f.Live, GrainRate: rate, RingDepth: f.RingDepth, PayloadSize: f.PayloadSize,
	}
	if f.Format.Continuous() {
		out.Format, out.SampleRate = "continuous", &rate
	}
	if h, ok := heads[d.Key(f)]; ok {
		out.Live = h.Live
		if h.Index != 0 && h.Index != mxl.UndefinedIndex {
			out.HeadIndex = &h.Index
		}
	}
	return out
}

func (a *Agent) getReplications(w http.ResponseWriter, _ *http.Request) {
	httpapi.WriteJSON(w, http.StatusOK, a.replications())
}

// replications is every row of both roles.
func (a *Agent) replications() []replicationRow {
	rows := []replicationRow{}
	for _, v := range a.sources.list() {
		rows = append(rows, sourceRowView(v))
	}
	tai := mxl.Now()
	view := a.view.load()
	for _, p := range a.pullIndex.all() {
		_, row := a.pulledRow(p, view, tai)
		rows = append(rows, row)
	}
	sortRows(rows)
	return rows
}

// postReplication is a peer's question for a flow (agent API reference §8.2).
func (a *Agent) postReplication(w http.ResponseWriter, r *http.Request) {
	body, ok := httpapi.ReadBody(w, r)
	if !ok {
		return
	}
	req, err := parseReplicationRequest(body)
	if err != nil {
		httpapi.WriteError(w, http.StatusBadRequest, err.Error())
		return
	}
	info, err := fabrics.ParseTargetInfo(req.TargetInfo)
	if err != nil {
		httpapi.WriteError(w, http.StatusBadRequest, "target_info: "+err.Error())
		return
	}
	snapshot := a.scanner.Snapshot()
	domain := snapshot.Domain(req.DomainID, mxl.DomainLocal)
	if domain == nil {
		httpapi.WriteError(w, http.StatusNotFound, errDomainNotLocal.Error())
		return
	}
	// Nothing is kept of a question for a flow that is not there: whoever reaches the
	// port could ask for any number of them.
	if flow := uuid.MustParse(req.FlowID); domain.Flow(flow) == nil && !a.sources.has(flow, req.DestHostID) {
		err := fmt.Errorf("flow not found: domain %s has no flow %s", domain.ID, flow)
		httpapi.WriteJSON(w, replicationStatus(err), peers.ReplicationAnswer{State: stateError, Error: err.Error()})
		return
	}
	to := a.destination(req.DestHostID, r)
	if err := checkTargetAddress(info, &to, r.RemoteAddr); err != nil {
		httpapi.WriteError(w, http.StatusBadRequest, "target_info: "+err.Error())
		return
	}
	answer, err := a.sources.ask(req, domain.Path, info, routeTo(a.store.Config(), &to, a.links.Interfaces(), a.outgoing))
	status := replicationStatus(err)
	if err != nil {
		answer.State, answer.Error = stateError, err.Error()
	}
	said := answer
	said.OriginHead = nil // another one every time; that alone is no event
	if differs(&a.announced, req.FlowID+"/"+req.DestHostID, said) {
		a.hub.Publish(httpapi.EventReplication, answer.ReplicationID+"/"+req.DestHostID, answer)
	}
	httpapi.WriteJSON(w, status, answer)
}

// replicationStatus tells a target_info whose content cannot be used, as its
// fields say, from what this host could not do.
func replicationStatus(err error) int {
	var field *fabrics.FieldError
	switch {
	case err == nil:
		return http.StatusCreated
	case errors.As(err, &field):
		return http.StatusBadRequest
	}
	return http.StatusInternalServerError
}

// destination is the peer that asks. One that is not in the peer table is reached
// from the address it came to.
func (a *Agent) destination(dest string, r *http.Request) peers.Peer {
	p, known := a.table.Peer(dest)
	if !known {
		p = peers.Peer{HostID: dest, ControlURL: "http://" + r.RemoteAddr, Link: peers.LinkOf(a.store.Config().FabricInterface, a.links.Interfaces())}
	}
	return p
}

// parseReplicationRequest checks the four members; the error names the one that
// is missing or wrong.
func parseReplicationRequest(body []byte) (peers.ReplicationRequest, error) {
	var req peers.ReplicationRequest
	var members map[string]json.RawMessage
	if err := json.Unmarshal(body, &members); err != nil || members == nil {
		return req, errors.New("body is not a JSON object")
	}
	for _, m := range []struct {
		name string
		to   *string
		must bool
	}{
		{"domain_id", &req.DomainID, true}, {"flow_id", &req.FlowID, true}, {"dest_host_id", &req.DestHostID, true},
		{"target_info", &req.TargetInfo, true}, {"dest_boot_id", &req.DestBootID, false},
	} {
		raw, have := members[m.name]
		if !have {
			if m.must {
				return req, errors.New(m.name + " is missing")
			}
			continue
		}
		if err := json.Unmarshal(raw, m.to); err != nil {
			return req, errors.New(m.name + " is not a string")
		}
		if *m.to == "" && m.must {
			return req, errors.New(m.name + " is empty")
		}
		if m.to != &req.TargetInfo && len(*m.to) > config.MaxHostID {
			return req, fmt.Errorf("%s is longer than %d bytes", m.name, config.MaxHostID)
		}
	}
	if _, err := uuid.Parse(req.FlowID); err != nil {
		return req, errors.New("flow_id " + quoted(req.FlowID) + " is not a UUID")
	}
	return req, nil
}

func (a *Agent) deleteTarget(w http.ResponseWriter, r *http.Request) {
	if !a.sources.release(r.PathValue("id"), r.PathValue("dest")) {
		httpapi.WriteError(w, http.StatusNotFound, "not found")
		return
	}
	httpapi.WriteEmpty(w)
}

// peerRow is one row of GET /api/v1/peers (agent API reference §9.1).
type peerRow struct {
	HostID           string `json:"host_id"`
	ControlURL       string `json:"control_url"`
	Up               bool   `json:"up"`
	LinkUp           bool   `json:"link_up"`
	LinkError        string `json:"link_error"`
	FabricInterface  string `json:"fabric_interface"`
	BootID           string `json:"boot_id"`
	Provider         string `json:"provider"`
	LocalFabricAddr  string `json:"local_fabric_addr"`
	RemoteFabricAddr string `json:"remote_fabric_addr"`
	Error            string `json:"error"`
	Warning          string `json:"warning"` // the agent that answers is not the expected one
}

func rowOfPeer(p *peers.Peer) peerRow {
	return peerRow{
		HostID: p.HostID, ControlURL: p.ControlURL, Up: p.Up, LinkUp: p.Link.Up, LinkError: p.Link.Error,
		FabricInterface: p.Link.Interface, BootID: p.BootID, Provider: p.Provider,
		LocalFabricAddr: p.LocalFabricAddr, RemoteFabricAddr: p.RemoteFabricAddr, Error: p.Error, Warning: p.Warning,
	}
}

func (a *Agent) getPeers(w http.ResponseWriter, _ *http.Request) {
	rows := []peerRow{}
	list := a.table.Snapshot()
	for i := range list {
		rows = append(rows, rowOfPeer(&list[i]))
	}
	httpapi.WriteJSON(w, http.StatusOK, rows)
}

// receiverRow is one receiver of GET /api/v1/demand (agent API reference §7).
type receiverRow struct {
	ID           string `json:"id"`
	Label        string `json:"label"`
	NodeID       string `json:"node_id"`
	NodeLabel    string `json:"node_label"`
	MasterEnable bool   `json:"master_enable"`
	DomainID     string `json:"mxl_domain_id"`
	FlowID       string `json:"mxl_flow_id"`
	State        string `json:"state"`
	SourceHost   string `json:"source_host,omitempty"`
}

func (a *Agent) getDemand(w http.ResponseWriter, _ *http.Request) {
	body := struct {
		Receivers []receiverRow `json:"receivers"`
	}{Receivers: []receiverRow{}}
	for _, d := range a.view.load().plan.Demand.Receivers {
		r := d.Receiver
		body.Receivers = append(body.Receivers, receiverRow{
			ID: r.ID, Label: r.Label, NodeID: r.NodeID, NodeLabel: r.NodeLabel, MasterEnable: r.MasterEnable,
			DomainID: r.DomainID, FlowID: r.FlowID, State: string(d.State), SourceHost: d.SourceHost,
		})
	}
	httpapi.WriteJSON(w, http.StatusOK, body)
}
