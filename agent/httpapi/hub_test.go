package httpapi

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func TestQueueReplacesAndBounds(t *testing.T) {
	hub := NewHub(quiet)
	c, err := hub.join(one)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 1000 {
		hub.Publish(EventInventory, "self", i)
		hub.Publish(EventReplication, "r1", map[string]int{"n": i})
	}
	if got, want := string(c.pop()), "event: inventory\ndata: 999\n\nevent: replication\ndata: {\"n\":999}\n\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	for i := range queueLength {
		hub.Publish(EventMirror, "", i)
	}
	if hub.Clients() != 1 {
		t.Error("dropped too early")
	}
	hub.Publish(EventMirror, "", "one too many")
	select {
	case <-c.gone:
	default:
		t.Error("a client that is too far behind stays")
	}
	if hub.Clients() != 0 {
		t.Error("it is still counted")
	}
	hub.leave(c) // any number of times
	hub.Publish(EventMirror, "", func() {})
}

var (
	one     = netip.MustParseAddr("192.0.2.1")
	another = netip.MustParseAddr("2001:db8::1")
	third   = netip.MustParseAddr("192.0.2.3")
)

// TestTooManyStreams: one address gets half of the streams and no more, which leaves
// the others to everybody else; a stream that ends makes room.
func TestTooManyStreams(t *testing.T) {
	hub := NewHub(quiet)
	refused := func(from string, want int, say string) {
		t.Helper()
		r := httptest.NewRequest("GET", "/", nil)
		r.RemoteAddr = from
		w := httptest.NewRecorder()
		hub.ServeHTTP(w, r)
		if w.Code != want || !strings.Contains(w.Body.String(), say) {
			t.Errorf("%s: %d %s, want %d and %q", from, w.Code, w.Body, want, say)
		}
	}
	var last *client
	take := func(addr netip.Addr) {
		t.Helper()
		for range maxClientsOfOne {
			var err error
			if last, err = hub.join(addr); err != nil {
				t.Fatal(err)
			}
		}
	}
	take(one)
	refused("192.0.2.1:5000", http.StatusTooManyRequests, "this address has 128 event streams")
	refused("[::ffff:192.0.2.1]:5001", http.StatusTooManyRequests, "this address")
	take(another)
	refused("[2001:db8::1]:5000", http.StatusTooManyRequests, "this address")
	refused("192.0.2.3:5000", http.StatusServiceUnavailable, "all 256 event streams")
	hub.leave(last)
	hub.leave(last)
	if _, err := hub.join(third); err != nil {
		t.Error(err)
	}
	if _, err := hub.join(another); !errors.Is(err, errCrowded) {
		t.Errorf("one too many: %v", err)
	}
	if n := hub.from[another]; n != maxClientsOfOne-1 || hub.Clients() != maxClients {
		t.Errorf("%d streams of the address and %d in all", n, hub.Clients())
	}
	hub.Close()
	if len(hub.from) != 0 {
		t.Errorf("counted after the end: %v", hub.from)
	}
	refused("192.0.2.3:5000", http.StatusServiceUnavailable, "ends")
}

// pipe is a ResponseWriter with deadlines, inside a bubble.
type pipe struct {
	mu     sync.Mutex
	head   http.Header
	text   bytes.Buffer
	stuck  chan struct{} // closed lets a write go on; nil never blocks
	writes int
}

func (p *pipe) Header() http.Header              { return p.head }
func (p *pipe) WriteHeader(int)                  {}
func (p *pipe) Flush()                           {}
func (p *pipe) SetReadDeadline(time.Time) error  { return nil }
func (p *pipe) SetWriteDeadline(time.Time) error { return nil }
func (p *pipe) Write(b []byte) (int, error) {
	if p.stuck != nil {
		<-p.stuck
		return 0, io.ErrClosedPipe
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.writes++
	return p.text.Write(b)
}

func (p *pipe) count(s string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return strings.Count(p.text.String(), s)
}

func TestPingAfterSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hub := NewHub(quiet)
		ctx, cancel := context.WithCancel(t.Context())
		p := &pipe{head: make(http.Header)}
		go hub.ServeHTTP(p, httptest.NewRequest("GET", "/", nil).WithContext(ctx))
		time.Sleep(14 * time.Second)
		synctest.Wait()
		if p.count("ping") != 0 {
			t.Error("a ping before 15 s")
		}
		hub.Publish(EventInventory, "self", 1)
		time.Sleep(14 * time.Second)
		synctest.Wait()
		if p.count("ping") != 0 || p.count("event: inventory\ndata: 1\n\n") != 1 {
			t.Errorf("got %s", &p.text)
		}
		time.Sleep(31 * time.Second)
		synctest.Wait()
		if p.count("event: ping\ndata: {}\n\n") != 3 {
			t.Errorf("got %s", &p.text)
		}
		cancel()
		synctest.Wait()
		if hub.Clients() != 0 {
			t.Error("the stream did not end with its request")
		}
	})
}

// TestSlowClients has ten clients that never read beside forty that do: the
// publisher never waits and nobody who reads misses anything.
func TestSlowClients(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hub := NewHub(quiet)
		ctx, cancel := context.WithCancel(t.Context())
		release := make(chan struct{})
		request := httptest.NewRequest("GET", "/", nil).WithContext(ctx)
		var readers []*pipe
		for i := range 50 {
			p := &pipe{head: make(http.Header)}
			if i < 10 {
				p.stuck = release
			} else {
				readers = append(readers, p)
			}
			go hub.ServeHTTP(p, request)
		}
		synctest.Wait()
		begun := time.Now()
		for i := range 1000 {
			hub.Publish(EventMirror, "", i)
			synctest.Wait()
		}
		if took := time.Since(begun); took != 0 {
			t.Errorf("publishing took %v of the bubble's time", took)
		}
		if n := hub.Clients(); n != 40 {
			t.Errorf("%d clients, want the 40 that read", n)
		}
		for _, p := range readers {
			if n := p.count("event: mirror"); n != 1000 {
				t.Fatalf("a reader got %d events", n)
			}
			if p.count(fmt.Sprintf("data: %d\n", 999)) != 1 {
				t.Error("the last event is missing")
			}
		}
		close(release)
		cancel()
		synctest.Wait()
	})
}
