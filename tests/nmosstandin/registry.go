package nmosstandin

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
)

const (
	registrationRoot = "/x-nmos/registration"
	registrationBase = registrationRoot + "/v1.3"
)

// registry is the Registration and Query API over one store. Its mutex guards
// the store, the subscriptions and what was recorded.
type registry struct {
	options Options
	faults  *faultTable
	counted *ledger
	queryID string

	mu            sync.Mutex
	store         *store
	subscriptions map[string]*subscription
	deleted       []string
	self          string // id of the registry's own node, never collected

	stopped bool // no new sockets

	queryURL func() string
}

func newRegistry(options Options, faults *faultTable, counted *ledger) *registry {
	r := &registry{
		options: options,
		faults:  faults,
		counted: counted,
		queryID: uuid.NewSHA1(seed, []byte("query api")).String(),
	}
	r.empty()
	return r
}

// empty forgets every resource and subscription: a registry just started.
func (r *registry) empty() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stopped = false
	r.subscriptions = map[string]*subscription{}
	r.store = newStore(r.publish)
	for _, n := range r.options.Nodes {
		r.store.repeats = r.store.repeats || n.WholeSeconds
	}
}

// stop refuses sockets from now on, until empty starts the registry anew.
func (r *registry) stop() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stopped = true
}

// lapse collects nodes without heartbeat and subscriptions without socket.
func (r *registry) lapse(now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	collected := r.store.expire(now, r.options.NodeExpiry, func(id string) bool { return id == r.self })
	for _, id := range collected {
		r.options.Log.Info("node_collected", "node_id", id)
	}
	for id, s := range r.subscriptions {
		if !s.request.Persist && len(s.sockets) == 0 && now.Sub(s.idleSince) > r.options.SubscriptionExpiry {
			delete(r.subscriptions, id)
		}
	}
}

// registration answers the Registration API (NMOS reference §4).
func (r *registry) registration(req *http.Request) reply {
	switch strings.TrimSuffix(req.URL.Path, "/") {
	case "/x-nmos":
		return found([]string{"registration/"})
	case registrationRoot:
		return found([]string{"v1.3/"})
	case registrationBase:
		return found([]string{"health/", "resource/"})
	}
	parts, ok := segments(req.URL.Path, registrationRoot)
	if !ok || len(parts) < 2 {
		return notFound()
	}
	version, parts := parts[0], parts[1:]
	if version != "v1.3" {
		return r.otherVersion(parts)
	}
	switch {
	case len(parts) == 1 && parts[0] == "resource":
		if req.Method != http.MethodPost {
			return notAllowed(http.MethodPost)
		}
		return r.register(req)
	case len(parts) == 3 && parts[0] == "resource" && isKind(parts[1]):
		return r.registered(req, kind(parts[1]), parts[2])
	case len(parts) == 3 && parts[0] == "health" && parts[1] == "nodes":
		return r.health(req, parts[2])
	}
	return notFound()
}

// otherVersion answers a request at a version this registry does not keep: 409
// with the place of the resource when it has it.
func (r *registry) otherVersion(parts []string) reply {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(parts) == 3 && isKind(parts[1]) && r.store.byKind[kind(parts[1])][parts[2]] != nil {
		answer := refuse(http.StatusConflict, "the resource is registered at v1.3")
		answer.header = map[string]string{"Location": registrationBase + "/" + strings.Join(parts, "/")}
		return answer
	}
	return notFound()
}

// jsonObject reads a request body that must be a JSON object.
func jsonObject(req *http.Request, into any) *reply {
	media, _, _ := strings.Cut(req.Header.Get("Content-Type"), ";")
	if strings.TrimSpace(media) != "application/json" {
		answer := refuse(http.StatusUnsupportedMediaType, "Content-Type %q", req.Header.Get("Content-Type"))
		return &answer
	}
	body, err := io.ReadAll(io.LimitReader(req.Body, 16<<20))
	if err == nil {
		err = json.Unmarshal(body, into)
	}
	if err != nil {
		answer := refuse(http.StatusBadRequest, "%v", err)
		return &answer
	}
	return nil
}

