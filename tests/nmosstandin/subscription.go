package nmosstandin

import (
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/coder/websocket"
	"github.com/google/uuid"
)

// messageEntries is how many entries one grain message carries at most, as
// nmos-cpp does it (NMOS reference §7.2).
const messageEntries = 10

// subscriptionRequest is the body of POST /subscriptions.
type subscriptionRequest struct {
	MaxUpdateRateMS int               `json:"max_update_rate_ms"`
	Persist         bool              `json:"persist"`
	ResourcePath    string            `json:"resource_path"`
	Params          map[string]string `json:"params"`
	Secure          bool              `json:"secure"`
}

// subscriptionBody is how a subscription is shown.
type subscriptionBody struct {
	ID     string `json:"id"`
	WSHref string `json:"ws_href"`
	subscriptionRequest
}

type subscription struct {
	id        string
	request   subscriptionRequest
	kind      kind
	wanted    filter
	sockets   map[*socket]struct{}
	idleSince time.Time
}

// socket is one WebSocket of a subscription. queue is guarded by the
// registry's mutex.
type socket struct {
	queue  []entry
	wake   chan struct{}
	ending chan bool // capacity 1; true: with a close frame
	gone   chan struct{}
}

// end asks for the end of the socket, once.
func (open *socket) end(gracefully bool) {
	select {
	case open.ending <- gracefully:
	default:
	}
}

// entry is one element of grain.data: pre and post by the table of NMOS
// reference §7.2.
type entry struct {
	Path string          `json:"path"`
	Pre  json.RawMessage `json:"pre,omitempty"`
	Post json.RawMessage `json:"post,omitempty"`
}

type rational struct {
	Denominator int `json:"denominator"`
	Numerator   int `json:"numerator"`
}

type grainMessage struct {
	GrainType         string   `json:"grain_type"`
	SourceID          string   `json:"source_id"`
	FlowID            string   `json:"flow_id"`
	OriginTimestamp   string   `json:"origin_timestamp"`
	SyncTimestamp     string   `json:"sync_timestamp"`
	CreationTimestamp string   `json:"creation_timestamp"`
	Rate              rational `json:"rate"`
	Duration          rational `json:"duration"`
	Grain             struct {
		Type  string  `json:"type"`
		Topic string  `json:"topic"`
		Data  []entry `json:"data"`
	} `json:"grain"`
}

