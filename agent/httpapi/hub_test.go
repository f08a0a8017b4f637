package httpapi

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func TestQueueReplacesAndBounds(t *testing.T) {
	hub := NewHub(quiet)
	c, ok := hub.join()
	if !ok {
		t.Fatal("no room")
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

func TestTooManyStreams(t *testing.T) {
	hub := NewHub(quiet)
	for range maxClients {
		if _, ok := hub.join(); !ok {
			t.Fatal("no room")
		}
	}
	w := httptest.NewRecorder()
	hub.ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
	if w.Code != http.StatusServiceUnavailable {
		t.Errorf("got %d", w.Code)
	}
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
