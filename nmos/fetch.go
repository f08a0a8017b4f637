package nmos

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"
)

const (
	// responseLimit bounds every foreign document. 10,000 receivers of ~500
	// bytes fit; the interface reference §1.2 has the same figure.
	responseLimit = 8 << 20
	// requestTimeout bounds one request including its body.
	requestTimeout = 2 * time.Second
)

// ErrTooLarge marks an answer beyond the 8 MiB limit.
var ErrTooLarge = errors.New("document is larger than 8 MiB")

// StatusError is an answer with a status that was not expected.
type StatusError struct {
	Method   string
	URL      string
	Code     int
	Message  string // "error" and "debug" of the NMOS error body, if it was one
	Location string
}

func (e *StatusError) Error() string {
	s := fmt.Sprintf("%s %s: http %d", e.Method, e.URL, e.Code)
	if e.Message != "" {
		s += ": " + e.Message
	}
	return s
}

// statusOf is the http status an error carries, 0 when it has none.
func statusOf(err error) int {
	if se, ok := errors.AsType[*StatusError](err); ok {
		return se.Code
	}
	return 0
}

// NewHTTPClient is the client for registries and nodes: connections are reused
// and bounded per host, proxies of the environment are ignored (everything is on
// the media network), redirects are followed for GET and HEAD on the same host
// only. Every request carries its own 2 s deadline.
func NewHTTPClient() *http.Client {
	return &http.Client{
		CheckRedirect: sameHostRedirect,
		Transport: &http.Transport{
			DialContext:            (&net.Dialer{Timeout: requestTimeout, KeepAlive: 15 * time.Second}).DialContext,
			MaxIdleConns:           512,
			MaxIdleConnsPerHost:    8,
			MaxConnsPerHost:        16,
			IdleConnTimeout:        90 * time.Second,
			TLSHandshakeTimeout:    requestTimeout,
			MaxResponseHeaderBytes: 64 << 10,
			DisableCompression:     true,
		},
	}
}

// sameHostRedirect follows what NMOS allows, 301 between the two slash forms,
// and hands back anything else as it is: net/http would turn a POST into a GET.
func sameHostRedirect(req *http.Request, via []*http.Request) error {
	first := via[0]
	if len(via) > 3 || first.URL.Host != req.URL.Host || first.URL.Scheme != req.URL.Scheme ||
		(first.Method != http.MethodGet && first.Method != http.MethodHead) {
		return http.ErrUseLastResponse
	}
	return nil
}

// withRedirectRule gives the client to use: a caller's client keeps its transport
// but not net/http's default redirects.
func withRedirectRule(c *http.Client) *http.Client {
	if c == nil {
		return NewHTTPClient()
	}
	if c.CheckRedirect != nil {
		return c
	}
	copied := *c
	copied.CheckRedirect = sameHostRedirect
	return &copied
}

// exchange does one request within the request time-out and reads the whole
// bounded body. A nil body sends "Content-Length: 0" and no Content-Type, as a
// heartbeat must.
func exchange(ctx context.Context, c *http.Client, method, target string, body []byte) (int, http.Header, []byte, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	var reader io.Reader
	if body != nil {
		reader = strings.NewReader(string(body))
	}
	req, err := http.NewRequestWithContext(ctx, method, target, reader)
	if err != nil {
		return 0, nil, nil, fmt.Errorf("%s %s: %w", method, clip(target), err)
	}
	req.Header.Set("Accept", "application/json")
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := c.Do(req)
	if err != nil {
		if ue, ok := errors.AsType[*url.Error](err); ok {
			err = ue.Err // the method and url are named below
		}
		return 0, nil, nil, fmt.Errorf("%s %s: %w", method, target, err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(io.LimitReader(resp.Body, responseLimit+1))
	if err != nil {
		return 0, nil, nil, fmt.Errorf("%s %s: reading the answer: %w", method, target, err)
	}
	if len(data) > responseLimit {
		return 0, nil, nil, fmt.Errorf("%s %s: %w", method, target, ErrTooLarge)
	}
	return resp.StatusCode, resp.Header, data, nil
}

// get reads a document; a status other than 200 is a *StatusError.
func get(ctx context.Context, c *http.Client, target string) ([]byte, http.Header, error) {
	code, header, body, err := exchange(ctx, c, http.MethodGet, target, nil)
	if err != nil {
		return nil, nil, err
	}
	if code != http.StatusOK {
		return nil, nil, newStatusError(http.MethodGet, target, code, header, body)
	}
	return body, header, nil
}

func newStatusError(method, target string, code int, header http.Header, body []byte) *StatusError {
	return &StatusError{Method: method, URL: target, Code: code, Message: errorMessage(body), Location: header.Get("Location")}
}

// errorMessage takes what helps a human out of an NMOS error body.
func errorMessage(body []byte) string {
	var doc struct {
		Error any `json:"error"`
		Debug any `json:"debug"`
	}
	if json.Unmarshal(body, &doc) != nil {
		return ""
	}
	var parts []string
	for _, part := range [...]any{doc.Error, doc.Debug} {
		if s, ok := part.(string); ok && s != "" {
			parts = append(parts, clip(s))
		}
	}
	return strings.Join(parts, "; ")
}

// maxHref is the longest href that is taken, in bytes.
const maxHref = 2048

// checkHref accepts the absolute URLs that the agent will call: the given
// schemes, a host, no userinfo, no query.
func checkHref(href string, schemes ...string) (*url.URL, error) {
	if len(href) > maxHref {
		return nil, fmt.Errorf("href %q: longer than %d bytes", clip(href), maxHref)
	}
	u, err := url.Parse(href)
	if at := strings.LastIndexByte(href, '@'); at >= 0 {
		href = "…" + href[at:] // errors go to logs; passwords do not
	}
	if err != nil {
		return nil, fmt.Errorf("href %q: not a url", clip(href))
	}
	known := false
	for _, s := range schemes {
		known = known || strings.EqualFold(u.Scheme, s)
	}
	switch {
	case !known:
		return nil, fmt.Errorf("href %q: scheme is not %s", clip(href), strings.Join(schemes, " or "))
	case u.User != nil:
		return nil, fmt.Errorf("href %q: carries userinfo", clip(href))
	case u.Hostname() == "":
		return nil, fmt.Errorf("href %q: no host", clip(href))
	case u.RawQuery != "" || u.Fragment != "" || u.Opaque != "":
		return nil, fmt.Errorf("href %q: carries a query or fragment", clip(href))
	}
	return u, nil
}

func orDiscard(log *slog.Logger) *slog.Logger {
	if log == nil {
		return slog.New(slog.DiscardHandler)
	}
	return log
}
