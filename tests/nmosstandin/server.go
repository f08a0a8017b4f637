package nmosstandin

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"
)

// endpoint answers a request of one of the NMOS APIs.
type endpoint func(*http.Request) reply

// server is one listening port. It can be closed and opened again on the same
// port.
type server struct {
	name    string
	address string
	handler http.Handler

	mu   sync.Mutex
	http *http.Server
	done chan struct{}
}

func newServer(name, host string, port int, handler http.Handler) *server {
	return &server{name: name, address: net.JoinHostPort(host, strconv.Itoa(port)), handler: handler}
}

// open listens; opening an open server does nothing.
func (s *server) open() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.http != nil {
		return nil
	}
	var config net.ListenConfig
	listener, err := config.Listen(context.Background(), "tcp", s.address)
	if err != nil {
		return fmt.Errorf("%s listener: %w", s.name, err)
	}
	s.address = listener.Addr().String() // the port that was free stays ours
	s.http = &http.Server{Handler: s.handler, ReadHeaderTimeout: 10 * time.Second}
	s.done = make(chan struct{})
	go func(serving *http.Server, done chan struct{}) {
		defer close(done)
		_ = serving.Serve(listener) // always http.ErrServerClosed: close ends it
	}(s.http, s.done)
	return nil
}

// close drops the listener and every connection at once.
func (s *server) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.http == nil {
		return
	}
	_ = s.http.Close()
	<-s.done
	s.http = nil
}

func (s *server) port() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, text, _ := net.SplitHostPort(s.address)
	port, _ := strconv.Atoi(text)
	return port
}

// api wraps an endpoint into what every NMOS API has: counting, CORS, OPTIONS,
// JSON with Content-Length, and the faults that are in force.
func api(name string, faults *faultTable, counted *ledger, answer endpoint) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		counted.request(name, r)
		cors(w, r)
		rule, released := faults.match(name, r)
		if rule != nil && rule.before(w, r, released) {
			return
		}
		if r.Method == http.MethodOptions {
			w.WriteHeader(http.StatusOK)
			return
		}
		var result reply
		if rule != nil && rule.Status != 0 {
			result = reply{status: rule.Status} // a request that fails has no effect
		} else {
			result = answer(r)
		}
		status, body := result.status, encode(result.body)
		if rule != nil {
			status, body = rule.spoil(status, body)
		}
		for key, value := range result.header {
			w.Header().Set(key, value)
		}
		if status != http.StatusNoContent {
			w.Header().Set("Content-Type", "application/json")
			w.Header().Set("Content-Length", strconv.Itoa(len(body)))
		}
		w.WriteHeader(status)
		if r.Method == http.MethodHead || status == http.StatusNoContent {
			return
		}
		if rule != nil && rule.Break > 0 && rule.Break < len(body) {
			_, _ = w.Write(body[:rule.Break])
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		}
		_, _ = w.Write(body)
	})
}