func (r *registry) subscriptionResource(req *http.Request, parts []string) reply {
	if len(parts) == 0 {
		switch {
		case req.Method == http.MethodPost:
			return r.subscribe(req)
		case readable(req):
			r.mu.Lock()
			defer r.mu.Unlock()
			list := []subscriptionBody{}
			for _, s := range r.subscriptions {
				list = append(list, r.show(s))
			}
			return found(list)
		}
		return notAllowed(http.MethodGet, http.MethodHead, http.MethodPost)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.subscriptions[parts[0]]
	switch {
	case s == nil:
		return notFound()
	case readable(req):
		return found(r.show(s))
	case req.Method == http.MethodDelete && !s.request.Persist:
		return refuse(http.StatusForbidden, "a non-persistent subscription is the registry's to delete")
	case req.Method == http.MethodDelete:
		delete(r.subscriptions, s.id)
		for open := range s.sockets {
			open.end(true)
		}
		return reply{status: http.StatusNoContent}
	}
	return notAllowed(http.MethodGet, http.MethodHead, http.MethodDelete)
}

func (r *registry) show(s *subscription) subscriptionBody {
	return subscriptionBody{
		ID:                  s.id,
		WSHref:              "ws" + strings.TrimPrefix(r.queryURL(), "http") + queryBase + "/subscriptions/" + s.id,
		subscriptionRequest: s.request,
	}
}

// subscribe creates a subscription or returns an identical one.
func (r *registry) subscribe(req *http.Request) reply {
	var body struct {
		MaxUpdateRateMS *int               `json:"max_update_rate_ms"`
		Persist         *bool              `json:"persist"`
		ResourcePath    *string            `json:"resource_path"`
		Params          *map[string]string `json:"params"`
		Secure          bool               `json:"secure"`
		Authorization   bool               `json:"authorization"`
	}
	if refused := jsonObject(req, &body); refused != nil {
		return *refused
	}
	if body.MaxUpdateRateMS == nil || body.Persist == nil || body.ResourcePath == nil || body.Params == nil {
		return refuse(http.StatusBadRequest, "max_update_rate_ms, persist, resource_path and params are required")
	}
	plural, slash := strings.CutPrefix(*body.ResourcePath, "/")
	if !slash || !isKind(plural) {
		return refuse(http.StatusBadRequest, "resource_path %q", *body.ResourcePath)
	}
	if body.Secure || body.Authorization {
		return refuse(http.StatusBadRequest, "neither secure nor authorization is offered")
	}
	values := url.Values{}
	for key, value := range *body.Params {
		values.Set(key, value)
	}
	wanted, err := parseFilter(values)
	if err != nil {
		return refuse(http.StatusNotImplemented, "%v", err)
	}
	request := subscriptionRequest{MaxUpdateRateMS: *body.MaxUpdateRateMS, Persist: *body.Persist, ResourcePath: *body.ResourcePath, Params: *body.Params}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range r.subscriptions {
		if s.request.MaxUpdateRateMS == request.MaxUpdateRateMS && s.request.Persist == request.Persist &&
			s.request.ResourcePath == request.ResourcePath && maps.Equal(s.request.Params, request.Params) {
			return r.subscribed(http.StatusOK, s)
		}
	}
	s := &subscription{id: uuid.NewString(), request: request, kind: kind(plural), wanted: wanted,
		sockets: map[*socket]struct{}{}, idleSince: time.Now()}
	r.subscriptions[s.id] = s
	return r.subscribed(http.StatusCreated, s)
}

func (r *registry) subscribed(status int, s *subscription) reply {
	return reply{status: status, body: r.show(s), header: map[string]string{"Location": queryBase + "/subscriptions/" + s.id}}
}

// publish puts a change into the queue of every socket it concerns. The caller
// holds the mutex.
func (r *registry) publish(c change) {
	for _, s := range r.subscriptions {
		if s.kind != c.kind {
			continue
		}
		e := entry{Path: c.id}
		if c.pre != nil && s.wanted.matches(c.pre.doc) {
			e.Pre = c.pre.raw
		}
		if c.post != nil && s.wanted.matches(c.post.doc) {
			e.Post = c.post.raw
		}
		if e.Pre == nil && e.Post == nil {
			continue
		}
		for open := range s.sockets {
			open.queue = append(open.queue, e)
			select {
			case open.wake <- struct{}{}:
			default:
			}
		}
	}
}

// stream upgrades a request for a subscription's WebSocket and feeds it until
// it closes. upgraded is false when the request is not one.
func (r *registry) stream(w http.ResponseWriter, req *http.Request) (upgraded bool) {
	parts, ok := segments(req.URL.Path, queryBase+"/subscriptions")
	if !ok || len(parts) != 1 || !strings.EqualFold(req.Header.Get("Upgrade"), "websocket") {
		return false
	}
	r.counted.request("query", req)
	fault := r.faults.current().Sockets
	open := &socket{wake: make(chan struct{}, 1), ending: make(chan bool, 1), gone: make(chan struct{})}
	s := r.attach(parts[0], open, fault.RefuseUpgrade)
	if s == nil { // nmos-cpp: 400 for a subscription that is gone
		answer := refuse(max(http.StatusBadRequest, fault.RefuseUpgrade), "no such subscription")
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(answer.status)
		_, _ = w.Write(encode(answer.body))
		return true
	}
	defer r.detach(s, open)
	conn, err := websocket.Accept(w, req, &websocket.AcceptOptions{InsecureSkipVerify: true})
	if err != nil {
		return true // Accept has answered
	}
	r.counted.socket(1)
	defer r.counted.socket(-1)
	defer conn.CloseNow()
	r.pump(conn.CloseRead(context.Background()), conn, s, open)
	return true
}

// attach adds a socket with the current resources as its sync entries; nil when
// the subscription does not exist or the upgrade is to be refused.
func (r *registry) attach(id string, open *socket, refused int) *subscription {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.subscriptions[id]
	if s == nil || refused != 0 || r.stopped {
		return nil
	}
	for _, res := range r.store.matching(s.kind, s.wanted, false) {
		open.queue = append(open.queue, entry{Path: res.id, Pre: res.raw, Post: res.raw})
	}
	s.sockets[open] = struct{}{}
	return s
}

func (r *registry) detach(s *subscription, open *socket) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(s.sockets, open)
	s.idleSince = time.Now()
	close(open.gone)
}

