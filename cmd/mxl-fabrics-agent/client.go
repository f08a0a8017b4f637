package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"time"
)

const (
	// answerLimit is how long an agent may take for an answer.
	answerLimit = 10 * time.Second
	// maxAnswer bounds what is read of one.
	maxAnswer = 64 << 20
)

// statusError is an answer that is not a success.
type statusError struct {
	URL    string
	Status int
	Reason string
}

func (e *statusError) Error() string {
	if e.Reason == "" {
		return fmt.Sprintf("%s: HTTP %d", e.URL, e.Status)
	}
	return fmt.Sprintf("%s: HTTP %d: %s", e.URL, e.Status, e.Reason)
}

// agentClient speaks to the agent directly: no proxy of the environment.
func agentClient() *http.Client {
	return &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
}

// get reads one document of the agent. Any of the statuses given is a success;
// none given means 200.
func (c *command) get(path string, statuses ...int) (json.RawMessage, error) {
	ctx, cancel := context.WithTimeout(c.ctx, answerLimit)
	defer cancel()
	at := c.options.url + path
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, at, nil)
	if err != nil {
		return nil, err
	}
	resp, err := agentClient().Do(req)
	if err != nil {
		return nil, fmt.Errorf("the agent does not answer: %w", err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", at, err)
	}
	accepted := resp.StatusCode == http.StatusOK
	for _, s := range statuses {
		accepted = accepted || s == resp.StatusCode
	}
	if !accepted {
		return nil, refusal(at, resp.StatusCode, body)
	}
	if !json.Valid(body) {
		return nil, fmt.Errorf("%s: what answers there is no agent", at)
	}
	return body, nil
}

// refusal is what the agent says with another status than a success; the body is its
// error object, or anything.
func refusal(at string, status int, body []byte) error {
	var reason struct {
		Error string `json:"error"`
	}
	_ = json.Unmarshal(body, &reason)
	return &statusError{at, status, reason.Error}
}

// printJSON writes one document, indented.
func (c *command) printJSON(value any) {
	enc := json.NewEncoder(c.stdout)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	_ = enc.Encode(value) // a reader that went away is its own business
}
