package httpapi

import (
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

var quiet = slog.New(slog.NewTextHandler(io.Discard, nil))

func echo(name string, params ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		values := []string{name}
		for _, p := range params {
			values = append(values, r.PathValue(p))
		}
		WriteBody(w, http.StatusOK, "text/plain", []byte(strings.Join(values, "|")))
	}
}

func sample() []Route {
	return []Route{
		{"GET", "/", echo("root")},
		{"GET", "/api/v1/info", echo("info")},
		{"POST", "/api/v1/info", echo("posted")},
		{"DELETE", "/api/v1/replications/{id}/targets/{dest}", echo("release", "id", "dest")},
		{"DELETE", "/api/v1/replications/{rest...}", echo("malformed", "rest")},
		{"GET", "/panic", func(http.ResponseWriter, *http.Request) { panic("ouch") }},
		{"POST", "/body", func(w http.ResponseWriter, r *http.Request) {
			if body, ok := ReadBody(w, r); ok {
				WriteJSON(w, http.StatusOK, len(body))
			}
		}},
		{"GET", "/nan", func(w http.ResponseWriter, _ *http.Request) { WriteJSON(w, 200, func() {}) }},
		{"DELETE", "/empty", func(w http.ResponseWriter, _ *http.Request) { WriteEmpty(w) }},
	}
}

func TestRoutes(t *testing.T) {
	h := NewHandler(sample(), nil, quiet)
	for _, c := range []struct {
		method, target string
		status         int
		body           string
	}{
		{"GET", "/", 200, "root"},
		{"GET", "/api/v1/info", 200, "info"},
		{"GET", "/api/v1/info?x=1&y", 200, "info"},
		{"POST", "/api/v1/info", 200, "posted"},
		{"HEAD", "/api/v1/info", 200, "info"},
		{"PUT", "/api/v1/info", 404, `{"error":"not found"}`},
		{"GET", "/api/v1/info/", 404, `{"error":"not found"}`},
		{"GET", "//api/v1/info", 404, `{"error":"not found"}`},
		{"GET", "/api/v1/../v1/info", 404, `{"error":"not found"}`},
		{"GET", "/api/v1/%69nfo", 200, "info"},
		{"GET", "/nothing", 404, `{"error":"not found"}`},
		{"DELETE", "/api/v1/replications/r1/targets/node-b", 200, "release|r1|node-b"},
		{"DELETE", "/api/v1/replications/r1/targets/a%2Fb%20c", 200, "release|r1|a/b c"},
		{"DELETE", "/api/v1/replications/r1/targets/", 200, "malformed|r1/targets/"},
		{"DELETE", "/api/v1/replications/r1", 200, "malformed|r1"},
		{"DELETE", "/api/v1/replications/", 404, `{"error":"not found"}`},
		{"GET", "/panic", 500, `{"error":"internal error: ouch"}`},
		{"GET", "/nan", 500, `{"error":"encode the answer: json: unsupported type: func()"}`},
		{"DELETE", "/empty", 204, ""},
	} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(c.method, c.target, nil))
		if w.Code != c.status || w.Body.String() != c.body {
			t.Errorf("%s %s: %d %s, want %d %s", c.method, c.target, w.Code, w.Body, c.status, c.body)
		}
		if c.status != 204 && w.Header().Get("Content-Length") != fmt.Sprint(len(c.body)) {
			t.Errorf("%s %s: Content-Length %q", c.method, c.target, w.Header().Get("Content-Length"))
		}
	}
}

func TestBodyLimit(t *testing.T) {
	h := NewHandler(sample(), nil, quiet)
	for size, want := range map[int]int{0: 200, MaxBody: 200, MaxBody + 1: 413} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest("POST", "/body", strings.NewReader(strings.Repeat("x", size))))
		if w.Code != want {
			t.Errorf("%d bytes: %d %s", size, w.Code, w.Body)
		}
	}
}

func TestWriteJSONIsCompact(t *testing.T) {
	w := httptest.NewRecorder()
	WriteJSON(w, 200, map[string]any{"b": "a<b&c", "a": []int{1}, "up": false})
	if got, want := w.Body.String(), `{"a":[1],"b":"a<b&c","up":false}`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestBrowserRules(t *testing.T) {
	h := NewHandler(sample(), []string{"node-a", "Fabric-1.", "", "192.0.2.7"}, quiet)
	for _, c := range []struct {
		name   string
		method string
		host   string
		header map[string]string
		status int
	}{
		{"a script", "POST", "anything.example", nil, 200},
		{"a peer by any name", "DELETE", "peer.example:8095", nil, 200},
		{"our page by address", "POST", "192.0.2.1:8095", map[string]string{"Origin": "http://192.0.2.1:8095", "Sec-Fetch-Site": "same-origin"}, 200},
		{"our page by IPv6", "POST", "[fd00::1]:8095", map[string]string{"Origin": "http://[fd00::1]:8095"}, 200},
		{"our page by name", "POST", "node-a:8095", map[string]string{"Origin": "http://node-a:8095"}, 200},
		{"our page by full name", "POST", "fabric-1.plant.example:8095", map[string]string{"Origin": "http://fabric-1.plant.example:8095"}, 200},
		{"our page on this machine", "POST", "localhost:8095", map[string]string{"Origin": "http://localhost:8095"}, 200},
		{"another site", "POST", "192.0.2.1:8095", map[string]string{"Origin": "http://evil.example"}, 403},
		{"another port", "POST", "192.0.2.1:8095", map[string]string{"Origin": "http://192.0.2.1:80"}, 403},
		{"a sandboxed page", "POST", "192.0.2.1:8095", map[string]string{"Origin": "null"}, 403},
		{"another site without Origin", "DELETE", "192.0.2.1:8095", map[string]string{"Sec-Fetch-Site": "cross-site"}, 403},
		{"a rebound name", "POST", "evil.example:8095", map[string]string{"Origin": "http://evil.example:8095", "Sec-Fetch-Site": "same-origin"}, 403},
		{"reading is free", "GET", "192.0.2.1:8095", map[string]string{"Origin": "http://evil.example", "Sec-Fetch-Site": "cross-site"}, 200},
	} {
		path := "/api/v1/info"
		if c.method == "DELETE" {
			path = "/api/v1/replications/a/targets/b"
		}
		r := httptest.NewRequest(c.method, path, nil)
		r.Host = c.host
		for k, v := range c.header {
			r.Header.Set(k, v)
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code != c.status {
			t.Errorf("%s: %d %s, want %d", c.name, w.Code, w.Body, c.status)
		}
		if w.Code == 403 && !strings.HasPrefix(w.Body.String(), `{"error":"`) {
			t.Errorf("%s: body %s", c.name, w.Body)
		}
	}
}
