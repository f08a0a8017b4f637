package nmos

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"
)

// facility is a registry's Query API, with paging and subscriptions, and the
// Connection APIs of its nodes, all on one httptest server.
type facility struct {
	tb  testing.TB
	srv *httptest.Server

	mu        sync.Mutex
	docs      [kinds][]facilityDoc
	known     map[string]bool // was put before
	clock     int64           // creation order
	pageSize  int             // 0: no paging
	plainOnly bool            // 501 to any parameter
	noSubs    bool
	status    int    // of the REST API, 0: well
	truncate  bool   // cut the JSON
	raw       string // overrides REST bodies of receivers
	active    map[string]string
	activeAt  func(w http.ResponseWriter, r *http.Request, id string) bool // true: handled
	reads     map[string]int
	passes    int // requests for the first page of /nodes
	socks     [kinds][]*websocket.Conn
	subs      int
}

type facilityDoc struct {
	id      string
	body    string
	created int64
}

func newFacility(tb testing.TB) *facility {
	f := &facility{tb: tb, active: map[string]string{}, reads: map[string]int{}, known: map[string]bool{}, pageSize: 10}
	f.srv = httptest.NewServer(http.HandlerFunc(f.serve))
	tb.Cleanup(func() {
		f.dropSockets()
		f.srv.CloseClientConnections()
		f.srv.Close()
	})
	return f
}

func (f *facility) host() string { return strings.TrimPrefix(f.srv.URL, "http://") }

func (f *facility) set(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
}

func (f *facility) readsOf(id string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.reads[id]
}

func testID(k kind, n int) string {
	return fmt.Sprintf("%08x-0000-4000-8000-%012x", 0x10000000*(int(k)+1), n)
}

// put adds or replaces a document and tells the subscribers.
func (f *facility) put(k kind, id, body string) {
	f.mu.Lock()
	f.clock++
	if f.known[id] {
		f.docs[k] = slices.DeleteFunc(f.docs[k], func(d facilityDoc) bool { return d.id == id })
	}
	f.known[id] = true
	f.docs[k] = append(f.docs[k], facilityDoc{id, body, f.clock})
	f.mu.Unlock()
	f.tell(k, fmt.Sprintf(`{"path":%q,"post":%s}`, id, body))
}

func (f *facility) remove(k kind, id string) {
	f.mu.Lock()
	f.docs[k] = slices.DeleteFunc(f.docs[k], func(d facilityDoc) bool { return d.id == id })
	f.mu.Unlock()
	f.tell(k, fmt.Sprintf(`{"path":%q,"pre":{}}`, id))
}

// putNode adds node n with one device and receivers, all on this server.
func (f *facility) putNode(n int, host string, receivers ...int) {
	f.put(kindNode, testID(kindNode, n), fmt.Sprintf(`{"id":%q,"version":"1:0","label":"node %d","description":"","tags":{},"href":"http://%s/",
		"hostname":"node-%d.test","api":{"versions":["v1.3"],"endpoints":[{"host":%q,"port":80,"protocol":"http"}]},"caps":{},"services":[],"clocks":[],"interfaces":[]}`,
		testID(kindNode, n), n, host, n, host))
	f.put(kindDevice, testID(kindDevice, n), fmt.Sprintf(`{"id":%q,"version":"1:0","label":"","node_id":%q,"controls":[
		{"type":"urn:x-nmos:control:sr-ctrl/v1.0","href":"%s/x-nmos/connection/v1.0"},
		{"type":"urn:x-nmos:control:sr-ctrl/v1.2","href":"%s/x-nmos/connection/v1.2/"}]}`,
		testID(kindDevice, n), testID(kindNode, n), f.srv.URL, f.srv.URL))
	for _, r := range receivers {
		f.putReceiver(n, r, "1:0")
	}
}

func (f *facility) putReceiver(n, r int, version string) {
	f.put(kindReceiver, testID(kindReceiver, r), fmt.Sprintf(
		`{"id":%q,"version":%q,"label":"receiver %d","device_id":%q,"transport":"urn:x-nmos:transport:mxl","subscription":{"active":false,"sender_id":null}}`,
		testID(kindReceiver, r), version, r, testID(kindDevice, n)))
}

