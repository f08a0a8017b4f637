package httpapi

import (
	"errors"
	"io"
	"net"
	"net/http"
	"testing"
	"time"
)

// TestCrowd: one address fills its share and no more, another one is served
// meanwhile, and whoever leaves makes room.
func TestCrowd(t *testing.T) {
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { WriteEmpty(w) }), ReadHeaderTimeout: time.Minute}
	crowd := newCrowd(inner, 6, 4)
	done := make(chan error)
	go func() { done <- server.Serve(crowd) }()
	t.Cleanup(func() {
		_ = server.Close()
		if err := <-done; !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
	})
	from := func(address string) net.Conn {
		t.Helper()
		d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(address)}, Timeout: 10 * time.Second}
		conn, err := d.Dial("tcp", inner.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		_ = conn.SetDeadline(time.Now().Add(10 * time.Second))
		return conn
	}
	served := func(conn net.Conn) bool {
		_, _ = io.WriteString(conn, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
		answer := make([]byte, 12)
		n, _ := io.ReadFull(conn, answer)
		return string(answer[:n]) == "HTTP/1.1 204"
	}
	var kept []net.Conn
	for range 4 {
		conn := from("127.0.0.1")
		if !served(conn) {
			t.Fatal("one within the share is refused")
		}
		kept = append(kept, conn)
	}
	if served(from("127.0.0.1")) {
		t.Error("one address has more than its share")
	}
	for range 2 {
		if !served(from("127.0.0.2")) {
			t.Error("another address is refused")
		}
	}
	if served(from("127.0.0.3")) {
		t.Error("there are more connections than there may be")
	}
	_ = kept[0].Close()
	for deadline := time.Now().Add(10 * time.Second); !served(from("127.0.0.1")); {
		if time.Now().After(deadline) {
			t.Fatal("who left makes no room")
		}
	}
}
