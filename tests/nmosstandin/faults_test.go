package nmosstandin

import (
	"encoding/json"
	"net/http"
	"testing"
	"time"
)

func TestFaults(t *testing.T) {
	s := start(t, Options{})
	url := single(s, "v1.2", "/active")
	fault := func(rule string) {
		t.Helper()
		if a := do(t, http.MethodPut, s.ControlURL()+"/faults", `{"rules":[`+rule+`]}`); a.StatusCode != http.StatusOK {
			t.Fatalf("%s: %d %s", rule, a.StatusCode, a.body)
		}
	}
	decoded := func() (doc map[string]any) {
		t.Helper()
		do(t, http.MethodGet, url, nil).decode(t, &doc)
		return doc
	}

	fault(`{"match":"/active$","status":500}`)
	if a := do(t, http.MethodGet, url, nil); a.StatusCode != 500 || !json.Valid(a.body) {
		t.Errorf("status: %d %s", a.StatusCode, a.body)
	}
	if a := do(t, http.MethodGet, single(s, "v1.2", "/staged"), nil); a.StatusCode != 200 {
		t.Errorf("a rule for /active hit /staged: %d", a.StatusCode)
	}
	fault(`{"server":"query","status":500}`)
	if a := do(t, http.MethodGet, url, nil); a.StatusCode != 200 {
		t.Errorf("a rule for the query server hit a node: %d", a.StatusCode)
	}
	fault(`{"methods":["PATCH"],"status":500}`)
	if a := do(t, http.MethodGet, url, nil); a.StatusCode != 200 {
		t.Errorf("a rule for PATCH hit a GET: %d", a.StatusCode)
	}
	fault(`{"times":1,"status":503}`)
	if first, second := do(t, http.MethodGet, url, nil), do(t, http.MethodGet, url, nil); first.StatusCode != 503 || second.StatusCode != 200 {
		t.Errorf("once: %d, then %d", first.StatusCode, second.StatusCode)
	}
	fault(`{"cut":20}`)
	if a := do(t, http.MethodGet, url, nil); len(a.body) != 20 || json.Valid(a.body) {
		t.Errorf("cut: %q", a.body)
	}
	fault(`{"break":20}`)
	if a, err := try(t, http.MethodGet, url, nil); err == nil {
		t.Errorf("break: %q without an error", a.body)
	}
	fault(`{"drop":true}`)
	if _, err := try(t, http.MethodGet, url, nil); err == nil {
		t.Error("drop: answered")
	}
	fault(`{"remove":["transport_file","activation.mode"]}`)
	if doc := decoded(); doc["transport_file"] != nil || len(doc["activation"].(map[string]any)) != 2 {
		t.Errorf("remove: %v", doc)
	}
	fault(`{"replace":{"master_enable":"yes","transport_params.mxl_flow_id":7}}`)
	if doc := decoded(); doc["master_enable"] != "yes" || doc["transport_params"].([]any)[0].(map[string]any)["mxl_flow_id"] != 7.0 {
		t.Errorf("replace: %v", doc)
	}
	fault(`{"body":"<html>"}`)
	if a := do(t, http.MethodGet, url, nil); string(a.body) != "<html>" {
		t.Errorf("body: %s", a.body)
	}
	fault(`{"pad":10000000}`)
	if a := do(t, http.MethodGet, url, nil); a.ContentLength < 10_000_000 {
		t.Errorf("pad: %d bytes", a.ContentLength)
	}
	fault(`{"delay_ms":30}`)
	before := time.Now()
	if decoded(); time.Since(before) < 30*time.Millisecond {
		t.Error("delay: no delay")
	}
	fault(`{"hang":true}`)
	hung := make(chan error, 1)
	go func() {
		_, err := try(t, http.MethodGet, url, nil)
		hung <- err
	}()
	eventually(t, "the hanging request has arrived", func() bool {
		return s.Stats().Requests["node GET "+"/x-nmos/connection/v1.2/single/receivers/"+s.Receivers()[0].ID+"/active"] > 0 && len(hung) == 0
	})
	do(t, http.MethodDelete, s.ControlURL()+"/faults", nil)
	if err := <-hung; err != nil {
		t.Errorf("hang: %v after the fault went", err)
	}
	if a := do(t, http.MethodPut, s.ControlURL()+"/faults", `{"rules":[{"match":"("}]}`); a.StatusCode != http.StatusBadRequest {
		t.Errorf("a bad pattern: %d", a.StatusCode)
	}
}

func TestFaultsSpareOwnNodes(t *testing.T) {
	s := start(t, Options{Nodes: []NodeOptions{{}}, Heartbeat: 10 * time.Millisecond, NodeExpiry: 300 * time.Millisecond})
	count := func() int {
		s.registry.mu.Lock()
		defer s.registry.mu.Unlock()
		return len(s.registry.store.byKind[nodes])
	}
	eventually(t, "the node is registered", func() bool { return count() == 1 })
	if err := s.SetFaults(Faults{Rules: []Rule{{Server: "registry", Status: 500}}}); err != nil {
		t.Fatal(err)
	}
	if a := post(t, s, "node", sample(t)); a.StatusCode != 500 {
		t.Errorf("a foreign POST: %d", a.StatusCode)
	}
	if err := s.SetFaults(Faults{Rules: []Rule{{Server: "registry", Status: 500, Own: true}}}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the node is collected", func() bool { return count() == 0 })
}
