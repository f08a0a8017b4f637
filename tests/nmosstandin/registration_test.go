package nmosstandin

import (
	"net/http"
	"strings"
	"testing"
	"time"
)

func post(t *testing.T, s *StandIn, singular string, doc map[string]any) answered {
	t.Helper()
	return do(t, http.MethodPost, s.RegistryURL()+registrationBase+"/resource", map[string]any{"type": singular, "data": doc})
}

func TestRegistrationRules(t *testing.T) {
	s := start(t, Options{NoNodes: true})
	base := s.RegistryURL() + registrationBase
	doc := sample(t)
	id := doc["id"].(string)
	heartbeat := func() answered { return do(t, http.MethodPost, base+"/health/nodes/"+id, nil) }
	is := func(step string, a answered, status int) {
		t.Helper()
		if a.StatusCode != status {
			t.Fatalf("%s: %d %s, want %d", step, a.StatusCode, a.body, status)
		}
		if a.Header.Get("Access-Control-Allow-Origin") == "" {
			t.Errorf("%s: no CORS header", step)
		}
		if status >= 400 {
			var e errorBody
			if a.decode(t, &e); e.Code != status || e.Error == "" || !strings.Contains(string(a.body), `"debug"`) {
				t.Errorf("%s: error body %s", step, a.body)
			}
		}
	}

	is("heartbeat of an unknown node", heartbeat(), http.StatusNotFound)
	first := post(t, s, "node", doc)
	is("first POST", first, http.StatusCreated)
	if got, want := first.Header.Get("Location"), registrationBase+"/resource/nodes/"+id; got != want {
		t.Errorf("Location %q, want %q", got, want)
	}
	is("same again", post(t, s, "node", doc), http.StatusOK)
	doc["label"] = "other"
	is("changed under an equal version", post(t, s, "node", doc), http.StatusBadRequest)
	doc["version"] = "1796047999:0"
	older := post(t, s, "node", doc)
	is("older version", older, http.StatusBadRequest)
	var want, got errorBody
	fixture(t, "registration/error-400-older-version.json", &want)
	if older.decode(t, &got); got.Error != want.Error {
		t.Errorf("older version: %q, captured %q", got.Error, want.Error)
	}
	doc["version"] = "1796048001:0"
	is("newer version", post(t, s, "node", doc), http.StatusOK)
	beat := heartbeat()
	is("heartbeat", beat, http.StatusOK)
	var health struct{ Health string }
	if beat.decode(t, &health); len(health.Health) < 10 {
		t.Errorf("heartbeat body %s", beat.body)
	}
	other := do(t, http.MethodPost, s.RegistryURL()+registrationRoot+"/v1.2/health/nodes/"+id, nil)
	is("heartbeat at v1.2", other, http.StatusConflict)
	if got := other.Header.Get("Location"); got != registrationBase+"/health/nodes/"+id {
		t.Errorf("409 Location %q", got)
	}
	is("a kind that is not", post(t, s, "thing", doc), http.StatusBadRequest)
	is("a device of nobody", post(t, s, "device", map[string]any{"id": "c2bf0720-d316-52f0-b6df-0c2171d7c355", "version": "1:0", "label": "", "description": "",
		"tags": map[string]any{}, "type": "urn:x", "node_id": "d2cfa6dd-dba5-5931-94aa-c001fa08c786", "senders": []any{}, "receivers": []any{}, "controls": []any{}}), http.StatusBadRequest)
	is("broken JSON", do(t, http.MethodPost, base+"/resource", `{"type":`), http.StatusBadRequest)
	is("unknown path", do(t, http.MethodGet, base+"/nothing", nil), http.StatusNotFound)
	is("GET of the registration", do(t, http.MethodGet, base+"/resource/nodes/"+id, nil), http.StatusOK)
	is("PUT of the registration", do(t, http.MethodPut, base+"/resource/nodes/"+id, "{}"), http.StatusMethodNotAllowed)
	if n := len(s.Registered()); n != 1 {
		t.Errorf("%d foreign nodes registered, want 1", n)
	}
	is("DELETE", do(t, http.MethodDelete, base+"/resource/nodes/"+id, nil), http.StatusNoContent)
	is("DELETE again", do(t, http.MethodDelete, base+"/resource/nodes/"+id, nil), http.StatusNotFound)
	if got := s.Deleted(); len(got) != 2 || got[0] != registrationBase+"/resource/nodes/"+id {
		t.Errorf("recorded deletions %q", got)
	}
	kept := s.Stats().Nodes[id]
	if kept.Registrations != 3 || kept.Heartbeats != 1 || kept.HeartbeatsRefused != 1 || kept.HeartbeatFaults != 0 {
		t.Errorf("stats %+v", kept)
	}
}

