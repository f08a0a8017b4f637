package peers

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

// Event is one server-sent event of a peer.
type Event struct {
	Name string // "inventory", "replication", "peer", "mirror", "ping"
	Data string
}

const (
	// maxEventLine bounds a line of a stream; the longest event of ours is a
	// replication answer of a few hundred bytes.
	maxEventLine = 64 << 10
	// streamSilence is three of the pings that a stream sends after 15 s
	// without an event.
	streamSilence = 45 * time.Second
)

var errNoStream = errors.New("no event stream")

// Follow implements Control.
func (c *Client) Follow(ctx context.Context, controlURL string, receive func(Event)) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	resp, err := c.send(ctx, http.MethodGet, controlURL, "/events", nil)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	kind, _, _ := strings.Cut(resp.Header.Get("Content-Type"), ";")
	if resp.StatusCode != http.StatusOK || strings.TrimSpace(kind) != "text/event-stream" {
		return fmt.Errorf("%w: http %d %s", errNoStream, resp.StatusCode, kind)
	}
	silence := time.AfterFunc(streamSilence, cancel)
	defer silence.Stop()
	return readEvents(resp.Body, func(e Event) {
		silence.Reset(streamSilence)
		receive(e)
	})
}

// readEvents parses a stream as the HTML standard describes it, as far as
// agents use it: the fields event and data, LF or CRLF, comments skipped.
// It ends with the reader, or with an error at a line that is too long.
func readEvents(r io.Reader, receive func(Event)) error {
	lines := bufio.NewReaderSize(r, maxEventLine)
	var name string
	var data []byte
	seen := false
	for {
		line, err := lines.ReadSlice('\n')
		if err != nil {
			return fmt.Errorf("read the event stream: %w", err)
		}
		line = bytes.TrimRight(line, "\r\n")
		if len(line) == 0 {
			if seen {
				receive(Event{Name: name, Data: string(data)})
			}
			name, data, seen = "", data[:0], false
			continue
		}
		field, value, _ := bytes.Cut(line, []byte(":"))
		value = bytes.TrimPrefix(value, []byte(" "))
		switch string(field) {
		case "event":
			name, seen = string(value), true
		case "data":
			if len(data)+len(value) > maxEventLine {
				return fmt.Errorf("read the event stream: an event is longer than %d bytes", maxEventLine)
			}
			if len(data) > 0 {
				data = append(data, '\n')
			}
			data, seen = append(data, value...), true
		}
	}
}