func (r *registry) take(open *socket) []entry {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := min(len(open.queue), messageEntries)
	part := open.queue[:n:n]
	open.queue = open.queue[n:]
	return part
}

// pump sends what is queued, at most one message per update interval.
func (r *registry) pump(ctx context.Context, conn *websocket.Conn, s *subscription, open *socket) {
	interval := time.NewTimer(0)
	defer interval.Stop()
	for sent := 0; ; {
		fault := r.faults.current().Sockets
		if part := r.take(open); len(part) > 0 && !fault.Silent {
			sent++
			message := encode(r.grain(s, part))
			if fault.Garbage != "" {
				message = []byte(fault.Garbage)
			}
			if fault.DropAfter > 0 && sent >= fault.DropAfter {
				breakMessage(ctx, conn, message)
				return
			}
			if conn.Write(ctx, websocket.MessageText, message) != nil {
				return
			}
			interval.Reset(time.Duration(s.request.MaxUpdateRateMS) * time.Millisecond)
			if !open.wait(ctx, conn, interval.C, nil) {
				return
			}
			continue
		}
		if !open.wait(ctx, conn, nil, open.wake) {
			return
		}
	}
}

// wait sleeps until the timer or the wake fires; false means the socket's end.
func (open *socket) wait(ctx context.Context, conn *websocket.Conn, timer <-chan time.Time, wake <-chan struct{}) bool {
	select {
	case <-timer:
		return true
	case <-wake:
		return true
	case gracefully := <-open.ending:
		if gracefully { // nmos-cpp's close code when it stops
			_ = conn.Close(websocket.StatusNormalClosure, "")
		}
	case <-ctx.Done():
	}
	return false
}

// breakMessage sends the first half of a message; the caller drops the rest
// together with the connection.
func breakMessage(ctx context.Context, conn *websocket.Conn, message []byte) {
	if w, err := conn.Writer(ctx, websocket.MessageText); err == nil {
		_, _ = w.Write(message[:len(message)/2])
	}
}

func (r *registry) grain(s *subscription, part []entry) grainMessage {
	at := stampOf(time.Now()).String()
	m := grainMessage{GrainType: "event", SourceID: r.queryID, FlowID: s.id,
		OriginTimestamp: at, SyncTimestamp: at, CreationTimestamp: at}
	m.Grain.Type = "urn:x-nmos:format:data.event"
	m.Grain.Topic = s.request.ResourcePath + "/"
	m.Grain.Data = part
	return m
}

// dropSockets ends every WebSocket that is open now and waits until it is gone.
func (r *registry) dropSockets(gracefully bool) {
	var ending []*socket
	r.mu.Lock()
	for _, s := range r.subscriptions {
		for open := range s.sockets {
			open.end(gracefully)
			ending = append(ending, open)
		}
	}
	r.mu.Unlock()
	for _, open := range ending {
		<-open.gone
	}
}
