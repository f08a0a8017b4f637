package nmosstandin

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/coder/websocket"
)

func subscribe(t *testing.T, s *StandIn, path string, params map[string]string) (subscriptionBody, int) {
	t.Helper()
	a := do(t, http.MethodPost, s.QueryURL()+queryBase+"/subscriptions", map[string]any{
		"max_update_rate_ms": 5, "persist": false, "resource_path": path, "params": params})
	var body subscriptionBody
	a.decode(t, &body)
	return body, a.StatusCode
}

func connect(t *testing.T, href string) *websocket.Conn {
	t.Helper()
	conn, _, err := websocket.Dial(t.Context(), href, &websocket.DialOptions{HTTPClient: &http.Client{Transport: &http.Transport{}}})
	if err != nil {
		t.Fatal(err)
	}
	conn.SetReadLimit(1 << 20)
	t.Cleanup(func() { _ = conn.CloseNow() })
	return conn
}

func receive(t *testing.T, conn *websocket.Conn) (m grainMessage, raw map[string]any) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	_, text, err := conn.Read(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &m); err != nil {
		t.Fatal(err)
	}
	_ = json.Unmarshal(text, &raw)
	return m, raw
}

// shape lists the dotted member names of a document, without what lies inside
// resources.
func shape(value any, at string) (names []string) {
	switch v := value.(type) {
	case map[string]any:
		for key, member := range v {
			names = append(names, at+key)
			if key != "pre" && key != "post" {
				names = append(names, shape(member, at+key+".")...)
			}
		}
	case []any:
		for _, element := range v {
			names = append(names, shape(element, at)...)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

func TestGrainsLookLikeTheCapturedOnes(t *testing.T) {
	s := start(t, Options{NoNodes: true})
	doc := sample(t)
	post(t, s, "node", doc)
	body, status := subscribe(t, s, "/nodes", map[string]string{})
	if status != http.StatusCreated {
		t.Fatalf("status %d", status)
	}
	var captured struct{ Response map[string]any }
	fixture(t, "ws/nodes-subscription.json", &captured)
	var shown map[string]any
	_ = json.Unmarshal(encode(body), &shown)
	if got, want := shape(shown, ""), shape(captured.Response, ""); !slices.Equal(got, want) {
		t.Errorf("subscription has %v, captured %v", got, want)
	}
	if again, status := subscribe(t, s, "/nodes", map[string]string{}); status != http.StatusOK || again.ID != body.ID {
		t.Errorf("the same body again: %d %s, want 200 %s", status, again.ID, body.ID)
	}
	conn := connect(t, body.WSHref)
	step := func(name, file string, pre, post bool, equal bool) {
		t.Helper()
		m, raw := receive(t, conn)
		var want map[string]any
		fixture(t, "ws/"+file, &want)
		if got := shape(raw, ""); !slices.Equal(got, shape(want, "")) {
			t.Errorf("%s: message has %v, captured %v", name, got, shape(want, ""))
		}
		e := m.Grain.Data[0]
		if m.Grain.Topic != "/nodes/" || m.FlowID != body.ID || e.Path != doc["id"] {
			t.Errorf("%s: topic %q flow_id %q path %q", name, m.Grain.Topic, m.FlowID, e.Path)
		}
		if (e.Pre != nil) != pre || (e.Post != nil) != post || reflect.DeepEqual(e.Pre, e.Post) != equal {
			t.Errorf("%s: pre %s post %s", name, e.Pre, e.Post)
		}
	}
	step("sync", "nodes-01-sync.json", true, true, true)
	doc["version"], doc["label"] = "1796048002:0", "changed"
	post(t, s, "node", doc)
	step("modified", "nodes-04-modified.json", true, true, false)
	post(t, s, "node", doc)
	step("re-POST", "nodes-07-reposted-unchanged.json", true, true, true)
	do(t, http.MethodDelete, s.RegistryURL()+registrationBase+"/resource/nodes/"+doc["id"].(string), nil)
	step("removed", "nodes-03-removed.json", true, false, false)
	post(t, s, "node", doc)
	step("added", "nodes-02-added.json", false, true, false)
}

func TestSyncComesInMessagesOfTen(t *testing.T) {
	s := start(t, Options{NoNodes: true})
	for i := range 27 {
		doc := sample(t)
		doc["id"] = fmt.Sprintf("6c7c9cb6-7445-5ea2-a152-%012d", i)
		post(t, s, "node", doc)
	}
	body, _ := subscribe(t, s, "/nodes", map[string]string{"label": "agent"})
	conn := connect(t, body.WSHref)
	seen := map[string]bool{}
	for _, want := range []int{10, 10, 7} {
		m, _ := receive(t, conn)
		if len(m.Grain.Data) != want {
			t.Errorf("%d entries, want %d", len(m.Grain.Data), want)
		}
		for _, e := range m.Grain.Data {
			seen[e.Path] = true
		}
	}
	if len(seen) != 27 {
		t.Errorf("%d different nodes", len(seen))
	}
}

func TestWalkingAllPages(t *testing.T) {
	s := start(t, Options{NoNodes: true})
	for i := range 27 {
		doc := sample(t)
		doc["id"] = fmt.Sprintf("6c7c9cb6-7445-5ea2-a152-%012d", i)
		post(t, s, "node", doc)
	}
	var list []map[string]any
	plain := do(t, http.MethodGet, s.QueryURL()+queryBase+"/nodes", nil)
	if plain.decode(t, &list); len(list) != 10 || plain.Header.Get("X-Paging-Limit") != "10" {
		t.Errorf("plain GET: %d nodes, limit %q", len(list), plain.Header.Get("X-Paging-Limit"))
	}
	seen, since, requests := map[string]bool{}, "0:0", 0
	for {
		page := do(t, http.MethodGet, s.QueryURL()+queryBase+"/nodes?paging.order=create&paging.limit=10&paging.since="+since, nil)
		requests++
		if page.decode(t, &list); len(list) == 0 {
			break
		}
		for _, doc := range list {
			seen[doc["id"].(string)] = true
		}
		since = page.Header.Get("X-Paging-Until")
	}
	if len(seen) != 27 || requests != 4 {
		t.Errorf("%d nodes in %d requests, want 27 in 4 as captured", len(seen), requests)
	}
	if rql := do(t, http.MethodGet, s.QueryURL()+queryBase+"/nodes?query.rql=eq(label,agent)", nil); rql.StatusCode != http.StatusNotImplemented {
		t.Errorf("RQL: %d", rql.StatusCode)
	}
}

func TestSubscriptionsBadAndGone(t *testing.T) {
	s := start(t, Options{NoNodes: true, SubscriptionExpiry: 50 * time.Millisecond})
	for name, body := range map[string]string{
		"params missing": `{"max_update_rate_ms":1,"persist":false,"resource_path":"/nodes"}`,
		"path":           `{"max_update_rate_ms":1,"persist":false,"resource_path":"nodes","params":{}}`,
		"secure":         `{"max_update_rate_ms":1,"persist":false,"resource_path":"/nodes","params":{},"secure":true}`,
	} {
		if a := do(t, http.MethodPost, s.QueryURL()+queryBase+"/subscriptions", body); a.StatusCode != http.StatusBadRequest {
			t.Errorf("%s: %d", name, a.StatusCode)
		}
	}
	rql := `{"max_update_rate_ms":1,"persist":false,"resource_path":"/nodes","params":{"query.rql":"eq(a,b)"}}`
	if a := do(t, http.MethodPost, s.QueryURL()+queryBase+"/subscriptions", rql); a.StatusCode != http.StatusNotImplemented {
		t.Errorf("RQL: %d", a.StatusCode)
	}
	body, _ := subscribe(t, s, "/nodes", map[string]string{})
	url := s.QueryURL() + queryBase + "/subscriptions/" + body.ID
	if a := do(t, http.MethodDelete, url, nil); a.StatusCode != http.StatusForbidden {
		t.Errorf("DELETE of a non-persistent one: %d", a.StatusCode)
	}
	eventually(t, "an unused subscription expires", func() bool { return do(t, http.MethodGet, url, nil).StatusCode == http.StatusNotFound })
	_, resp, err := websocket.Dial(t.Context(), body.WSHref, &websocket.DialOptions{HTTPClient: &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}})
	if err == nil || resp == nil || resp.StatusCode != http.StatusBadRequest {
		t.Errorf("connect to an expired subscription: %v %v, want 400", resp, err)
	}
}

func TestSocketAccidents(t *testing.T) {
	s := start(t, Options{NoNodes: true})
	post(t, s, "node", sample(t))
	open := func() *websocket.Conn {
		body, _ := subscribe(t, s, "/nodes", map[string]string{})
		return connect(t, body.WSHref)
	}
	conn := open()
	receive(t, conn)
	s.DropSockets()
	if _, _, err := conn.Read(t.Context()); err == nil || websocket.CloseStatus(err) != -1 {
		t.Errorf("dropped socket: %v, want an abrupt end", err)
	}
	conn = open()
	receive(t, conn)
	go s.StopRegistry()
	if _, _, err := conn.Read(t.Context()); websocket.CloseStatus(err) != websocket.StatusNormalClosure {
		t.Errorf("registry stop: %v, want close code 1000", err)
	}
	eventually(t, "no socket is open", func() bool { return s.Stats().SocketsOpen == 0 })
	if err := s.StartRegistry(); err != nil {
		t.Fatal(err)
	}
	post(t, s, "node", sample(t))
	if err := s.SetFaults(Faults{Sockets: SocketFaults{DropAfter: 1}}); err != nil {
		t.Fatal(err)
	}
	if _, _, err := open().Read(t.Context()); err == nil {
		t.Error("a whole message came through a socket that breaks in its first")
	}
	if err := s.SetFaults(Faults{Sockets: SocketFaults{Garbage: "{"}}); err != nil {
		t.Fatal(err)
	}
	if _, text, err := open().Read(t.Context()); err != nil || string(text) != "{" {
		t.Errorf("garbage: %q %v", text, err)
	}
	if err := s.SetFaults(Faults{RefuseSubscriptions: http.StatusNotImplemented}); err != nil {
		t.Fatal(err)
	}
	if _, status := subscribe(t, s, "/nodes", map[string]string{}); status != http.StatusNotImplemented {
		t.Errorf("refused subscription: %d", status)
	}
}
