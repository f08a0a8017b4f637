package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
)

// overview is what status reads of the agent.
type overview struct {
	Ready struct {
		Status string `json:"status"`
		Reason string `json:"reason"`
	}
	Status struct {
		HostID         string `json:"host_id"`
		NMOS           bool   `json:"nmos"`
		NMOSRegistered bool   `json:"nmos_registered"`
		NMOSError      string `json:"nmos_error"`
		TAIOffset      int    `json:"tai_offset_seconds"`
		Tmpfs          bool   `json:"mxl_root_tmpfs"`
	}
	Info struct {
		Version   string   `json:"version"`
		Libfabric string   `json:"libfabric_version"`
		Providers []string `json:"providers"`
	}
	Peers []struct {
		HostID    string `json:"host_id"`
		Up        bool   `json:"up"`
		Error     string `json:"error"`
		LinkUp    bool   `json:"link_up"`
		LinkError string `json:"link_error"`
		Warning   string `json:"warning"`
	}
	Replications []struct {
		Role      string `json:"role"`
		FlowID    string `json:"flow_id"`
		Peer      string `json:"peer"`
		State     string `json:"state"`
		LastError string `json:"last_error"`
		Fallback  bool   `json:"fallback"`
	}
	Mirrors []struct {
		DomainID     string `json:"domain_id"`
		OnDisk       bool   `json:"on_disk"`
		ReadersKnown bool   `json:"readers_known"`
		ReadersError string `json:"readers_error"`
		Flows        []struct {
			FlowID string `json:"flow_id"`
			State  string `json:"state"`
			Health struct {
				State  string `json:"state"`
				Reason string `json:"reason"`
			} `json:"health"`
		} `json:"flows"`
	}
	Demand struct {
		Receivers []struct {
			Label    string `json:"label"`
			DomainID string `json:"mxl_domain_id"`
			FlowID   string `json:"mxl_flow_id"`
			State    string `json:"state"`
		} `json:"receivers"`
	}
}

// finding is one thing that is wrong. State is "warn" or "fail", as of doctor.
type finding struct {
	State string `json:"state"`
	What  string `json:"what"`
}

const (
	warn = "warn" // works, and will hurt
	fail = "fail" // does not work
)

// statusDocument is the output of status --json: the agent's own documents and
// what is wrong.
type statusDocument struct {
	OK           bool            `json:"ok"`
	Findings     []finding       `json:"findings"`
	Ready        json.RawMessage `json:"ready"`
	Status       json.RawMessage `json:"status"`
	Info         json.RawMessage `json:"info"`
	Peers        json.RawMessage `json:"peers"`
	Replications json.RawMessage `json:"replications"`
	Mirrors      json.RawMessage `json:"mirrors"`
	Demand       json.RawMessage `json:"demand"`
}

func (c *command) status() int {
	var doc statusDocument
	var o overview
	for _, part := range []struct {
		path  string
		raw   *json.RawMessage
		value any
	}{
		{"/readyz", &doc.Ready, &o.Ready}, {"/statusz", &doc.Status, &o.Status}, {"/api/v1/info", &doc.Info, &o.Info},
		{"/api/v1/peers", &doc.Peers, &o.Peers}, {"/api/v1/replications", &doc.Replications, &o.Replications},
		{"/api/v1/mirrors", &doc.Mirrors, &o.Mirrors}, {"/api/v1/demand", &doc.Demand, &o.Demand},
	} {
		body, err := c.get(part.path, http.StatusOK, http.StatusServiceUnavailable)
		if err == nil {
			*part.raw = body
			err = json.Unmarshal(body, part.value)
		}
		if err != nil {
			return c.failed(err)
		}
	}
	doc.Findings = o.findings()
	doc.OK = len(doc.Findings) == 0
	if c.options.json {
		c.printJSON(doc)
	} else {
		c.printOverview(o, doc.Findings)
	}
	return exitOf(doc.Findings)
}

// exitOf is the exit code that tells warnings from faults.
func exitOf(list []finding) int {
	code := exitOK
	for _, f := range list {
		if f.State == fail {
			return exitBroken
		}
		code = exitWarning
	}
	return code
}

