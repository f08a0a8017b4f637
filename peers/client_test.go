package peers

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

func newClient(t *testing.T) *Client {
	c := NewClient()
	t.Cleanup(c.Close)
	return c
}

func serve(t *testing.T, h http.HandlerFunc) string {
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s.URL + "/api/v1"
}

// raw answers every connection with the given bytes and closes it, as the
// original's server does.
func raw(t *testing.T, answer string) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
		<-done
	})
	go func() {
		defer close(done)
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			if _, err := http.ReadRequest(bufio.NewReader(conn)); err == nil {
				_, _ = io.WriteString(conn, answer)
			}
			_ = conn.Close()
		}
	}()
	return "http://" + l.Addr().String() + "/api/v1"
}

func TestCallWords(t *testing.T) {
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	refused := closed.Addr().String()
	if err := closed.Close(); err != nil {
		t.Fatal(err)
	}
	huge := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		chunk := make([]byte, 1<<20)
		for range 9 {
			if _, err := w.Write(chunk); err != nil {
				return
			}
		}
	})
	for name, c := range map[string]struct {
		url, want string
		is        error
	}{
		"no url":        {"", "no control url", ErrNoControlURL},
		"bad url":       {"http://[::1", "bad url", ErrBadURL},
		"another world": {"ftp://x/api/v1", "bad url", ErrBadURL},
		"no name":       {"http://no-such-host.invalid/api/v1", "dns", ErrDNS},
		"refused":       {"http://" + refused + "/api/v1", "connect", ErrConnect},
		"cut":           {raw(t, ""), "recv", ErrReceive},
		"cut body":      {raw(t, "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n{}"), "recv", ErrReceive},
		"no HTTP":       {raw(t, "hello\r\n\r\n"), "recv", ErrReceive},
		"too large":     {huge, "too large", ErrTooLarge},
		"status":        {raw(t, "HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\n\r\n"), "http 503", nil},
		"status reason": {raw(t, "HTTP/1.1 500 x\r\nConnection: close\r\n\r\n{\"error\":\"bad day\"}"), "http 500: bad day", nil},
		"long reason":   {raw(t, "HTTP/1.1 500 x\r\nConnection: close\r\n\r\n{\"error\":\""+strings.Repeat("e", 50_000)+"\"}"), "http 500: " + strings.Repeat("e", maxReason) + "…", nil},
		"redirect":      {raw(t, "HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n"), "http 302", nil},
		"no JSON":       {raw(t, "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n<html>"), "info is not a JSON object", nil},
	} {
		_, err := newClient(t).Info(t.Context(), c.url)
		if err == nil || err.Error() != c.want || c.is != nil && !errors.Is(err, c.is) {
			t.Errorf("%s: got %v, want %s", name, err, c.want)
		}
	}
}

// TestCloseDelimited reads an answer without a length, the way an original
// might send one.
func TestCloseDelimited(t *testing.T) {
	url := raw(t, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\n\r\n"+original131)
	inv, err := newClient(t).Inventory(t.Context(), url)
	if err != nil || len(inv.Domains) != 1 || len(inv.Domains[0].Flows) != 2 {
		t.Errorf("got %+v, %v", inv, err)
	}
}

func TestSilentPeer(t *testing.T) {
	release := make(chan struct{})
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", "100")
		_, _ = io.WriteString(w, "{")
		_ = http.NewResponseController(w).Flush()
		<-release
	})
	t.Cleanup(func() { close(release) })
	begun := time.Now()
	_, err := newClient(t).Info(t.Context(), url)
	if took := time.Since(begun); !errors.Is(err, ErrReceive) || took > 2*stepTimeout {
		t.Errorf("a silent peer: %v after %v", err, took)
	}
}

func TestReplicate(t *testing.T) {
	var got ReplicationRequest
	status, body := http.StatusCreated, `{"replication_id":"r1","state":"pending","origin_head":12.0}`
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost || r.URL.Path != "/api/v1/replications" || r.Header.Get("Content-Type") != "application/json" {
			t.Errorf("%s %s %v", r.Method, r.URL, r.Header)
		}
		if err := json.NewDecoder(r.Body).Decode(&got); err != nil {
			t.Error(err)
		}
		w.WriteHeader(status)
		fmt.Fprint(w, body)
	})
	want := ReplicationRequest{DomainID: "d", FlowID: flowA, DestHostID: "a", TargetInfo: `{"id":"1"}`}
	answer, err := newClient(t).Replicate(t.Context(), url, want)
	if err != nil || got != want || answer.ReplicationID != "r1" || answer.State != "pending" || answer.OriginHead == nil || *answer.OriginHead != 12 {
		t.Errorf("%+v %+v %v", got, answer, err)
	}
	status, body = http.StatusInternalServerError, `{"replication_id":"r1","state":"error","error":"no tcp interface (-61)"}`
	answer, err = newClient(t).Replicate(t.Context(), url, want)
	var failed *StatusError
	if !errors.As(err, &failed) || err.Error() != "http 500: no tcp interface (-61)" || answer.ReplicationID != "r1" {
		t.Errorf("%+v %v", answer, err)
	}
}

func TestRelease(t *testing.T) {
	status := http.StatusNoContent
	var path string
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		path = r.Method + " " + r.URL.EscapedPath()
		w.WriteHeader(status)
	})
	if err := newClient(t).Release(t.Context(), url, "r1", "node a/b"); err != nil || path != "DELETE /api/v1/replications/r1/targets/node%20a%2Fb" {
		t.Errorf("%s %v", path, err)
	}
	status = http.StatusNotFound
	if err := newClient(t).Release(t.Context(), url, "r1", "a"); err != nil {
		t.Errorf("what is gone is released: %v", err)
	}
	status = http.StatusBadRequest
	if err := newClient(t).Release(t.Context(), url, "r1", "a"); err == nil {
		t.Error("a refusal is an error")
	}
}

func TestFollow(t *testing.T) {
	url := raw(t, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nCache-Control: no-cache\r\nConnection: close\r\n\r\nevent: inventory\ndata: 4\n\n")
	var got []Event
	err := newClient(t).Follow(t.Context(), url, func(e Event) { got = append(got, e) })
	if !errors.Is(err, io.EOF) || len(got) != 1 || got[0] != (Event{"inventory", "4"}) {
		t.Errorf("%v %v", got, err)
	}
	url = raw(t, "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
	if err := newClient(t).Follow(t.Context(), url, nil); !errors.Is(err, errNoStream) || !strings.Contains(err.Error(), "404") {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	url = serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, "event: ping\ndata: {}\n\n")
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	})
	if err := newClient(t).Follow(ctx, url, func(Event) { cancel() }); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
