package nmos

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// seed adds every captured document below the named folders.
func seed(f *testing.F, folders ...string) {
	f.Helper()
	for _, folder := range folders {
		files, err := filepath.Glob(filepath.Join("..", "tests", "fixtures", "nmos", folder, "*.json"))
		if err != nil || len(files) == 0 {
			f.Fatalf("no fixtures in %s: %v", folder, err)
		}
		for _, file := range files {
			b, err := os.ReadFile(file)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(b)
		}
	}
}

// checkResource holds what every parsed resource must satisfy.
func checkResource(t *testing.T, r resource) {
	t.Helper()
	if r.id != "" {
		if id, err := foreignID(r.id); err != nil || id != r.id {
			t.Errorf("id %q came through", r.id)
		}
	}
	set := 0
	for _, p := range []bool{r.node != nil, r.device != nil, r.receiver != nil} {
		if p {
			set++
		}
	}
	if r.bad != (set == 0) || set > 1 || (!r.bad && r.id == "") {
		t.Errorf("resource %+v", r)
	}
	if r.node != nil && r.node.control != "" {
		if _, err := checkHref(r.node.control, "http", "https"); err != nil || strings.HasSuffix(r.node.control, "/") || r.node.hostID == "" {
			t.Errorf("agent %+v, %v", r.node, err)
		}
	}
	if r.device != nil {
		for _, c := range r.device.controls {
			if _, err := checkHref(c.href, "http", "https"); err != nil {
				t.Errorf("control %+v, %v", c, err)
			}
			if u := activeURL(c.href, fixtureReceiver); strings.Contains(strings.SplitN(u, "://", 2)[1], "//single") {
				t.Errorf("url %q", u)
			}
		}
	}
}

func FuzzCollection(f *testing.F) {
	seed(f, "query", "second", "node")
	f.Fuzz(func(t *testing.T, body []byte) {
		v := newView(time.Second, time.Second, fixtureNode)
		var p pass
		for k := range kinds {
			items, notes, err := parseList(k, body)
			if err != nil {
				continue
			}
			for _, r := range items {
				checkResource(t, r)
			}
			for _, n := range notes {
				if n.reason == "" {
					t.Error("a note without a reason")
				}
			}
			p.lists[k] = items
		}
		v.applyPass(p, 0, time.Unix(1, 0))
		v.agents("", "")
		v.applyPass(pass{started: time.Unix(2, 0)}, 0, time.Unix(2, 0))
		v.expire(time.Unix(100, 0), func(string) bool { return true })
		checkView(t, v)
	})
}

func FuzzResource(f *testing.F) {
	seed(f, "query", "second", "node")
	f.Fuzz(func(t *testing.T, body []byte) {
		for k := range kinds {
			r, notes := parseResource(k, body)
			checkResource(t, r)
			if r.bad && len(notes) == 0 {
				t.Error("bad without a reason")
			}
		}
	})
}

func FuzzMessage(f *testing.F) {
	seed(f, "ws")
	f.Fuzz(func(t *testing.T, body []byte) {
		v := newView(time.Second, time.Second, fixtureNode)
		for k := range kinds {
			m, err := parseMessage(k, body)
			if err != nil {
				continue
			}
			for _, c := range m.changes {
				if c.removed {
					continue
				}
				if !c.res.bad {
					checkResource(t, c.res)
				}
			}
			v.applyMessage(m, time.Unix(1, 0))
			v.applyMessage(m, time.Unix(2, 0))
		}
		v.applyPass(pass{started: time.Unix(3, 0)}, 0, time.Unix(3, 0))
		v.expire(time.Unix(100, 0), func(string) bool { return false })
		checkView(t, v)
	})
}

func FuzzActive(f *testing.F) {
	seed(f, "connection", "second")
	f.Fuzz(func(t *testing.T, body []byte) {
		a, _, err := parseActive(body)
		if err != nil && a != (activeFacts{}) {
			t.Errorf("facts %+v with error %v", a, err)
		}
		for _, id := range []string{a.domainID, a.flowID} {
			if id == "" {
				continue
			}
			if clean, err := foreignID(id); err != nil || clean != id {
				t.Errorf("id %q came through", id)
			}
		}
	})
}

func FuzzSubscription(f *testing.F) {
	seed(f, "ws")
	f.Add([]byte(`{"ws_href":"ws://127.0.0.1:8011/x"}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		href, err := parseSubscription(body)
		if err == nil && !strings.HasPrefix(strings.ToLower(href), "ws") {
			t.Errorf("ws_href %q came through", href)
		}
	})
}

func FuzzErrorBody(f *testing.F) {
	seed(f, "registration", "connection", "node")
	f.Fuzz(func(t *testing.T, body []byte) {
		if m := errorMessage(body); len(m) > 200 {
			t.Errorf("%d bytes of message", len(m))
		}
	})
}

func FuzzPagingHeaders(f *testing.F) {
	f.Add("1:2", `<http://h/x?paging.since=3:4>; rel="next"`)
	f.Add("", `<http://h/x?paging.until=3:4>; rel="prev", <http://h/x?paging.since=3:4>; rel="next"`)
	f.Fuzz(func(t *testing.T, until, link string) {
		h := http.Header{"X-Paging-Until": {until}, "Link": {link}}
		if ts, ok := nextSince(h); ok {
			if again, err := ParseTimestamp(ts.String()); err != nil || again != ts {
				t.Errorf("timestamp %v", ts)
			}
		}
	})
}

func FuzzLocation(f *testing.F) {
	f.Add("http://127.0.0.1:8020/a", "/b")
	f.Fuzz(func(t *testing.T, target, location string) {
		if u := sameHostLocation(target, location); u != "" && hostOf(u) != hostOf(target) {
			t.Errorf("%q leads from %q to %q", location, target, u)
		}
	})
}
