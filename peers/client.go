package peers

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"time"
)

const (
	// stepTimeout bounds connecting, waiting for an answer and every read of
	// it, as the original does (agent API reference §1.2).
	stepTimeout = 2 * time.Second
	// callTimeout bounds a whole call to a peer that drips.
	callTimeout = 10 * time.Second
	// maxAnswer is the largest inventory taken. Every other answer is at most modest:
	// one has a few hundred bytes, and a peer is asked for many flows at once.
	maxAnswer = 8 << 20
	// maxReason is how much of a peer's reason goes to the log and the API, in bytes.
	maxReason = 300
)

// The words a failed call shows in last_error and peers[].error.
var (
	ErrNoControlURL = errors.New("no control url")
	ErrBadURL       = errors.New("bad url")
	ErrDNS          = errors.New("dns")
	ErrConnect      = errors.New("connect")
	ErrSend         = errors.New("send")
	ErrReceive      = errors.New("recv")
	ErrTooLarge     = errors.New("too large")
)

// StatusError is an answer that is not a success.
type StatusError struct {
	Status int
	Reason string // the body's "error", may be empty
}

func (e *StatusError) Error() string {
	if e.Reason == "" {
		return fmt.Sprintf("http %d", e.Status)
	}
	return fmt.Sprintf("http %d: %s", e.Status, e.Reason)
}

// CallError is a call that got no answer. Its text is the short word; the
// cause is for the debug log.
type CallError struct {
	Word  error // one of the Err… words
	Cause error
}

func (e *CallError) Error() string   { return e.Word.Error() }
func (e *CallError) Unwrap() []error { return []error{e.Word, e.Cause} }

// Client calls the control API of other agents. It follows no redirects,
// uses no proxy and speaks no TLS. It may be used by any number of goroutines.
type Client struct {
	http      *http.Client
	transport *http.Transport
	arriving  atomic.Int64 // bytes of answers beyond modest that are being read
	answers   answers
}

// NewClient makes a Client. Close it when done.
func NewClient() *Client {
	dialer := &net.Dialer{Timeout: stepTimeout, KeepAlive: 15 * time.Second}
	transport := &http.Transport{
		DialContext:            dialer.DialContext,
		ResponseHeaderTimeout:  stepTimeout,
		ExpectContinueTimeout:  stepTimeout,
		MaxIdleConnsPerHost:    4,
		IdleConnTimeout:        30 * time.Second,
		MaxResponseHeaderBytes: 64 << 10,
		DisableCompression:     true,
	}
	return &Client{
		transport: transport,
		http: &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error {
			return http.ErrUseLastResponse
		}},
	}
}

// Close lets go of idle connections.
func (c *Client) Close() { c.transport.CloseIdleConnections() }

// Info reads <control url>/info.
func (c *Client) Info(ctx context.Context, controlURL string) (Info, error) {
	body, err := c.call(ctx, http.MethodGet, controlURL, "/info", nil)
	if err != nil {
		return Info{}, err
	}
	return ParseInfo(body)
}

const inventoryPath = "/inventory"

// Inventory reads <control url>/inventory. Any status but 200 is an error.
func (c *Client) Inventory(ctx context.Context, controlURL string) (*Inventory, error) {
	body, err := c.call(ctx, http.MethodGet, controlURL, inventoryPath, nil)
	if err != nil {
		return nil, err
	}
	return c.answers.read(controlURL, body)
}

// Replicate asks a source to send a flow. With a *StatusError the answer
// holds whatever the body said.
func (c *Client) Replicate(ctx context.Context, controlURL string, r ReplicationRequest) (ReplicationAnswer, error) {
	text, err := json.Marshal(r)
	if err != nil {
		return ReplicationAnswer{}, fmt.Errorf("encode the replication request: %w", err)
	}
	body, err := c.call(ctx, http.MethodPost, controlURL, "/replications", text)
	var status *StatusError
	if err != nil && !errors.As(err, &status) {
		return ReplicationAnswer{}, err
	}
	answer, parseErr := ParseReplicationAnswer(body)
	if err != nil {
		return answer, err
	}
	return answer, parseErr
}