const (
	domain1 = "5f4c1d2e-7a3b-4c6d-9e8f-0a1b2c3d4e5f"
	flow1   = "0d9f6c3a-2b71-4f5e-8a64-1c2d3e4f5a6b"
	flow2   = "1d9f6c3a-2b71-7f5e-8a64-1c2d3e4f5a6b"
)

// activate changes /active and raises the receiver's version, as a node does.
func (f *facility) activate(n, r int, enable bool, domain, flow, version string) {
	f.set(func() {
		f.active[testID(kindReceiver, r)] = fmt.Sprintf(
			`{"sender_id":null,"master_enable":%t,"activation":{},"transport_params":[{"mxl_domain_id":%q,"mxl_flow_id":%q}]}`, enable, domain, flow)
	})
	if version != "" {
		f.putReceiver(n, r, version)
	}
}

// restart forgets everything without a word and drops the sockets.
func (f *facility) restart() {
	f.set(func() { f.docs = [kinds][]facilityDoc{} })
	f.dropSockets()
}

func (f *facility) dropSockets() {
	f.mu.Lock()
	socks := f.socks
	f.socks = [kinds][]*websocket.Conn{}
	f.mu.Unlock()
	for k := range kinds {
		for _, c := range socks[k] {
			c.CloseNow()
		}
	}
}

func (f *facility) tell(k kind, entries ...string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, c := range f.socks[k] {
		f.write(c, k, entries)
	}
}

func (f *facility) write(c *websocket.Conn, k kind, entries []string) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	text := fmt.Sprintf(`{"grain_type":"event","grain":{"type":"urn:x-nmos:format:data.event","topic":"%s/","data":[%s]}}`, k.path(), strings.Join(entries, ","))
	_ = c.Write(ctx, websocket.MessageText, []byte(text)) // a dropped socket is the test's doing
}

func (f *facility) serve(w http.ResponseWriter, r *http.Request) {
	if rest, ok := strings.CutPrefix(r.URL.Path, "/x-nmos/connection/"); ok {
		f.serveActive(w, r, rest)
		return
	}
	rest := strings.TrimPrefix(r.URL.Path, queryPath)
	if strings.HasPrefix(rest, "/ws/") {
		f.serveSocket(w, r, strings.TrimPrefix(rest, "/ws"))
		return
	}
	if rest == "/subscriptions" && r.Method == http.MethodPost {
		f.subscribe(w, r)
		return
	}
	for k := range kinds {
		if rest == k.path() {
			f.list(w, r, k)
			return
		}
	}
	writeError(w, http.StatusNotFound, r.URL.Path)
}

func (f *facility) serveActive(w http.ResponseWriter, r *http.Request, rest string) {
	version, rest, _ := strings.Cut(rest, "/")
	id := strings.TrimSuffix(strings.TrimPrefix(rest, "single/receivers/"), "/active")
	f.mu.Lock()
	f.reads[id]++
	body, ok := f.active[id]
	hook := f.activeAt
	f.mu.Unlock()
	switch {
	case hook != nil && hook(w, r, id):
	case version != "v1.2":
		w.Header().Set("Location", "/x-nmos/connection/v1.2/single/receivers/"+id+"/active")
		writeError(w, http.StatusConflict, "another version")
	case !ok:
		writeJSON(w, http.StatusOK, []byte(`{"sender_id":null,"master_enable":false,"transport_params":[{"mxl_domain_id":null,"mxl_flow_id":null}]}`))
	default:
		writeJSON(w, http.StatusOK, []byte(body))
	}
}

