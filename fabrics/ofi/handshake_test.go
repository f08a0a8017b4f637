package ofi

import (
	"net"
	"strconv"
	"testing"
	"time"
)

// TestHalfARequestStopsNobody: a client that announces data for its connection
// request and sends none costs the reader of the event queue a moment only, and a
// request after it arrives.
func TestHalfARequestStopsNobody(t *testing.T) {
	o := open(t)
	defer o.close(t)
	address, err := o.listener.Address()
	if err != nil {
		t.Fatal(err)
	}
	port := strconv.Itoa(int(address[2])<<8 | int(address[3]))
	request := func(announced byte) {
		conn, err := net.Dial("tcp", net.JoinHostPort("127.0.0.1", port))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		// The handshake message of MXL Fabrics reference §10.2: version 3, request,
		// length of the data, byte order mark.
		header := make([]byte, 32)
		header[0], header[3], header[24] = 3, announced, 1
		if _, err := conn.Write(header); err != nil {
			t.Fatal(err)
		}
	}
	request(200)
	poll := func() bool {
		began := time.Now()
		if _, err := o.poller.Poll(20 * time.Millisecond); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took > 2*time.Second {
			t.Fatalf("the event queue was blocked for %v", took)
		}
		event, ok := o.poller.Event()
		if ok && event.Kind == EventRequest {
			if err := o.listener.Reject(event.Request); err != nil {
				t.Error(err)
			}
			return true
		}
		return false
	}
	for began := time.Now(); time.Since(began) < 300*time.Millisecond; {
		if poll() {
			t.Fatal("half a request is a request")
		}
	}
	request(0)
	for deadline := time.Now().Add(10 * time.Second); !poll(); {
		if time.Now().After(deadline) {
			t.Fatal("no request arrives after half a one")
		}
	}
}
