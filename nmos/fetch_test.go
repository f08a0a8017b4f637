package nmos

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

func TestFetchBounds(t *testing.T) {
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, `"other"`) }))
	defer other.Close()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/large":
			io.WriteString(w, strings.Repeat("x", responseLimit+1))
		case "/limit":
			io.WriteString(w, strings.Repeat("x", responseLimit))
		case "/slash":
			http.Redirect(w, r, "/slash/", http.StatusMovedPermanently)
		case "/away":
			http.Redirect(w, r, other.URL+"/", http.StatusMovedPermanently)
		case "/loop":
			http.Redirect(w, r, "/loop", http.StatusMovedPermanently)
		case "/slash/":
			if r.Method != http.MethodGet {
				t.Errorf("%s was redirected", r.Method)
			}
			io.WriteString(w, `"slash"`)
		case "/hang":
			<-r.Context().Done()
		case "/drip":
			for r.Context().Err() == nil {
				io.WriteString(w, " ")
				w.(http.Flusher).Flush()
				time.Sleep(10 * time.Millisecond)
			}
		}
	}))
	defer srv.Close()
	c := NewHTTPClient()
	defer c.CloseIdleConnections()
	if _, _, err := get(t.Context(), c, srv.URL+"/large"); !errors.Is(err, ErrTooLarge) || !strings.Contains(err.Error(), "/large") {
		t.Errorf("large: %v", err)
	}
	if body, _, err := get(t.Context(), c, srv.URL+"/limit"); err != nil || len(body) != responseLimit {
		t.Errorf("limit: %d, %v", len(body), err)
	}
	if body, _, err := get(t.Context(), c, srv.URL+"/slash"); err != nil || string(body) != `"slash"` {
		t.Errorf("slash: %s, %v", body, err)
	}
	for _, path := range []string{"/away", "/loop"} {
		if body, _, err := get(t.Context(), c, srv.URL+path); statusOf(err) != http.StatusMovedPermanently {
			t.Errorf("%s: %s, %v", path, body, err)
		}
	}
	if code, _, _, err := exchange(t.Context(), c, http.MethodPost, srv.URL+"/slash", []byte("{}")); err != nil || code != http.StatusMovedPermanently {
		t.Errorf("a redirected POST: %d, %v", code, err)
	}
	for _, path := range []string{"/hang", "/drip"} {
		start := time.Now()
		_, _, err := get(t.Context(), c, srv.URL+path)
		if took := time.Since(start); err == nil || took > requestTimeout+time.Second {
			t.Errorf("%s: %v after %v", path, err, took)
		}
	}
}

func TestCheckHref(t *testing.T) {
	for href, ok := range map[string]bool{
		"http://h": true, "https://h:1/x/": true, "HTTP://[2001:db8::1]:80/": true,
		"": false, "h": false, "/x": false, "//h/x": false, "ftp://h": false, "file:///etc": false, "javascript:x": false, "http:": false,
		"http:x": false, "http://": false, "http://:80/": false, "http://u@h": false, "http://u:p@h/": false, "http://h/?q": false, "http://h/#f": false,
		"http://h\n/": false, "http://h:port/": false, "unix:///run/x": false,
	} {
		if _, err := checkHref(href, "http", "https"); (err == nil) != ok {
			t.Errorf("checkHref(%q): %v", href, err)
		}
	}
	for _, href := range []string{"http://user:secret@h/", "ftp://user:secret@h/", "http://user:secret@h:port/"} {
		if _, err := checkHref(href, "http"); err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("a password in an error: %v", err)
		}
	}
}