func (f *facility) list(w http.ResponseWriter, r *http.Request, k kind) {
	f.mu.Lock()
	defer f.mu.Unlock()
	q := r.URL.Query()
	since, _ := ParseTimestamp(q.Get("paging.since"))
	if k == kindNode && since.Seconds == 0 {
		f.passes++
	}
	switch {
	case f.status != 0:
		writeError(w, f.status, "as told")
		return
	case f.plainOnly && len(q) > 0:
		writeError(w, http.StatusNotImplemented, "no parameters here")
		return
	}
	var page []string
	until := since.Seconds
	filter := ""
	if t := q.Get("transport"); t != "" {
		filter = `"transport":"` + t + `"`
	}
	for _, d := range f.docs[k] { // in order of creation
		if f.pageSize != 0 && d.created <= since.Seconds || !strings.Contains(d.body, filter) {
			continue
		}
		if f.pageSize != 0 && len(page) == f.pageSize {
			break
		}
		page = append(page, d.body)
		until = max(until, d.created)
	}
	if f.pageSize != 0 {
		w.Header().Set("X-Paging-Limit", strconv.Itoa(f.pageSize))
		w.Header().Set("X-Paging-Since", since.String())
		w.Header().Set("X-Paging-Until", fmt.Sprintf("%d:0", until))
		w.Header().Set("Link", fmt.Sprintf(`<http://nat.invalid%s?%s>; rel="next"`, r.URL.Path, url.Values{"paging.since": {fmt.Sprintf("%d:0", until)}}.Encode()))
	}
	body := "[" + strings.Join(page, ",") + "]"
	if k == kindReceiver && f.raw != "" {
		body = f.raw
	}
	if f.truncate {
		body = body[:len(body)-1]
	}
	writeJSON(w, http.StatusOK, []byte(body))
}

func (f *facility) subscribe(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	var req struct {
		Rate     *int               `json:"max_update_rate_ms"`
		Persist  *bool              `json:"persist"`
		Resource *string            `json:"resource_path"`
		Params   *map[string]string `json:"params"`
	}
	if err := json.Unmarshal(body, &req); err != nil || req.Rate == nil || req.Persist == nil || req.Resource == nil || req.Params == nil || *req.Persist {
		f.tb.Errorf("subscription request %s", body)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case f.noSubs:
		writeError(w, http.StatusInternalServerError, "no subscriptions")
		return
	case f.plainOnly && len(*req.Params) > 0:
		writeError(w, http.StatusNotImplemented, "no parameters here")
		return
	}
	f.subs++
	writeJSON(w, http.StatusCreated, fmt.Appendf(nil, `{"id":"x","ws_href":"ws://%s%s/ws%s"}`, f.host(), queryPath, *req.Resource))
}

func (f *facility) serveSocket(w http.ResponseWriter, r *http.Request, path string) {
	c, err := websocket.Accept(w, r, nil)
	if err != nil {
		return
	}
	k := kind(slices.IndexFunc([]string{kindNode.path(), kindDevice.path(), kindReceiver.path()}, func(p string) bool { return p == path }))
	f.mu.Lock()
	var entries []string
	for _, d := range f.docs[k] {
		entries = append(entries, fmt.Sprintf(`{"path":%q,"pre":%s,"post":%s}`, d.id, d.body, d.body))
	}
	if len(entries) > 0 {
		f.write(c, k, entries)
	}
	f.socks[k] = append(f.socks[k], c)
	f.mu.Unlock()
	for {
		if _, _, err := c.Read(context.Background()); err != nil {
			return
		}
	}
}

// observe runs an observer until the test ends.
func observe(tb testing.TB, f *facility, change func(*ObserverConfig)) *Observer {
	tb.Helper()
	cfg := ObserverConfig{
		Directory:    StaticDirectory{Query: []string{f.srv.URL}},
		Local:        NewLocalRules(LocalConfig{Hostname: "none.test"}),
		PollInterval: 100 * time.Millisecond,
	}
	if change != nil {
		change(&cfg)
	}
	o, err := NewObserver(cfg)
	if err != nil {
		tb.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); o.Run(ctx) }()
	tb.Cleanup(func() { cancel(); <-done })
	return o
}

// await waits until the snapshot is as wanted.
func await(tb testing.TB, o *Observer, what string, ok func(Snapshot) bool) Snapshot {
	tb.Helper()
	deadline := time.After(30 * time.Second)
	for {
		s := o.Snapshot()
		if ok(s) {
			return s
		}
		select {
		case <-o.Changes():
		case <-time.After(50 * time.Millisecond): // counters change without a notice
		case <-deadline:
			tb.Fatalf("waited 30 s for %s; have %+v", what, s)
		}
	}
}

// receiver finds one receiver of a snapshot.
func (s Snapshot) receiver(r int) Receiver {
	for _, x := range s.Receivers {
		if x.ID == testID(kindReceiver, r) {
			return x
		}
	}
	return Receiver{}
}
