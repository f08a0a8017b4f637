package ui

import (
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/mxl-stack/mxl-fabrics-agent/agent/config"
	"github.com/mxl-stack/mxl-fabrics-agent/agent/httpapi"
)

func get(t *testing.T, enabled bool, method, path string, header ...string) *httptest.ResponseRecorder {
	t.Helper()
	h := httpapi.NewHandler(New(func() bool { return enabled }).Routes(), nil, slog.New(slog.NewTextHandler(io.Discard, nil)))
	r := httptest.NewRequest(method, path, nil)
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

func TestFiles(t *testing.T) {
	for path, contentType := range map[string]string{
		"/":                     "text/html; charset=utf-8",
		"/index.html":           "text/html; charset=utf-8",
		"/assets/page.js":       "text/javascript; charset=utf-8",
		"/assets/page.css":      "text/css; charset=utf-8",
		"/assets/icon.svg":      "image/svg+xml",
		"/assets/settings.json": "application/json",
	} {
		w := get(t, true, "GET", path)
		h := w.Header()
		if w.Code != 200 || h.Get("Content-Type") != contentType || w.Body.Len() == 0 {
			t.Errorf("GET %s: %d %q, %d bytes", path, w.Code, h.Get("Content-Type"), w.Body.Len())
		}
		if h.Get("Content-Length") != strconv.Itoa(w.Body.Len()) || h.Get("Cache-Control") != "no-cache" || h.Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("GET %s: header %v", path, h)
		}
		if csp := h.Get("Content-Security-Policy"); !strings.HasPrefix(csp, "default-src 'none';") || strings.Contains(csp, "unsafe") || strings.Contains(csp, "*") {
			t.Errorf("GET %s: Content-Security-Policy %q", path, csp)
		}
		for _, known := range []string{h.Get("ETag"), "W/" + h.Get("ETag"), `"x", ` + h.Get("ETag"), "*"} {
			if again := get(t, true, "GET", path, "If-None-Match", known); again.Code != 304 || again.Body.Len() != 0 {
				t.Errorf("GET %s with If-None-Match %s: %d, %d bytes", path, known, again.Code, again.Body.Len())
			}
		}
		if other := get(t, true, "GET", path, "If-None-Match", `"other"`); other.Code != 200 {
			t.Errorf("GET %s with another etag: %d", path, other.Code)
		}
		if off := get(t, false, "GET", path); off.Code != 404 || off.Body.String() != `{"error":"ui disabled"}` {
			t.Errorf("GET %s with WEB_ENABLE=false: %d %s", path, off.Code, off.Body)
		}
	}
}

func TestNotFiles(t *testing.T) {
	for _, c := range [][2]string{
		{"POST", "/"}, {"GET", "/assets/"}, {"GET", "/assets"}, {"GET", "/assets/index.html"}, {"GET", "/assets/SHA256SUMS"},
		{"GET", "/assets/none.js"}, {"GET", "/assets/..%2findex.html"}, {"GET", "/assets/a/b"}, {"GET", "/favicon.ico"},
	} {
		if w := get(t, true, c[0], c[1]); w.Code != http.StatusNotFound || w.Body.String() != `{"error":"not found"}` {
			t.Errorf("%s %s: %d %s", c[0], c[1], w.Code, w.Body)
		}
	}
}

// TestNothingFromOutside holds that the page asks no other host for anything.
// The names of XML namespaces are not addresses, nor is what Vue's warnings point
// at.
func TestNothingFromOutside(t *testing.T) {
	address := regexp.MustCompile(`(?:https?:)?//[a-z0-9.-]+\.[a-z]{2,}`)
	for _, path := range []string{"/", "/assets/page.js", "/assets/page.css", "/assets/icon.svg"} {
		for _, found := range address.FindAllString(get(t, true, "GET", path).Body.String(), -1) {
			if found != "http://www.w3.org" && found != "https://vuejs.org" {
				t.Errorf("%s names %s", path, found)
			}
		}
	}
	start := get(t, true, "GET", "/").Body.String()
	for _, m := range regexp.MustCompile(`(?:src|href)="([^"]*)"`).FindAllStringSubmatch(start, -1) {
		if w := get(t, true, "GET", m[1]); w.Code != 200 {
			t.Errorf("index.html refers to %s: %d", m[1], w.Code)
		}
	}
	if regexp.MustCompile(`<script[^>]*>[^<]|<style|\son[a-z]+=|style=`).MatchString(start) {
		t.Error("index.html has inline scripts or styles, which the policy forbids")
	}
}

func TestSettings(t *testing.T) {
	var list []setting
	if err := json.Unmarshal(get(t, true, "GET", "/assets/settings.json").Body.Bytes(), &list); err != nil {
		t.Fatal(err)
	}
	found := map[string]setting{}
	for _, s := range list {
		found[s.Name] = s
	}
	for _, k := range config.Keys() {
		s, ok := found[k.Name]
		if ok == k.EnvironmentOnly {
			t.Errorf("%s: listed %v, environment only %v", k.Name, ok, k.EnvironmentOnly)
		}
		if ok && (s.Live != k.Runtime || s.Values == "" || s.Description == "") {
			t.Errorf("%s: %+v", k.Name, s)
		}
	}
}