// findings are what is wrong, in words, faults before warnings. It is pure.
func (o *overview) findings() []finding {
	list := []finding{}
	add := func(state, format string, args ...any) {
		list = append(list, finding{state, fmt.Sprintf(format, args...)})
	}
	if o.Ready.Status != "ready" {
		add(fail, "not ready: %s", o.Ready.Reason)
	}
	if o.Status.NMOSError != "" {
		add(fail, "NMOS: %s", o.Status.NMOSError)
	}
	if o.Status.TAIOffset == 0 {
		add(warn, "the kernel's TAI offset is 0")
	}
	if !o.Status.Tmpfs {
		add(warn, "the MXL root is not on a tmpfs")
	}
	for _, p := range o.Peers {
		if !p.Up {
			add(fail, "peer %s is down: %s", p.HostID, p.Error)
		}
		if !p.LinkUp {
			add(fail, "the link to %s is down: %s", p.HostID, p.LinkError)
		}
		if p.Warning != "" {
			add(warn, "peer %s: %s", p.HostID, p.Warning)
		}
	}
	for _, r := range o.Replications {
		switch {
		case r.State == "error" || r.State == "link_down":
			add(fail, "flow %s, %s %s: %s: %s", r.FlowID, direction(r.Role), r.Peer, r.State, r.LastError)
		case r.Fallback:
			add(warn, "flow %s, %s %s: tcp stands in for verbs", r.FlowID, direction(r.Role), r.Peer)
		}
	}
	for _, m := range o.Mirrors {
		if m.OnDisk && !m.ReadersKnown {
			add(warn, "mirror of %s: its readers are not known: %s", m.DomainID, m.ReadersError)
		}
		for _, f := range m.Flows {
			switch {
			case f.Health.State == "stale":
				add(fail, "mirror flow %s of %s is stale: %s", f.FlowID, m.DomainID, f.Health.Reason)
			case f.State == "insufficient_space" || f.State == "conflict":
				add(fail, "mirror flow %s of %s: %s", f.FlowID, m.DomainID, f.State)
			}
		}
	}
	for _, r := range o.Demand.Receivers {
		if r.State == "unresolved" || r.State == "stale_reference" {
			add(fail, "receiver %s wants %s/%s: %s", r.Label, r.DomainID, r.FlowID, r.State)
		}
	}
	slices.SortStableFunc(list, func(a, b finding) int { return cmp.Compare(a.State, b.State) })
	return list
}

func direction(role string) string {
	if role == "source" {
		return "to"
	}
	return "from"
}

func (c *command) printOverview(o overview, findings []finding) {
	up := 0
	for _, p := range o.Peers {
		if p.Up && p.LinkUp {
			up++
		}
	}
	states := map[string]map[string]int{"source": {}, "destination": {}}
	for _, r := range o.Replications {
		if states[r.Role] != nil {
			states[r.Role][r.State]++
		}
	}
	health, flows := map[string]int{}, 0
	for _, m := range o.Mirrors {
		for _, f := range m.Flows {
			health[f.Health.State]++
			flows++
		}
	}
	fmt.Fprintf(c.stdout, "%s is %s, version %s, libfabric %s %v\n", o.Status.HostID, o.Ready.Status, o.Info.Version, o.Info.Libfabric, o.Info.Providers)
	fmt.Fprintf(c.stdout, "NMOS          %s\n", map[bool]string{true: map[bool]string{true: "registered", false: "not registered"}[o.Status.NMOSRegistered], false: "off"}[o.Status.NMOS])
	fmt.Fprintf(c.stdout, "peers         %d of %d reachable\n", up, len(o.Peers))
	fmt.Fprintf(c.stdout, "receivers     %d\n", len(o.Demand.Receivers))
	fmt.Fprintf(c.stdout, "received      %s\n", tally(states["destination"]))
	fmt.Fprintf(c.stdout, "sent          %s\n", tally(states["source"]))
	fmt.Fprintf(c.stdout, "mirrors       %d domains, %d flows: %s\n", len(o.Mirrors), flows, tally(health))
	for _, f := range findings {
		fmt.Fprintf(c.stdout, "%s  %s\n", f.State, f.What)
	}
}
