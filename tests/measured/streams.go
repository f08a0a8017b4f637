package measured

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"time"
)

// Streams are the clients of the event stream.
type Streams struct {
	readers []*reader
	deaf    []net.Conn
	cancel  context.CancelFunc
}

// reader notes when it last heard of a new inventory.
type reader struct{ heard atomic.Int64 } // Unix nanoseconds

// OpenStreams connects clients that read and clients that never do.
func OpenStreams(ctx context.Context, url string, reading, deaf int) (*Streams, error) {
	ctx, cancel := context.WithCancel(ctx)
	s := &Streams{cancel: cancel}
	for range reading {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/api/v1/events", nil)
		if err != nil {
			return nil, err
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			return nil, err
		}
		r := &reader{}
		s.readers = append(s.readers, r)
		go func() {
			defer resp.Body.Close()
			lines := bufio.NewScanner(resp.Body)
			for lines.Scan() {
				if lines.Text() == "event: inventory" {
					r.heard.Store(time.Now().UnixNano())
				}
			}
		}()
	}
	for range deaf {
		conn, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
		if err != nil {
			return nil, err
		}
		if c, ok := conn.(*net.TCPConn); ok {
			_ = c.SetReadBuffer(1024)
		}
		if _, err := conn.Write([]byte("GET /api/v1/events HTTP/1.1\r\nHost: x\r\n\r\n")); err != nil {
			return nil, err
		}
		s.deaf = append(s.deaf, conn)
	}
	return s, nil
}

// Deliver changes the inventory so often and gives how long it took until every
// reading client had heard, at most, and how often one had not after 2 s.
func (s *Streams) Deliver(ctx context.Context, root string, times int) (slowest float64, lost int, err error) {
	for i := range times {
		began := time.Now()
		if err := addDomain(root, i); err != nil {
			return 0, 0, err
		}
		if err := Pause(ctx, 2*time.Second); err != nil {
			return 0, 0, err
		}
		for _, r := range s.readers {
			heard := r.heard.Load()
			if heard < began.UnixNano() {
				lost++
				continue
			}
			slowest = max(slowest, Milliseconds(time.Duration(heard-began.UnixNano())))
		}
	}
	return slowest, lost, nil
}

// Change changes the inventory and waits until every reading client has heard of it,
// for 10 s at most. number is another one in every call.
func (s *Streams) Change(ctx context.Context, root string, number int) error {
	began := time.Now().UnixNano()
	if err := addDomain(root, number); err != nil {
		return err
	}
	for range 1000 {
		if err := Pause(ctx, 10*time.Millisecond); err != nil {
			return err
		}
		if !slices.ContainsFunc(s.readers, func(r *reader) bool { return r.heard.Load() < began }) {
			return nil
		}
	}
	return fmt.Errorf("change %d: not every client has heard of it after 10 s", number)
}

// addDomain makes a domain without flows.
func addDomain(root string, number int) error {
	dir := filepath.Join(root, fmt.Sprintf("added-%d", number))
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "domain_def.json"), fmt.Appendf(nil, `{"id":%q}`, ID("added", number, 0)), 0o644)
}

// Close ends the clients.
func (s *Streams) Close() {
	s.cancel()
	for _, c := range s.deaf {
		_ = c.Close()
	}
}
