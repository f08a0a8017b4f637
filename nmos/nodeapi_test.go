package nmos

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/coder/websocket"
)

func ask(t *testing.T, h http.Handler, method, path string, header ...string) *http.Response {
	t.Helper()
	r := httptest.NewRequest(method, path, nil)
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Result()
}

func readAll(t *testing.T, r *http.Response) []byte {
	t.Helper()
	b, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestNodeAPIListings checks every listing level, with and without the slash,
// by GET and HEAD (NMOS reference §1, §3).
func TestNodeAPIListings(t *testing.T) {
	n := testNode(t)
	h := n.Handler()
	for path, want := range map[string][]string{
		"/x-nmos":                     {"node/"},
		"/x-nmos/node":                {"v1.3/"},
		"/x-nmos/node/v1.3":           {"devices/", "flows/", "receivers/", "self/", "senders/", "sources/"},
		"/x-nmos/node/v1.3/devices":   {},
		"/x-nmos/node/v1.3/sources":   {},
		"/x-nmos/node/v1.3/flows":     {},
		"/x-nmos/node/v1.3/senders":   {},
		"/x-nmos/node/v1.3/receivers": {},
	} {
		for _, p := range []string{path, path + "/"} {
			resp := ask(t, h, "GET", p)
			body := readAll(t, resp)
			var got []string
			if err := json.Unmarshal(body, &got); err != nil || got == nil {
				t.Errorf("GET %s: %s", p, body)
			}
			slices.Sort(got)
			if resp.StatusCode != 200 || !slices.Equal(got, want) {
				t.Errorf("GET %s: %d %v, want %v", p, resp.StatusCode, got, want)
			}
			head := ask(t, h, "HEAD", p)
			for _, k := range []string{"Content-Type", "Content-Length", "Access-Control-Allow-Origin"} {
				if head.Header.Get(k) != resp.Header.Get(k) || resp.Header.Get(k) == "" {
					t.Errorf("%s of %s: HEAD %q, GET %q", k, p, head.Header.Get(k), resp.Header.Get(k))
				}
			}
			if head.StatusCode != 200 || resp.Header.Get("Content-Type") != "application/json" {
				t.Errorf("HEAD %s: %d; type %q", p, head.StatusCode, resp.Header.Get("Content-Type"))
			}
		}
	}
}

func TestNodeAPISelf(t *testing.T) {
	n := testNode(t)
	for _, p := range []string{"/x-nmos/node/v1.3/self", "/x-nmos/node/v1.3/self/"} {
		if body := readAll(t, ask(t, n.Handler(), "GET", p)); !bytes.Equal(body, n.Document()) {
			t.Errorf("GET %s: %s, registered is %s", p, body, n.Document())
		}
	}
}

// TestNodeAPIErrors: every status from 400 has the three keys, CORS and type.
func TestNodeAPIErrors(t *testing.T) {
	h := testNode(t).Handler()
	for request, want := range map[string]int{
		"GET /nothing": 404, "GET /x-nmos/node/v1.2/": 404, "GET /x-nmos/node/v1.3/self/x": 404, "GET /x-nmos/node/v1.3/other": 404,
		"GET /x-nmos/node/v1.3/devices/6c7c9cb6-7445-5ea2-a152-a8c9937d4512":          404,
		"GET /x-nmos/node/v1.3/receivers/6c7c9cb6-7445-5ea2-a152-a8c9937d4512":        404,
		"PUT /x-nmos/node/v1.3/receivers/6c7c9cb6-7445-5ea2-a152-a8c9937d4512/target": 404,
		"GET /x-nmos//node": 404, "HEAD /nothing": 404, "POST /nothing": 404,
		"POST /x-nmos/node/v1.3/self": 405, "DELETE /x-nmos": 405, "PATCH /x-nmos/node/v1.3/devices": 405,
	} {
		method, path, _ := strings.Cut(request, " ")
		resp := ask(t, h, method, path)
		doc := unmarshal(t, readAll(t, resp))
		_, debug := doc["debug"]
		if resp.StatusCode != want || doc["code"] != float64(want) || doc["error"] != http.StatusText(want) || !debug || len(doc) != 3 {
			t.Errorf("%s: %d %v, want %d", request, resp.StatusCode, doc, want)
		}
		if resp.Header.Get("Access-Control-Allow-Origin") != "*" || resp.Header.Get("Content-Type") != "application/json" {
			t.Errorf("%s: headers %v", request, resp.Header)
		}
		if want == 405 && resp.Header.Get("Allow") != "GET, HEAD, OPTIONS" {
			t.Errorf("%s: Allow %q", request, resp.Header.Get("Allow"))
		}
	}
}

func TestNodeAPIOptions(t *testing.T) {
	h := testNode(t).Handler()
	for path, methods := range map[string]string{
		"/x-nmos/node/v1.3/self/": "GET, HEAD, OPTIONS", "/x-nmos": "GET, HEAD, OPTIONS", "/nothing": "GET, HEAD, OPTIONS",
		"/x-nmos/node/v1.3/receivers/6c7c9cb6-7445-5ea2-a152-a8c9937d4512/target": "PUT, OPTIONS",
	} {
		resp := ask(t, h, "OPTIONS", path, "Origin", "http://x", "Access-Control-Request-Method", "GET", "Access-Control-Request-Headers", "content-type, x-odd")
		if resp.StatusCode != 200 || resp.Header.Get("Access-Control-Allow-Methods") != methods ||
			resp.Header.Get("Access-Control-Allow-Headers") != "content-type, x-odd" || resp.Header.Get("Access-Control-Allow-Origin") != "*" {
			t.Errorf("OPTIONS %s: %d %v", path, resp.StatusCode, resp.Header)
		}
	}
}

// freePorts finds two free ports in a row.
func freePorts(t *testing.T) int {
	t.Helper()
	for range 50 {
		l, err := net.Listen("tcp", ":0")
		if err != nil {
			t.Fatal(err)
		}
		port := l.Addr().(*net.TCPAddr).Port
		l.Close()
		if port < 65535 {
			if both, err := Listen(port); err == nil {
				both.Close()
				return port
			}
		}
	}
	t.Fatal("no two free ports in a row")
	return 0
}

func TestListenErrors(t *testing.T) {
	port := freePorts(t)
	for _, taken := range []int{port, port + 1} {
		block, err := net.Listen("tcp", ":"+strconv.Itoa(taken))
		if err != nil {
			t.Fatal(err)
		}
		_, err = Listen(port)
		le, ok := errors.AsType[*ListenError](err)
		if !ok || le.Port != taken || !errors.Is(err, syscall.EADDRINUSE) {
			t.Errorf("port %d taken: %v", taken, err)
		}
		block.Close()
	}
	both, err := Listen(port) // a failed Listen left nothing bound
	if err != nil {
		t.Fatal(err)
	}
	if err := both.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestNodeServe(t *testing.T) {
	n := testNode(t)
	port := freePorts(t)
	l, err := Listen(port)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- n.Serve(ctx, l, slog.New(slog.DiscardHandler)) }()
	base := "http://127.0.0.1:" + strconv.Itoa(port)
	client := NewHTTPClient()
	defer client.CloseIdleConnections()
	if body, _, err := get(ctx, client, base+"/x-nmos/node/v1.3/self/"); err != nil || !bytes.Equal(body, n.Document()) {
		t.Errorf("self over the network: %s, %v", body, err)
	}
	ws := "127.0.0.1:" + strconv.Itoa(port+1)
	if _, _, err := get(ctx, client, "http://"+ws+"/"); statusOf(err) != 404 {
		t.Errorf("plain http on the websocket port: %v", err)
	}
	conn, _, err := websocket.Dial(ctx, "ws://"+ws+"/x-nmos/events/v1.0", nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := conn.Write(ctx, websocket.MessageText, []byte(`{"command":"health"}`)); err != nil {
		t.Error(err)
	}
	cancel()
	select {
	case err := <-done:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(5 * time.Second):
		t.Fatal("Serve does not end with its context")
	}
	if _, _, err := conn.Read(t.Context()); err == nil {
		t.Error("the event socket outlived the server")
	}
	conn.CloseNow()
	again, err := Listen(port)
	if err != nil {
		t.Fatalf("the ports are still bound: %v", err)
	}
	again.Close()
}

func TestBaseURL(t *testing.T) {
	for address, want := range map[string]string{
		"192.0.2.1": "http://192.0.2.1:3210", "registry.test": "http://registry.test:3210", " registry ": "http://registry:3210",
		"2001:db8::1": "http://[2001:db8::1]:3210", "[2001:db8::1]": "http://[2001:db8::1]:3210",
		"": "", "http://x": "", "a b": "", "u@h": "", "host:80": "", "h/p": "",
	} {
		got, err := BaseURL(address, 3210)
		if got != want || (err == nil) != (want != "") {
			t.Errorf("BaseURL(%q) = %q, %v; want %q", address, got, err, want)
		}
	}
	if _, err := BaseURL("h", 65536); err == nil {
		t.Error("port 65536 accepted")
	}
}