func TestNodeWithoutHeartbeatIsCollected(t *testing.T) {
	var changes []change
	s := newStore(func(c change) { changes = append(changes, c) })
	at := time.Unix(1_800_000_000, 0)
	var receiverDocs, deviceDocs, nodeDocs []map[string]any
	fixture(t, "query/nodes.json", &nodeDocs)
	fixture(t, "query/devices.json", &deviceDocs)
	fixture(t, "query/receivers.json", &receiverDocs)
	for _, part := range []struct {
		k    kind
		docs []map[string]any
	}{{nodes, nodeDocs}, {devices, deviceDocs}, {receivers, receiverDocs}} {
		for _, doc := range part.docs {
			if _, _, err := s.put(part.k, doc, at); err != nil {
				t.Fatal(err)
			}
		}
	}
	changes = nil
	keep := func(id string) bool { return id == nodeDocs[1]["id"] }
	if got := s.expire(at.Add(12*time.Second), 12*time.Second, keep); got != nil {
		t.Fatalf("collected %v at exactly 12 s", got)
	}
	s.heartbeat(nodeDocs[0]["id"].(string), at.Add(5*time.Second))
	if got := s.expire(at.Add(16*time.Second), 12*time.Second, keep); got != nil {
		t.Fatalf("collected %v in spite of a heartbeat", got)
	}
	if got := s.expire(at.Add(18*time.Second), 12*time.Second, keep); len(got) != 1 {
		t.Fatalf("collected %v", got)
	}
	counts := map[kind]int{}
	var last stamp
	for _, c := range changes {
		counts[c.kind]++
		if c.post != nil || c.pre == nil {
			t.Errorf("%s %s is not a removal", c.kind, c.id)
		}
		if c.at <= last {
			t.Errorf("time stamps do not rise: %v after %v", c.at, last)
		}
		last = c.at
	}
	if counts[nodes] != 1 || counts[devices] != 1 || counts[receivers] != len(receiverDocs) {
		t.Errorf("removed %v", counts)
	}
	if changes[len(changes)-1].kind != nodes {
		t.Error("the node went before its children")
	}
}

func TestStandInNodesReturnToAnEmptyRegistry(t *testing.T) {
	s := start(t, Options{Nodes: []NodeOptions{{Receivers: 3}}, Heartbeat: 20 * time.Millisecond, ListSelf: true})
	complete := func() bool {
		a, err := try(t, http.MethodGet, s.QueryURL()+queryBase+"/receivers", nil)
		var list []map[string]any
		if err != nil || a.StatusCode != http.StatusOK {
			return false
		}
		a.decode(t, &list)
		return len(list) == 3
	}
	eventually(t, "three receivers listed", complete)
	port := s.RegistryPort()
	s.StopRegistry()
	if _, err := try(t, http.MethodGet, s.QueryURL()+queryBase+"/nodes", nil); err == nil {
		t.Error("a stopped registry answers")
	}
	if err := s.StartRegistry(); err != nil {
		t.Fatal(err)
	}
	if s.RegistryPort() != port {
		t.Errorf("registry moved from port %d to %d", port, s.RegistryPort())
	}
	eventually(t, "three receivers listed again", complete)
}
