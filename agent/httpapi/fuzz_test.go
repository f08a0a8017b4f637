package httpapi

import (
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// FuzzGuard: a browser changes something only under a name that is ours, whatever it
// says of itself, and scripts always may.
func FuzzGuard(f *testing.F) {
	f.Add("192.0.2.1:8095", "http://192.0.2.1:8095", "same-origin")
	f.Add("node-a.example:8095", "http://node-a.example:8095", "")
	f.Add("evil.example", "http://evil.example", "same-origin")
	f.Add("[::1]:8095", "null", "cross-site")
	f.Add("node-a.", "", "none")
	changed := false
	handler := NewHandler([]Route{{Method: http.MethodPost, Path: "/change", Handle: func(w http.ResponseWriter, _ *http.Request) {
		changed = true
		WriteEmpty(w)
	}}}, []string{"node-a"}, slog.New(slog.DiscardHandler))
	f.Fuzz(func(t *testing.T, host, origin, site string) {
		r := httptest.NewRequest(http.MethodPost, "/change", nil)
		r.Host = host
		if origin != "" {
			r.Header.Set("Origin", origin)
		}
		if site != "" {
			r.Header.Set("Sec-Fetch-Site", site)
		}
		changed = false
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		if changed != (w.Code == http.StatusNoContent) {
			t.Fatalf("status %d, changed %v", w.Code, changed)
		}
		if origin == "" && site == "" && !changed {
			t.Fatalf("a script is refused with %d under %q", w.Code, host)
		}
		name := strings.ToLower(strings.Trim(host, "[]"))
		foreign := !strings.Contains(name, "node-a") && !strings.Contains(name, "localhost") && !strings.ContainsAny(name, ":0123456789")
		if (origin != "" || site != "") && changed && (foreign || site == "cross-site") {
			t.Fatalf("host %q, origin %q, site %q may change something", host, origin, site)
		}
	})
}

// FuzzRequests: whatever path, method and body come, there is one answer with a
// length, errors have the error body, and no more of the body is read than may be.
func FuzzRequests(f *testing.F) {
	f.Add("GET", "/x/1", "")
	f.Add("POST", "/x/%2e%2e%2f/y", `{"a":1}`)
	f.Add("DELETE", "//x", "\x00")
	f.Add("PUT", "/echo", strings.Repeat("x", 100))
	handler := NewHandler([]Route{
		{Method: http.MethodGet, Path: "/x/{id}", Handle: func(w http.ResponseWriter, r *http.Request) {
			WriteJSON(w, http.StatusOK, map[string]string{"id": r.PathValue("id")})
		}},
		{Method: http.MethodPut, Path: "/echo", Handle: func(w http.ResponseWriter, r *http.Request) {
			if body, ok := ReadBody(w, r); ok {
				WriteBody(w, http.StatusOK, "text/plain", body)
			}
		}},
	}, nil, slog.New(slog.DiscardHandler))
	f.Fuzz(func(t *testing.T, method, target, body string) {
		r, err := http.NewRequest(method, "http://agent"+target, io.NopCloser(strings.NewReader(body)))
		if err != nil || !strings.HasPrefix(target, "/") || r.URL.Host != "agent" {
			t.Skip("no request line")
		}
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		if w.Code < 200 || w.Code > 599 {
			t.Fatalf("status %d", w.Code)
		}
		if redirect := w.Code >= 300 && w.Code < 400; redirect {
			if to := w.Header().Get("Location"); strings.HasPrefix(to, "//") || strings.Contains(to, "://") {
				t.Fatalf("%s %q leads to %q", method, target, to)
			}
		} else if w.Code >= 400 && method != http.MethodHead && !strings.HasPrefix(w.Body.String(), `{"error":`) {
			t.Fatalf("%s %q: status %d with %q", method, target, w.Code, w.Body)
		}
		if w.Code == http.StatusOK && method == http.MethodPut && w.Body.String() != body {
			t.Fatalf("%q came back as %q", body, w.Body)
		}
	})
}