func (r *registry) register(req *http.Request) reply {
	var request struct {
		Type string         `json:"type"`
		Data map[string]any `json:"data"`
	}
	if refused := jsonObject(req, &request); refused != nil {
		return *refused
	}
	k, known := kindOf(request.Type)
	if !known {
		return refuse(http.StatusBadRequest, "type %q", request.Type)
	}
	if err := checkResource(k, request.Data); err != nil {
		return refuse(http.StatusBadRequest, "%v", err)
	}
	now := time.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	res, created, err := r.store.put(k, request.Data, now)
	if err != nil {
		return refuse(http.StatusBadRequest, "%v", err)
	}
	if k == nodes {
		r.counted.registered(req, res.id, now)
	}
	answer := reply{status: http.StatusOK, body: res.raw}
	if created {
		answer.status = http.StatusCreated
	}
	answer.header = map[string]string{"Location": registrationBase + "/resource/" + string(k) + "/" + res.id}
	return answer
}

func (r *registry) registered(req *http.Request, k kind, id string) reply {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case readable(req):
		if res := r.store.byKind[k][id]; res != nil {
			return found(res.raw)
		}
	case req.Method == http.MethodDelete:
		if req.UserAgent() != ownAgent {
			r.deleted = append(r.deleted, req.URL.Path)
		}
		if r.store.remove(k, id, time.Now()) {
			return reply{status: http.StatusNoContent}
		}
	default:
		return notAllowed(http.MethodGet, http.MethodHead, http.MethodDelete)
	}
	return notFound()
}

func (r *registry) health(req *http.Request, id string) reply {
	now := time.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	res := r.store.byKind[nodes][id]
	switch {
	case readable(req) && res == nil:
		return notFound()
	case readable(req):
		now = res.health
	case req.Method == http.MethodPost:
		known := r.store.heartbeat(id, now)
		r.counted.heartbeat(req, id, known, now)
		if !known {
			return notFound()
		}
	default:
		return notAllowed(http.MethodGet, http.MethodHead, http.MethodPost)
	}
	seconds := int64(stampOf(now)) / 1e9
	return found(map[string]string{"health": strconv.FormatInt(seconds, 10)})
}

// foreign lists the registered nodes that are not the stand-in's own.
func (r *registry) foreign(own func(id string) bool) []json.RawMessage {
	r.mu.Lock()
	defer r.mu.Unlock()
	list := []json.RawMessage{}
	for _, res := range r.store.matching(nodes, nil, true) {
		if res.id != r.self && !own(res.id) {
			list = append(list, res.raw)
		}
	}
	return list
}

func (r *registry) deletions() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]string{}, slices.Clone(r.deleted)...)
}

// query answers the Query API (NMOS reference §6) except WebSocket upgrades.
func (r *registry) query(req *http.Request) reply {
	switch strings.TrimSuffix(req.URL.Path, "/") {
	case "/x-nmos":
		return found([]string{"query/"})
	case queryRoot:
		return found([]string{"v1.3/"})
	case queryBase:
		list := []string{"subscriptions/"}
		for _, k := range kinds {
			list = append(list, string(k)+"/")
		}
		return found(list)
	}
	parts, ok := segments(req.URL.Path, queryBase)
	if !ok || len(parts) == 0 || len(parts) > 2 {
		return notFound()
	}
	if parts[0] == "subscriptions" {
		return r.subscriptionResource(req, parts[1:])
	}
	if !isKind(parts[0]) {
		return notFound()
	}
	if !readable(req) {
		return notAllowed(http.MethodGet, http.MethodHead)
	}
	if len(parts) == 2 {
		r.mu.Lock()
		defer r.mu.Unlock()
		if res := r.store.byKind[kind(parts[0])][parts[1]]; res != nil {
			return found(res.raw)
		}
		return notFound()
	}
	return r.list(req, kind(parts[0]))
}

const (
	queryRoot = "/x-nmos/query"
	queryBase = queryRoot + "/v1.3"
)

func (r *registry) list(req *http.Request, k kind) reply {
	query := req.URL.Query()
	wanted, err := parseFilter(query)
	if err != nil {
		var unsupported *unsupportedError
		if errors.As(err, &unsupported) {
			return refuse(http.StatusNotImplemented, "%v", err)
		}
		return refuse(http.StatusBadRequest, "%v", err)
	}
	limits, err := parsePaging(query, r.options.PageLimit, r.options.PageMaximum)
	if err != nil {
		return refuse(http.StatusBadRequest, "%v", err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	part := cut(r.store.matching(k, wanted, limits.byCreation), limits, r.store.newest)
	body := make([]json.RawMessage, 0, len(part.list))
	for _, res := range part.list {
		body = append(body, res.raw)
	}
	answer := found(body)
	answer.header = part.headers("http://"+req.Host+req.URL.Path, query, limits)
	return answer
}
