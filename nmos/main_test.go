package nmos

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if os.Getenv(scaleServer) != "" {
		serveScale()
		return
	}
	goleak.VerifyTestMain(m)
}

// fixture reads a captured document (tests/fixtures/nmos).
func fixture(tb testing.TB, name string) []byte {
	tb.Helper()
	b, err := os.ReadFile(filepath.Join("..", "tests", "fixtures", "nmos", filepath.FromSlash(name)))
	if err != nil {
		tb.Fatal(err)
	}
	return b
}

// roundTripper is a network without sockets, for synctest bubbles.
type roundTripper func(*http.Request) *http.Response

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) {
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	resp := f(r)
	if resp == nil { // nobody answers
		<-r.Context().Done()
		return nil, r.Context().Err()
	}
	resp.Request = r
	return resp, nil
}

func answer(code int, body string, header ...string) *http.Response {
	h := http.Header{"Content-Type": {"application/json"}}
	for i := 0; i+1 < len(header); i += 2 {
		h.Set(header[i], header[i+1])
	}
	return &http.Response{StatusCode: code, Header: h, Body: io.NopCloser(strings.NewReader(body)), ContentLength: int64(len(body))}
}

func testNode(tb testing.TB) *Node {
	tb.Helper()
	n, err := NewNode(NodeConfig{HostID: "node-a", HostAddress: netip.MustParseAddr("192.0.2.10"), Port: 3232, WebPort: 8095})
	if err != nil {
		tb.Fatal(err)
	}
	return n
}

// logLines collects slog JSON lines.
type logLines struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *logLines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *logLines) count(event string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.buf.String(), `"msg":"`+event+`"`)
}

func unmarshal(tb testing.TB, b []byte) map[string]any {
	tb.Helper()
	var m map[string]any
	if err := json.Unmarshal(b, &m); err != nil {
		tb.Fatalf("%v in %s", err, b)
	}
	return m
}
