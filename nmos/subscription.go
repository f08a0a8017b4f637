package nmos

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"time"

	"github.com/coder/websocket"
)

const (
	// updateRate is max_update_rate_ms of our subscriptions: how late a change
	// may come.
	updateRate = 50
	// pingEvery and pingTimeout find half-open sockets (NMOS reference §7.3).
	pingEvery   = 10 * time.Second
	pingTimeout = 5 * time.Second

	subscribeBackoff    = 250 * time.Millisecond
	subscribeBackoffMax = 10 * time.Second
)

// change is one entry of a message.
type change struct {
	res     resource
	removed bool
}

// message is one parsed grain of a subscription.
type message struct {
	kind    kind
	changes []change
	notes   []note
}

// parseMessage reads a grain: post is an addition or a change, pre alone a
// removal (NMOS reference §7.2). A bad entry costs that entry.
func parseMessage(k kind, body []byte) (message, error) {
	var doc struct {
		Grain struct {
			Topic string            `json:"topic"`
			Data  []json.RawMessage `json:"data"`
		} `json:"grain"`
	}
	if err := decode(body, &doc); err != nil {
		return message{}, fmt.Errorf("grain: %w", err)
	}
	if topic := strings.Trim(doc.Grain.Topic, "/"); topic != strings.Trim(k.path(), "/") {
		return message{}, fmt.Errorf("grain: topic %q on the subscription of %s", clip(doc.Grain.Topic), k.path())
	}
	if len(doc.Grain.Data) > maxResources {
		return message{}, fmt.Errorf("grain: more than %d entries", maxResources)
	}
	m := message{kind: k}
	for _, raw := range doc.Grain.Data {
		var e struct {
			Path *string         `json:"path"`
			Pre  json.RawMessage `json:"pre"`
			Post json.RawMessage `json:"post"`
		}
		err := decode(raw, &e)
		var path string
		if err == nil && e.Path != nil {
			path, err = foreignID(strings.Trim(*e.Path, "/"))
		}
		if err != nil || e.Path == nil {
			m.notes = appendNotes(m.notes, []note{{k, "", fmt.Sprintf("grain entry: bad path: %s", clip(string(raw)))}})
			continue
		}
		if isNull(e.Post) {
			if isNull(e.Pre) {
				m.notes = appendNotes(m.notes, []note{{k, path, "grain entry: neither pre nor post"}})
				continue
			}
			m.changes = append(m.changes, change{res: resource{id: path}, removed: true})
			continue
		}
		res, notes := parseResource(k, e.Post)
		if res.id != path {
			notes = append(notes, note{k, path, fmt.Sprintf("grain entry: id of post is %q", res.id)})
			res = resource{id: path, bad: true}
		}
		m.notes = appendNotes(m.notes, notes)
		m.changes = append(m.changes, change{res: res})
	}
	return m, nil
}

func isNull(raw json.RawMessage) bool { return len(raw) == 0 || string(raw) == "null" }

// subscriptionRequest is the body of POST /subscriptions; all four keys are
// required.
type subscriptionRequest struct {
	MaxUpdateRateMS int               `json:"max_update_rate_ms"`
	Persist         bool              `json:"persist"`
	ResourcePath    string            `json:"resource_path"`
	Params          map[string]string `json:"params"`
}

// subscriber keeps one subscription open against one Query API.
type subscriber struct {
	http   *http.Client
	base   string
	kind   kind
	opened func()
	got    func(message)
	bad    func(error) // a message that could not be read as a whole
	closed func(error)
}

// run subscribes again after every drop, until ctx ends. The old ws_href is never
// used twice: the registry drops a subscription with its last socket.
func (s *subscriber) run(ctx context.Context) {
	wait := subscribeBackoff
	for ctx.Err() == nil {
		start := time.Now()
		err := s.once(ctx)
		if ctx.Err() != nil {
			return
		}
		s.closed(err)
		if time.Since(start) > pingEvery {
			wait = subscribeBackoff // it had worked
		}
		if !sleep(ctx, jitter(wait)) {
			return
		}
		wait = min(wait*2, subscribeBackoffMax)
	}
}

func (s *subscriber) once(ctx context.Context) error {
	href, err := s.subscribe(ctx)
	if err != nil {
		return err
	}
	dial, cancel := context.WithTimeout(ctx, requestTimeout)
	conn, resp, err := websocket.Dial(dial, href, &websocket.DialOptions{HTTPClient: s.http})
	cancel()
	if err != nil {
		if resp != nil {
			return fmt.Errorf("websocket %s: http %d", clip(href), resp.StatusCode)
		}
		return fmt.Errorf("websocket %s: %w", clip(href), err)
	}
	defer conn.CloseNow()
	conn.SetReadLimit(responseLimit) // the library's own limit is 32 KiB
	s.opened()

	pings := make(chan struct{})
	alive, stop := context.WithCancel(ctx)
	go func() {
		defer close(pings)
		for sleep(alive, pingEvery) {
			wait, cancel := context.WithTimeout(alive, pingTimeout)
			err := conn.Ping(wait)
			cancel()
			if err != nil {
				conn.CloseNow()
				return
			}
		}
	}()
	defer func() { stop(); <-pings }()
	for {
		_, body, err := conn.Read(ctx)
		if err != nil {
			return fmt.Errorf("subscription of %s: %w", s.kind.path(), err)
		}
		m, err := parseMessage(s.kind, body)
		if err != nil {
			s.bad(err)
			continue
		}
		s.got(m)
	}
}

// subscribe creates the subscription and gives its ws_href.
func (s *subscriber) subscribe(ctx context.Context) (string, error) {
	params := map[string]string{}
	if s.kind == kindReceiver {
		params["transport"] = TransportMXL
	}
	for {
		body, err := json.Marshal(subscriptionRequest{MaxUpdateRateMS: updateRate, ResourcePath: s.kind.path(), Params: params})
		if err != nil {
			return "", err
		}
		target := s.base + queryPath + "/subscriptions"
		code, header, answer, err := exchange(ctx, s.http, http.MethodPost, target, body)
		if err != nil {
			return "", err
		}
		switch {
		case code == http.StatusOK || code == http.StatusCreated:
			return parseSubscription(answer)
		case (code == http.StatusBadRequest || code == http.StatusNotImplemented) && len(params) > 0:
			params = map[string]string{} // filtered on our side
		default:
			return "", newStatusError(http.MethodPost, target, code, header, answer)
		}
	}
}

func parseSubscription(body []byte) (wsHref string, err error) {
	var doc struct {
		WSHref *string `json:"ws_href"`
	}
	if err := decode(body, &doc); err != nil {
		return "", fmt.Errorf("subscription: %w", err)
	}
	if doc.WSHref == nil {
		return "", errors.New("subscription: ws_href is missing")
	}
	// Used as it is: host, port, path and query are the server's choice.
	scheme, rest, ok := strings.Cut(*doc.WSHref, "://")
	if !ok || rest == "" || (!strings.EqualFold(scheme, "ws") && !strings.EqualFold(scheme, "wss")) {
		return "", fmt.Errorf("subscription: ws_href %q is not a websocket url", clip(*doc.WSHref))
	}
	if host, _, _ := strings.Cut(rest, "/"); strings.Contains(host, "@") {
		return "", errors.New("subscription: ws_href carries userinfo")
	}
	return *doc.WSHref, nil
}

// jitter spreads a wait over its upper half, so that many clients of one
// registry do not return at once.
func jitter(d time.Duration) time.Duration {
	return d/2 + rand.N(d/2+1)
}

// sleep waits for d; false when ctx ended first.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}
