package main

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"
)

// streams are the clients of the event stream.
type streams struct {
	readers []*reader
	deaf    []net.Conn
	cancel  context.CancelFunc
}

// reader notes when it last heard of a new inventory.
type reader struct{ heard atomic.Int64 } // Unix nanoseconds

func openStreams(ctx context.Context, url string) (*streams, error) {
	ctx, cancel := context.WithCancel(ctx)
	s := &streams{cancel: cancel}
	for range clientCount - deafCount {
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
	for range deafCount {
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

// deliver changes the inventory ten times and gives how long it took until every
// reading client had heard, at most, and how often one had not after 2 s.
func (s *streams) deliver(ctx context.Context, root string) (slowest float64, lost int, err error) {
	for i := range 10 {
		dir := filepath.Join(root, fmt.Sprintf("local-%d", i))
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return 0, 0, err
		}
		began := time.Now()
		text := fmt.Sprintf(`{"id":%q}`, id("local", i, 0))
		if err := os.WriteFile(filepath.Join(dir, "domain_def.json"), []byte(text), 0o644); err != nil {
			return 0, 0, err
		}
		if err := pause(ctx, 2*time.Second); err != nil {
			return 0, 0, err
		}
		for _, r := range s.readers {
			heard := r.heard.Load()
			if heard < began.UnixNano() {
				lost++
				continue
			}
			slowest = max(slowest, milliseconds(time.Duration(heard-began.UnixNano())))
		}
	}
	return slowest, lost, nil
}

func (s *streams) close() {
	s.cancel()
	for _, c := range s.deaf {
		_ = c.Close()
	}
}
