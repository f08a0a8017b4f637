package httpapi

import (
	"errors"
	"net/http"
	"time"
)

const (
	// pingAfter is how long a stream may be silent (agent API reference §10).
	pingAfter = 15 * time.Second
	// streamWrite is how long a client may take to read what it is sent.
	streamWrite = 5 * time.Second
)

var ping = []byte("event: ping\ndata: {}\n\n")

// ServeHTTP streams events until the client goes, falls behind, or the hub
// closes. The stream is delimited by the end of the connection.
func (h *Hub) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c, err := h.join(addrOf(r.RemoteAddr))
	if err != nil {
		status := http.StatusServiceUnavailable
		if errors.Is(err, errShare) {
			status = http.StatusTooManyRequests
		}
		WriteError(w, status, err.Error())
		return
	}
	defer h.leave(c)
	head := w.Header()
	head.Set("Content-Type", "text/event-stream")
	head.Set("Cache-Control", "no-cache")
	head.Set("Connection", "close")
	// The library's word for "not chunked"; it is not sent.
	head.Set("Transfer-Encoding", "identity")
	w.WriteHeader(http.StatusOK)
	if r.Method == http.MethodHead {
		return
	}
	conn := http.NewResponseController(w)
	// The server's own limits are for requests that end.
	if conn.SetReadDeadline(time.Time{}) != nil || conn.SetWriteDeadline(time.Now().Add(streamWrite)) != nil || conn.Flush() != nil {
		return
	}
	silence := time.NewTimer(pingAfter)
	defer silence.Stop()
	for {
		text := ping
		select {
		case <-r.Context().Done():
			return
		case <-c.gone:
			return
		case <-c.ready:
			text = c.pop()
		case <-silence.C:
		}
		if conn.SetWriteDeadline(time.Now().Add(streamWrite)) != nil {
			return
		}
		if _, err := w.Write(text); err != nil {
			return
		}
		if conn.Flush() != nil {
			return
		}
		silence.Reset(pingAfter)
	}
}
