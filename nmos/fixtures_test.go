package nmos

import (
	"bytes"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

const (
	fixtureNode     = "d2cfa6dd-dba5-5931-94aa-c001fa08c786"
	fixtureDevice   = "c2bf0720-d316-52f0-b6df-0c2171d7c355"
	fixtureReceiver = "9d8af86d-bf4c-5d4b-8ac4-4f0912720050"
)

func parseFixtureList(t *testing.T, k kind, name string, want int) []resource {
	t.Helper()
	items, notes, err := parseList(k, fixture(t, name))
	if err != nil || len(notes) != 0 || len(items) != want {
		t.Fatalf("%s: %d items, notes %v, error %v", name, len(items), notes, err)
	}
	for _, r := range items {
		if r.bad || r.id == "" {
			t.Errorf("%s: %+v", name, r)
		}
	}
	return items
}

func TestFixtureCollections(t *testing.T) {
	nodes := parseFixtureList(t, kindNode, "query/nodes.json", 2)
	if n := nodes[0]; n.id != fixtureNode || n.node.label != "mxl-node-a" || n.node.hostname != "node-a.test" || !slices.Equal(n.node.hosts, []string{"127.0.0.1"}) {
		t.Errorf("node %s %+v", n.id, n.node)
	}
	devices := parseFixtureList(t, kindDevice, "query/devices.json", 1)
	want := []control{{2, "http://127.0.0.1:8020/x-nmos/connection/v1.2"}, {1, "http://127.0.0.1:8020/x-nmos/connection/v1.1"}, {0, "http://127.0.0.1:8020/x-nmos/connection/v1.0"}}
	if d := devices[0]; d.id != fixtureDevice || d.device.nodeID != fixtureNode || !slices.Equal(d.device.controls, want) {
		t.Errorf("device %s %+v", d.id, d.device)
	}
	for _, r := range parseFixtureList(t, kindReceiver, "query/receivers.json", 3) {
		if !r.receiver.mxl || r.receiver.deviceID != fixtureDevice {
			t.Errorf("receiver %s %+v", r.id, r.receiver)
		}
	}
	second := parseFixtureList(t, kindDevice, "second/devices.json", 1)
	if c := second[0].device.controls; len(c) != 1 || c[0] != (control{2, "http://127.0.0.1:8030/x-nmos/connection/v1.2"}) {
		t.Errorf("controls %+v", c)
	}
	parseFixtureList(t, kindNode, "second/nodes.json", 1)
	parseFixtureList(t, kindReceiver, "second/receivers.json", 1)
	for k, name := range map[kind]string{kindNode: "node/self.json", kindReceiver: "query/receiver-enabled.json"} {
		if r, notes := parseResource(k, fixture(t, name)); r.bad || len(notes) != 0 {
			t.Errorf("%s: %+v %v", name, r, notes)
		}
	}
	if r, notes := parseResource(kindReceiver, fixture(t, "second/receiver-enabled.json")); r.bad || len(notes) != 0 {
		t.Errorf("second receiver: %+v %v", r, notes)
	}
}

func TestFixtureActive(t *testing.T) {
	const domain, flow = "5f4c1d2e-7a3b-4c6d-9e8f-0a1b2c3d4e5f", "0d9f6c3a-2b71-4f5e-8a64-1c2d3e4f5a6b"
	for name, want := range map[string]activeFacts{
		"connection/active-idle.json":              {false, domain, ""},
		"connection/active-enabled.json":           {true, domain, flow},
		"connection/active-disabled.json":          {false, domain, flow},
		"second/active-idle.json":                  {false, "", ""},
		"second/active-enabled.json":               {true, domain, flow},
		"connection/staged-idle.json":              {false, "", ""}, // the same shape, with "auto"
		"connection/patch-immediate.response.json": {true, domain, flow},
	} {
		got, reasons, err := parseActive(fixture(t, name))
		if err != nil || len(reasons) != 0 || got != want {
			t.Errorf("%s: %+v, %v, %v; want %+v", name, got, reasons, err, want)
		}
	}
}

func TestActiveUnset(t *testing.T) {
	for body, want := range map[string]struct {
		facts   activeFacts
		reasons int
		fails   bool
	}{
		`{"master_enable":true,"transport_params":[{"mxl_domain_id":"auto","mxl_flow_id":null}]}`:                         {facts: activeFacts{true, "", ""}},
		`{"master_enable":true,"transport_params":[{"mxl_domain_id":"","mxl_flow_id":"` + strings.ToUpper(flow2) + `"}]}`: {facts: activeFacts{true, "", flow2}},
		`{"master_enable":true,"transport_params":[]}`:                                                                    {fails: true},
		`{"master_enable":false,"transport_params":[]}`:                                                                   {},
		`{"master_enable":true,"transport_params":null}`:                                                                  {fails: true},
		`{"master_enable":false}`: {},
		`{"master_enable":true}`:  {fails: true},
		`{"master_enable":true,"transport_params":[{"destination_port":5004,"ext_x":1}]}`:                                 {fails: true},
		`{"master_enable":true,"transport_params":[{"mxl_domain_id":7,"mxl_flow_id":"x"}]}`:                               {fails: true},
		`{"master_enable":false,"transport_params":[{"mxl_domain_id":7,"mxl_flow_id":"x"}]}`:                              {reasons: 2},
		`{"master_enable":true,"transport_params":[{"mxl_domain_id":"` + domain1 + `","mxl_flow_id":"` + flow1 + `"},7]}`: {facts: activeFacts{true, domain1, flow1}},
		`{"master_enable":true,"transport_params":[7]}`:                                                                   {fails: true},
		`{"master_enable":"yes","transport_params":[{}]}`:                                                                 {fails: true},
		`{"transport_params":[{}]}`: {fails: true},
		`{"master_enable":null}`:    {fails: true},
		`[]`:                        {fails: true}, `null`: {fails: true}, ``: {fails: true}, `{"master_enable":true`: {fails: true},
	} {
		got, reasons, err := parseActive([]byte(body))
		if (err != nil) != want.fails || len(reasons) != want.reasons || got != want.facts {
			t.Errorf("%s: %+v, %v, %v", body, got, reasons, err)
		}
	}
}

// TestFixtureMessages plays the captured messages in the order of arrival.
func TestFixtureMessages(t *testing.T) {
	v := newView(12*time.Second, 30*time.Second, "")
	play := func(k kind, name string) touched {
		t.Helper()
		m, err := parseMessage(k, fixture(t, "ws/"+name+".json"))
		if err != nil || len(m.notes) != 0 || len(m.changes) == 0 {
			t.Fatalf("%s: %+v, %v", name, m, err)
		}
		return v.applyMessage(m, time.Unix(1, 0))
	}
	listed := func(k kind) (n int) {
		for _, e := range v.entries[k] {
			if e.missing.IsZero() {
				n++
			}
		}
		return n
	}
	expect := func(nodes, devices, receivers int) {
		t.Helper()
		if n, d, r := listed(kindNode), listed(kindDevice), listed(kindReceiver); n != nodes || d != devices || r != receivers {
			t.Errorf("%d nodes, %d devices, %d receivers; want %d, %d, %d", n, d, r, nodes, devices, receivers)
		}
	}
	play(kindNode, "nodes-01-sync")
	play(kindDevice, "devices-01-sync")
	if got := play(kindReceiver, "receivers-01-sync"); len(got) != 3 {
		t.Errorf("sync asks for %d reads", len(got))
	}
	expect(2, 1, 3)
	play(kindNode, "nodes-02-added")
	expect(3, 1, 3)
	play(kindNode, "nodes-03-removed")
	expect(2, 1, 3)
	for _, name := range []string{"receivers-02-enabled", "receivers-03-disabled"} {
		if got := play(kindReceiver, name); len(got) != 1 || !got[fixtureReceiver] {
			t.Errorf("%s asks for %v", name, got)
		}
	}
	play(kindNode, "nodes-04-modified")
	play(kindNode, "nodes-05-removed-then-added")
	expect(2, 1, 3)
	play(kindReceiver, "receivers-04-removed")
	expect(2, 1, 0)
	play(kindDevice, "devices-02-removed")
	play(kindDevice, "devices-03-added")
	if got := play(kindReceiver, "receivers-05-added"); len(got) != 3 {
		t.Errorf("the return asks for %d reads", len(got))
	}
	expect(2, 1, 3)
	play(kindReceiver, "receivers-06-collected")
	play(kindDevice, "devices-04-collected")
	play(kindNode, "nodes-06-collected")
	expect(1, 0, 0)
	play(kindNode, "nodes-07-reposted-unchanged")
}

func TestFixtureSubscriptions(t *testing.T) {
	for k := range kinds {
		doc := struct{ Request, Response json.RawMessage }{}
		if err := json.Unmarshal(fixture(t, "ws"+k.path()+"-subscription.json"), &doc); err != nil {
			t.Fatal(err)
		}
		href, err := parseSubscription(doc.Response)
		if err != nil || !strings.HasPrefix(href, "ws://127.0.0.1:8011/x-nmos/query/v1.3/subscriptions/") {
			t.Errorf("%v: %q, %v", k, href, err)
		}
		params := map[string]string{}
		if k == kindReceiver {
			params["transport"] = TransportMXL
		}
		ours, err := json.Marshal(subscriptionRequest{MaxUpdateRateMS: 100, ResourcePath: k.path(), Params: params})
		if err != nil {
			t.Fatal(err)
		}
		var want bytes.Buffer
		if err := json.Compact(&want, doc.Request); err != nil || want.String() != string(ours) {
			t.Errorf("our request %s, captured %s, %v", ours, want.String(), err)
		}
	}
	for _, body := range []string{`{}`, `[]`, `{"ws_href":7}`, `{"ws_href":"http://h/"}`, `{"ws_href":"ws://u:p@h/"}`, `{"ws_href":"ws://"}`, `{"ws_href":"x"}`} {
		if href, err := parseSubscription([]byte(body)); err == nil {
			t.Errorf("%s: accepted as %q", body, href)
		}
	}
}

func TestFixtureErrorsAndHeaders(t *testing.T) {
	if got := errorMessage(fixture(t, "connection/error-409-v1.1.json")); got != "Conflict; v1.1 request is not permitted for a v1.2 resource" {
		t.Errorf("message %q", got)
	}
	for _, name := range []string{"node/error-404.json", "registration/error-404-heartbeat.json", "registration/error-400-older-version.json"} {
		if errorMessage(fixture(t, name)) == "" {
			t.Errorf("%s: no message", name)
		}
	}
	if errorMessage([]byte(`{"error":7,"debug":{}}`)) != "" || errorMessage([]byte(`<html>`)) != "" {
		t.Error("something that is no text was taken for a message")
	}
	h := http.Header{}
	for _, line := range strings.Split(string(fixture(t, "query/receivers.headers.txt")), "\n") {
		if k, v, ok := strings.Cut(strings.TrimSpace(line), ": "); ok {
			h.Add(k, v)
		}
	}
	want := Timestamp{1796048915, 744145826}
	if got, ok := nextSince(h); !ok || got != want {
		t.Errorf("next page from X-Paging-Until: %v, %t", got, ok)
	}
	h.Del("X-Paging-Until")
	if got, ok := nextSince(h); !ok || got != want {
		t.Errorf("next page from Link: %v, %t", got, ok)
	}
	location := ""
	for _, line := range strings.Split(string(fixture(t, "connection/error-409-v1.1.headers.txt")), "\n") {
		if v, ok := strings.CutPrefix(strings.TrimSpace(line), "Location: "); ok {
			location = v
		}
	}
	if got := sameHostLocation(activeURL("http://127.0.0.1:8020/x-nmos/connection/v1.1/", fixtureReceiver), location); got != activeURL("http://127.0.0.1:8020/x-nmos/connection/v1.2", fixtureReceiver) {
		t.Errorf("location leads to %q", got)
	}
}

// Our registration has the shape of the smallest accepted one.
func TestFixtureNodeRegistration(t *testing.T) {
	var captured struct{ Data map[string]any }
	if err := json.Unmarshal(fixture(t, "registration/node-post.request.json"), &captured); err != nil {
		t.Fatal(err)
	}
	ours := unmarshal(t, testNode(t).Document())
	if ours["id"] != captured.Data["id"] {
		t.Errorf("id %v, captured %v", ours["id"], captured.Data["id"])
	}
	for key := range captured.Data {
		if _, ok := ours[key]; !ok {
			t.Errorf("our node has no %q", key)
		}
	}
}

func TestListBounds(t *testing.T) {
	items, notes, err := parseList(kindNode, []byte("["+strings.Repeat("7,", maxResources-1)+"7]"))
	if err != nil || len(items) != maxResources || len(notes) != 256 {
		t.Errorf("%d items, %d notes, %v", len(items), len(notes), err)
	}
	for _, body := range []string{
		"[" + strings.Repeat("7,", maxResources) + "7]", "[7] 7", "[7", "[7,", "[", "", "null", "{}", "7", `"["`, strings.Repeat("[", 20_000),
	} {
		if _, _, err := parseList(kindNode, []byte(body)); err == nil {
			t.Errorf("%.20s… accepted", body)
		}
	}
	if a, _, err := parseActive([]byte(strings.Repeat(" ", 500) + `{"master_enable":false}`)); err != nil || a.masterEnable {
		t.Errorf("blanks before the document: %v", err)
	}
}

// Every JSON fixture is played into every parser: none may panic, and every file
// is one that this package knows.
func TestEveryFixtureParses(t *testing.T) {
	root := filepath.Join("..", "tests", "fixtures", "nmos")
	n := 0
	err := filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(path) != ".json" {
			return err
		}
		n++
		body, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if !json.Valid(body) {
			t.Errorf("%s is no JSON", path)
		}
		feed(body)
		return nil
	})
	if err != nil || n < 40 {
		t.Errorf("%d fixtures, %v", n, err)
	}
}

// feed gives one document to every parser of foreign documents.
func feed(body []byte) {
	for k := range kinds {
		parseList(k, body)
		parseResource(k, body)
		parseMessage(k, body)
	}
	parseActive(body)
	parseSubscription(body)
	errorMessage(body)
}
