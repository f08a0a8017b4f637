package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

// maxEvent is the longest line of the stream that is read.
const maxEvent = 8 << 20

// event is one line of events --json.
type event struct {
	Time  string          `json:"ts"`
	Event string          `json:"event"`
	Data  json.RawMessage `json:"data"`
}

// events prints the agent's event stream until it ends, or as long or as many as
// was asked for.
func (c *command) events() int {
	ctx := c.ctx
	if c.options.span > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, c.options.span)
		defer cancel()
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.options.url+"/api/v1/events", nil)
	if err != nil {
		return c.failed(err)
	}
	resp, err := agentClient().Do(req)
	if err != nil {
		return c.failed(fmt.Errorf("the agent does not answer: %w", err))
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		body, _ := io.ReadAll(io.LimitReader(resp.Body, maxEvent))
		return c.failed(refusal(req.URL.String(), resp.StatusCode, body))
	}
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, maxEvent)
	name, seen := "", 0
	for lines.Scan() {
		line := lines.Text()
		if text, ok := strings.CutPrefix(line, "event: "); ok {
			name = text
			continue
		}
		data, ok := strings.CutPrefix(line, "data: ")
		if !ok || name == "ping" {
			continue
		}
		c.printEvent(event{time.Now().UTC().Format("2006-01-02T15:04:05.000Z"), name, json.RawMessage(data)})
		if seen++; c.options.count > 0 && seen >= c.options.count {
			return exitOK
		}
	}
	if ctx.Err() != nil {
		return exitOK // the time is over, or a signal came
	}
	return c.failed(errors.Join(errors.New("the agent ended the stream"), lines.Err()))
}

func (c *command) printEvent(e event) {
	if !c.options.json {
		fmt.Fprintf(c.stdout, "%s %-11s %s\n", e.Time, e.Event, e.Data)
		return
	}
	if !json.Valid(e.Data) {
		e.Data, _ = json.Marshal(string(e.Data))
	}
	line, err := json.Marshal(e)
	if err == nil {
		fmt.Fprintf(c.stdout, "%s\n", line)
	}
}
