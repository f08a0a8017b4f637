package httpapi

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"
)

// start serves until the test ends.
func start(t *testing.T, hub *Hub, list ...Route) *Server {
	t.Helper()
	s := New(Config{Routes: list, Log: quiet})
	if err := s.Listen(); err != nil {
		t.Fatal(err)
	}
	done := make(chan error)
	go func() { done <- s.Serve() }()
	t.Cleanup(func() {
		if hub != nil {
			hub.Close()
		}
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		if err := s.Shutdown(ctx); err != nil {
			t.Error("Shutdown:", err)
		}
		if err := <-done; err != nil {
			t.Error("Serve:", err)
		}
	})
	return s
}

func dial(t *testing.T, s *Server, request string) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", s.Port()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(conn, request); err != nil {
		t.Fatal(err)
	}
	return conn
}

func TestListenTaken(t *testing.T) {
	s := start(t, nil)
	err := New(Config{Port: s.Port(), Log: quiet}).Listen()
	var bind *BindError
	if !errors.As(err, &bind) || bind.Port != s.Port() || !errors.Is(err, syscall.EADDRINUSE) {
		t.Errorf("got %v, want a *BindError for port %d", err, s.Port())
	}
}

func TestShutdownBeforeServe(t *testing.T) {
	s := New(Config{Log: quiet})
	if err := s.Listen(); err != nil {
		t.Fatal(err)
	}
	if err := s.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestOriginalClient speaks as the original agent's client does: it sends
// Connection: close, reads to the end and takes everything after the blank
// line as the body.
func TestOriginalClient(t *testing.T) {
	body := strings.Repeat("0123456789", 10_000)
	s := start(t, nil,
		Route{"GET", "/large", func(w http.ResponseWriter, _ *http.Request) { WriteJSON(w, 200, body) }},
		Route{"DELETE", "/empty", func(w http.ResponseWriter, _ *http.Request) { WriteEmpty(w) }})
	for request, want := range map[string]struct{ head, body string }{
		"GET /large":    {"HTTP/1.1 200 OK\r\n", `"` + body + `"`},
		"DELETE /empty": {"HTTP/1.1 204 No Content\r\n", ""},
		"GET /nothing":  {"HTTP/1.1 404 Not Found\r\n", `{"error":"not found"}`},
	} {
		conn := dial(t, s, request+" HTTP/1.1\r\nHost: 127.0.0.1\r\nAccept: application/json\r\nConnection: close\r\n\r\n")
		all, err := io.ReadAll(conn)
		if err != nil {
			t.Fatal(err)
		}
		head, got, _ := strings.Cut(string(all), "\r\n\r\n")
		if !strings.HasPrefix(head+"\r\n", want.head) || got != want.body || strings.Contains(strings.ToLower(head), "transfer-encoding") {
			t.Errorf("%s: head %q, body of %d bytes", request, head, len(got))
		}
	}
}

func TestStreamOnTheWire(t *testing.T) {
	hub := NewHub(quiet)
	s := start(t, hub, Route{"GET", "/api/v1/events", hub.ServeHTTP})
	hub.Publish(EventInventory, "self", 7)
	conn := dial(t, s, "GET /api/v1/events HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
	r := bufio.NewReader(conn)
	line := func() string {
		text, err := r.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		return strings.TrimRight(text, "\r\n")
	}
	head := make(map[string]string)
	if got := line(); got != "HTTP/1.1 200 OK" {
		t.Fatal(got)
	}
	for l := line(); l != ""; l = line() {
		name, value, _ := strings.Cut(l, ": ")
		head[name] = value
	}
	if head["Content-Type"] != "text/event-stream" || head["Connection"] != "close" || head["Cache-Control"] != "no-cache" || head["Transfer-Encoding"] != "" || head["Content-Length"] != "" {
		t.Errorf("head %v", head)
	}
	expect := func(want ...string) {
		t.Helper()
		for _, w := range want {
			if got := line(); got != w {
				t.Fatalf("got line %q, want %q", got, w)
			}
		}
	}
	expect("event: inventory", "data: 7", "")
	hub.Publish(EventPeer, "b", map[string]any{"host_id": "b", "up": false})
	expect("event: peer", `data: {"host_id":"b","up":false}`, "")
	hub.Close()
	if _, err := r.ReadByte(); !errors.Is(err, io.EOF) {
		t.Errorf("the stream did not end: %v", err)
	}
	conn = dial(t, s, "GET /api/v1/events HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
	if all, err := io.ReadAll(conn); err != nil || !strings.HasPrefix(string(all), "HTTP/1.1 503 ") {
		t.Errorf("a closed hub answers %.40q, %v", all, err)
	}
}

// TestBodyThatDoesNotArrive: a client that promises a body and sends half of it gets
// an answer that says so, and nothing is done.
func TestBodyThatDoesNotArrive(t *testing.T) {
	s := New(Config{Log: quiet, Routes: []Route{{"PUT", "/", func(w http.ResponseWriter, r *http.Request) {
		if body, ok := ReadBody(w, r); ok {
			t.Errorf("taken: %q", body)
		}
	}}}})
	s.http.ReadTimeout = 100 * time.Millisecond
	if err := s.Listen(); err != nil {
		t.Fatal(err)
	}
	done := make(chan error)
	go func() { done <- s.Serve() }()
	answer, err := io.ReadAll(dial(t, s, "PUT / HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\n{}"))
	if err != nil || !strings.HasPrefix(string(answer), "HTTP/1.1 400 ") || !strings.HasSuffix(string(answer), `{"error":"read the body: it did not arrive within 15s"}`) {
		t.Errorf("%q, %v", answer, err)
	}
	if err := s.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// TestStreamOutlivesReadTimeout keeps a stream open for longer than a request
// may take to arrive, on a server with a short limit.
func TestStreamOutlivesReadTimeout(t *testing.T) {
	hub := NewHub(quiet)
	s := New(Config{Routes: []Route{{"GET", "/events", hub.ServeHTTP}}, Log: quiet})
	s.http.ReadTimeout, s.http.WriteTimeout = 300*time.Millisecond, 300*time.Millisecond
	if err := s.Listen(); err != nil {
		t.Fatal(err)
	}
	done := make(chan error)
	go func() { done <- s.Serve() }()
	conn := dial(t, s, "GET /events HTTP/1.1\r\nHost: x\r\n\r\n")
	r := bufio.NewReader(conn)
	deadline := time.Now().Add(900 * time.Millisecond)
	for n := 0; time.Now().Before(deadline); n++ {
		hub.Publish(EventPeer, "", n)
		for {
			l, err := r.ReadString('\n')
			if err != nil {
				t.Fatalf("after %d events: %v", n, err)
			}
			if l == fmt.Sprintf("data: %d\n", n) {
				break
			}
			if hub.Clients() == 0 && n > 0 {
				t.Fatalf("the stream ended after %d events", n)
			}
			if strings.HasPrefix(l, "Cache-Control") || n == 0 && l == "\r\n" {
				hub.Publish(EventPeer, "", n)
			}
		}
		time.Sleep(10 * time.Millisecond)
	}
	hub.Close()
	if err := s.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
}
