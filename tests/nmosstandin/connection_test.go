package nmosstandin

import (
	"net/http"
	"reflect"
	"slices"
	"testing"
	"time"
)

const (
	domainID = "5f4c1d2e-7a3b-4c6d-9e8f-0a1b2c3d4e5f"
	flowID   = "0d9f6c3a-2b71-4f5e-8a64-1c2d3e4f5a6b"
)

func single(s *StandIn, version string, rest string) string {
	n := s.Nodes()[0]
	return n.URL() + connectionRoot + "/" + version + "/single/receivers/" + n.Receivers()[0].ID + rest
}

// equalButTimes compares two documents after blanking activation times.
func equalButTimes(a, b map[string]any) bool {
	blank := func(doc map[string]any) map[string]any {
		activation := doc["activation"].(map[string]any)
		for _, key := range []string{"activation_time", "requested_time"} {
			if text, ok := activation[key].(string); ok && len(text) > 10 {
				activation[key] = "a time"
			}
		}
		return doc
	}
	return reflect.DeepEqual(blank(a), blank(b))
}

func TestActivationAnswersAsCaptured(t *testing.T) {
	s := start(t, Options{Nodes: []NodeOptions{{OwnDomain: domainID}}})
	compare := func(step string, a answered, status int, file string) {
		t.Helper()
		var got, want map[string]any
		a.decode(t, &got)
		fixture(t, "connection/"+file, &want)
		if a.StatusCode != status || !equalButTimes(got, want) {
			t.Errorf("%s: %d %v\ncaptured %d %v", step, a.StatusCode, got, status, want)
		}
	}
	var request map[string]any
	compare("active, idle", do(t, http.MethodGet, single(s, "v1.2", "/active"), nil), 200, "active-idle.json")
	compare("staged, idle", do(t, http.MethodGet, single(s, "v1.2", "/staged"), nil), 200, "staged-idle.json")
	fixture(t, "connection/patch-immediate.request.json", &request)
	compare("immediate", do(t, http.MethodPatch, single(s, "v1.2", "/staged"), request), 200, "patch-immediate.response.json")
	var active map[string]any
	do(t, http.MethodGet, single(s, "v1.2", "/active/"), nil).decode(t, &active)
	var want map[string]any
	fixture(t, "second/active-enabled.json", &want) // requested_time null after activate_immediate
	if !equalButTimes(active, want) {
		t.Errorf("active: %v", active)
	}
	fixture(t, "connection/patch-scheduled.request.json", &request)
	request["activation"].(map[string]any)["requested_time"] = "3:0"
	compare("scheduled", do(t, http.MethodPatch, single(s, "v1.2", "/staged"), request), 202, "patch-scheduled.response.json")
	compare("staged, waiting", do(t, http.MethodGet, single(s, "v1.2", "/staged"), nil), 200, "staged-scheduled.json")
	if a := do(t, http.MethodPatch, single(s, "v1.2", "/staged"), `{"master_enable":true}`); a.StatusCode != http.StatusLocked {
		t.Errorf("PATCH while scheduled: %d", a.StatusCode)
	}
	if a := do(t, http.MethodPatch, single(s, "v1.2", "/staged"), `{"activation":{"mode":null}}`); a.StatusCode != http.StatusOK {
		t.Errorf("cancelling: %d %s", a.StatusCode, a.body)
	}
	request["activation"].(map[string]any)["requested_time"] = "0:1000000"
	do(t, http.MethodPatch, single(s, "v1.2", "/staged"), request)
	eventually(t, "the scheduled activation happens", func() bool {
		do(t, http.MethodGet, single(s, "v1.2", "/active"), nil).decode(t, &active)
		return active["master_enable"] == false
	})
	var transport string
	do(t, http.MethodGet, single(s, "v1.2", "/transporttype"), nil).decode(t, &transport)
	if transport != MXLTransport {
		t.Errorf("transporttype %q", transport)
	}
	var constraints, captured []any
	do(t, http.MethodGet, single(s, "v1.2", "/constraints"), nil).decode(t, &constraints)
	fixture(t, "connection/constraints.json", &captured)
	if !reflect.DeepEqual(constraints, captured) {
		t.Errorf("constraints %v", constraints)
	}
}

func TestOlderVersionPointsToTheRightOne(t *testing.T) {
	s := start(t, Options{})
	a := do(t, http.MethodGet, single(s, "v1.1", "/active"), nil)
	want := connectionRoot + "/v1.2/single/receivers/" + s.Receivers()[0].ID + "/active"
	if a.StatusCode != http.StatusConflict || a.Header.Get("Location") != want {
		t.Errorf("%d, Location %q", a.StatusCode, a.Header.Get("Location"))
	}
	lax := start(t, Options{Nodes: []NodeOptions{{AnyVersion: true, Connection: []string{"v1.1"}}}})
	if a := do(t, http.MethodGet, single(lax, "v1.1", "/active"), nil); a.StatusCode != http.StatusOK {
		t.Errorf("a node that shows MXL at v1.1: %d", a.StatusCode)
	}
}