// Release takes a destination out of a replication at its source. That the
// source does not know it any more is no error.
func (c *Client) Release(ctx context.Context, controlURL, replicationID, destHostID string) error {
	path := "/replications/" + url.PathEscape(replicationID) + "/targets/" + url.PathEscape(destHostID)
	_, err := c.call(ctx, http.MethodDelete, controlURL, path, nil)
	var status *StatusError
	if errors.As(err, &status) && status.Status == http.StatusNotFound {
		return nil
	}
	return err
}

// call answers with the body, also next to a *StatusError.
func (c *Client) call(ctx context.Context, method, controlURL, path string, body []byte) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	resp, err := c.send(ctx, method, controlURL, path, body)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	most := modest
	if path == inventoryPath {
		most = maxAnswer
	}
	answer, err := c.readAnswer(resp.Body, most, cancel)
	if err != nil {
		return nil, err
	}
	switch {
	case method == http.MethodGet && resp.StatusCode == http.StatusOK,
		method == http.MethodPost && (resp.StatusCode == http.StatusOK || resp.StatusCode == http.StatusCreated),
		method == http.MethodDelete && (resp.StatusCode == http.StatusOK || resp.StatusCode == http.StatusNoContent):
		return answer, nil
	}
	status := &StatusError{Status: resp.StatusCode}
	if r, ok := parseRecord(answer); ok {
		status.Reason = clip(r.text("error"))
	}
	return answer, status
}

// clip keeps a peer from filling the log with one answer.
func clip(reason string) string {
	if len(reason) > maxReason {
		reason = strings.ToValidUTF8(reason[:maxReason], "") + "…"
	}
	return reason
}

func (c *Client) send(ctx context.Context, method, controlURL, path string, body []byte) (*http.Response, error) {
	if controlURL == "" {
		return nil, ErrNoControlURL
	}
	u, err := url.Parse(controlURL)
	if err != nil {
		return nil, &CallError{Word: ErrBadURL, Cause: err}
	}
	if u.Scheme != "http" || u.Host == "" {
		return nil, &CallError{Word: ErrBadURL, Cause: fmt.Errorf("%q is not an http URL", controlURL)}
	}
	req, err := http.NewRequestWithContext(ctx, method, strings.TrimRight(controlURL, "/")+path, bytes.NewReader(body))
	if err != nil {
		return nil, &CallError{Word: ErrBadURL, Cause: err}
	}
	req.Header.Set("Accept", "application/json")
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	// Every call may be repeated, so a kept connection that the peer closed
	// meanwhile is no failure. The empty value is not sent.
	req.Header["Idempotency-Key"] = nil
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, &CallError{Word: word(err), Cause: err}
	}
	return resp, nil
}

// word sorts a transport error into the original's vocabulary.
func word(err error) error {
	var dns *net.DNSError
	if errors.As(err, &dns) {
		return ErrDNS
	}
	var op *net.OpError
	if errors.As(err, &op) {
		switch op.Op {
		case "dial":
			return ErrConnect
		case "write":
			return ErrSend
		}
	}
	return ErrReceive
}

// readAnswer reads a body that keeps coming, of most bytes; cancel ends a read that
// waits longer than stepTimeout.
func (c *Client) readAnswer(body io.Reader, most int, cancel context.CancelFunc) ([]byte, error) {
	idle := time.AfterFunc(stepTimeout, cancel)
	defer idle.Stop()
	var answer bytes.Buffer
	var counted int64
	defer func() { c.arriving.Add(-counted) }()
	limited := io.LimitReader(body, int64(most)+1)
	chunk := make([]byte, 32<<10)
	for {
		n, err := limited.Read(chunk)
		answer.Write(chunk[:n])
		if answer.Len() > most {
			return nil, &CallError{Word: ErrTooLarge, Cause: fmt.Errorf("more than %d bytes", most)}
		}
		if answer.Len() > modest {
			counted += int64(n)
			if c.arriving.Add(int64(n)) > maxArriving {
				return nil, &CallError{Word: ErrTooLarge, Cause: fmt.Errorf("more than %d bytes of large answers at once", maxArriving)}
			}
		}
		if errors.Is(err, io.EOF) {
			return answer.Bytes(), nil
		}
		if err != nil {
			return nil, &CallError{Word: ErrReceive, Cause: err}
		}
		idle.Reset(stepTimeout)
	}
}