func TestBadPatches(t *testing.T) {
	s := start(t, Options{})
	for body, status := range map[string]int{
		`{"transport_params":[{"mxl_flow_id":"auto"}]}`:                                 400,
		`{"transport_params":[{"mxl_flow_id":"0D9F6C3A-2B71-4F5E-8A64-1C2D3E4F5A6B"}]}`: 400,
		`{"transport_params":[{"other":null}]}`:                                         400,
		`{"transport_params":[{},{}]}`:                                                  400,
		`{"transport_file":{"data":"v=0","type":"application/sdp"}}`:                    400,
		`{"activation":{"mode":"now"}}`:                                                 400,
		`{"activation":{"mode":"activate_scheduled_relative"}}`:                         400,
		`{"unknown":1}`: 400,
		`[]`:            400,
		`{"master_enable":true,"activation":{"mode":"activate_immediate"}}`:                   500, // "auto" with no domain
		`{"transport_params":[{"mxl_domain_id":"auto","mxl_flow_id":null}]}`:                  200,
		`{"transport_params":[{"mxl_flow_id":"0190d0b2-3c51-7abc-8def-0123456789ab"}]}`:       200, // version 7 is legal in MXL
		`{"transport_file":{"data":null,"type":null},"sender_id":null,"master_enable":false}`: 200,
	} {
		if a := do(t, http.MethodPatch, single(s, "v1.2", "/staged"), body); a.StatusCode != status {
			t.Errorf("%s: %d %s, want %d", body, a.StatusCode, a.body, status)
		}
	}
	if a := do(t, http.MethodPut, single(s, "v1.2", "/active"), "{}"); a.StatusCode != http.StatusMethodNotAllowed || a.Header.Get("Allow") == "" {
		t.Errorf("PUT /active: %d", a.StatusCode)
	}
}

func TestDueTimes(t *testing.T) {
	now := time.Unix(1_800_000_000, 5)
	for _, tc := range []struct {
		mode, requested string
		after           time.Duration
	}{
		{"activate_immediate", "", 0},
		{"activate_scheduled_relative", "3:7", 3*time.Second + 7},
		{"activate_scheduled_absolute", stampOf(now.Add(9 * time.Second)).String(), 9 * time.Second},
	} {
		at, _, err := due(tc.mode, &tc.requested, now)
		if err != nil || at.Sub(now) != tc.after {
			t.Errorf("%s %s: after %v, %v", tc.mode, tc.requested, at.Sub(now), err)
		}
	}
}

func TestControlMovesVersionAndRegistry(t *testing.T) {
	for _, whole := range []bool{false, true} {
		s := start(t, Options{Nodes: []NodeOptions{{WholeSeconds: whole, Slash: true}}})
		listed := func() map[string]any {
			var list []map[string]any
			do(t, http.MethodGet, s.QueryURL()+queryBase+"/receivers?transport="+MXLTransport, nil).decode(t, &list)
			if len(list) == 0 {
				return map[string]any{"subscription": map[string]any{}}
			}
			return list[0]
		}
		enabled := func() any { return listed()["subscription"].(map[string]any)["active"] }
		eventually(t, "the receiver is listed", func() bool { return enabled() == false })
		a := do(t, http.MethodPut, s.QueryURL()+"/control", map[string]any{"master_enable": true, "mxl_domain_id": domainID, "mxl_flow_id": flowID})
		if a.StatusCode != http.StatusOK {
			t.Fatalf("%d %s", a.StatusCode, a.body)
		}
		eventually(t, "the registry shows it active", func() bool { return enabled() == true })
		do(t, http.MethodPut, s.ControlURL()+"/control", map[string]any{"master_enable": false, "receiver": s.Receivers()[0].ID})
		eventually(t, "the registry shows it inactive", func() bool { return enabled() == false })
		got := s.Receivers()[0].state(true)
		if *got.TransportParams[0].FlowID != flowID {
			t.Error("disabling lost the flow id")
		}
	}
	s := start(t, Options{})
	for _, body := range []string{`{"mxl_flow_id":"x"}`, `{"mxl_domain_id":7}`} {
		if a := do(t, http.MethodPut, s.RegistryURL()+"/control", body); a.StatusCode != http.StatusBadRequest {
			t.Errorf("%s: %d", body, a.StatusCode)
		}
	}
	if a := do(t, http.MethodPut, s.RegistryURL()+"/control", `{"receiver":5}`); a.StatusCode != http.StatusNotFound {
		t.Errorf("receiver 5: %d", a.StatusCode)
	}
}

func TestNodeAPI(t *testing.T) {
	s := start(t, Options{Nodes: []NodeOptions{{Receivers: 2}}})
	n := s.Nodes()[0]
	base := n.URL() + "/x-nmos/node/v1.3"
	var listing, captured []string
	do(t, http.MethodGet, base+"/", nil).decode(t, &listing)
	fixture(t, "node/base.json", &captured)
	slices.Sort(listing)
	if !slices.Equal(listing, captured) {
		t.Errorf("base %v, captured %v", listing, captured)
	}
	var self map[string]any
	do(t, http.MethodGet, base+"/self", nil).decode(t, &self)
	if err := checkResource(nodes, self); err != nil {
		t.Error(err)
	}
	for path, want := range map[string]int{"/devices": 1, "/receivers": 2, "/senders": 0, "/flows/": 0, "/sources": 0} {
		var list []map[string]any
		if do(t, http.MethodGet, base+path, nil).decode(t, &list); list == nil || len(list) != want {
			t.Errorf("%s: %v", path, list)
		}
	}
	missing := do(t, http.MethodGet, base+"/receivers/x", nil)
	var want, got errorBody
	fixture(t, "node/error-404.json", &want)
	if missing.decode(t, &got); missing.StatusCode != 404 || got != want {
		t.Errorf("404: %s", missing.body)
	}
}
