package nmos

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"
)

const (
	registrationPath = "/x-nmos/registration/v1.3"
	// heartbeatEvery is the IS-04 default; collectAfter is when a registry drops a
	// node without one (NMOS reference §4).
	heartbeatEvery = 5 * time.Second
	collectAfter   = 12 * time.Second
	// registerBackoff and its limit: a registry that returns has our node again
	// within one heartbeat interval.
	registerBackoff    = 250 * time.Millisecond
	registerBackoffMax = 5 * time.Second
	// refusedPause is how long a body that the registry refused (4xx) is not sent
	// again, unless the node changes.
	refusedPause = 60 * time.Second
	// deleteTimeout bounds the DELETE at exit (interface reference §13.1).
	deleteTimeout = 1500 * time.Millisecond
)

// RegistrationConfig configures the registration client.
type RegistrationConfig struct {
	Node      *Node
	Directory Directory
	Heartbeat time.Duration // 0: 5 s (IS-04)
	Client    *http.Client  // nil: NewHTTPClient()
	Log       *slog.Logger  // nil: discarded
}

// RegistrationStatus is the state of our registration.
type RegistrationStatus struct {
	Configured bool   // the directory names at least one registry
	Registered bool   // a registry holds our node; unanswered heartbeats end it after 12 s
	Registry   string // base URL of the registry in use or last tried
	LastError  string // empty while all is well
	Epoch      uint64 // how often a registry took our node as new
}

// Registration keeps our Node registered with one registry (NMOS reference §4.1).
type Registration struct {
	cfg     RegistrationConfig
	changed chan struct{}
	stop    context.CancelFunc
	stopped context.Context
	done    chan struct{}

	mu      sync.Mutex
	started bool
	status  RegistrationStatus

	// Owned by Run.
	known    bool      // this process was registered somewhere before
	holder   string    // base URL that holds, or may hold, our node
	answered time.Time // last success at a registry
}

// errRefused marks a body that the registry does not take: not to be repeated.
var errRefused = errors.New("the registry refuses our node")

// errLost: the registry does not know our node (heartbeat 404 or 409).
var errLost = errors.New("the registry does not hold our node")

// NewRegistration validates the configuration. It does no I/O.
func NewRegistration(cfg RegistrationConfig) (*Registration, error) {
	if cfg.Node == nil {
		return nil, errors.New("nmos registration: no node")
	}
	if cfg.Directory == nil {
		return nil, errors.New("nmos registration: no directory")
	}
	cfg.Heartbeat = orDefault(cfg.Heartbeat, heartbeatEvery)
	cfg.Client = withRedirectRule(cfg.Client)
	cfg.Log = orDiscard(cfg.Log)
	r := &Registration{cfg: cfg, changed: make(chan struct{}, 1), done: make(chan struct{})}
	r.stopped, r.stop = context.WithCancel(context.Background())
	r.status.Configured = len(cfg.Directory.RegistrationURLs()) > 0
	return r, nil
}

// Status is the current state.
func (r *Registration) Status() RegistrationStatus {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.status
}

// Changes fires when the status changed (capacity 1, one reader).
func (r *Registration) Changes() <-chan struct{} { return r.changed }

// Run registers and heartbeats until ctx ends or Close is called. It is called
// at most once.
func (r *Registration) Run(ctx context.Context) error {
	r.mu.Lock()
	r.started = true
	r.mu.Unlock()
	defer close(r.done)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(r.stopped, cancel)()

	wait := registerBackoff
	tried := map[string]bool{} // and failed, since the last pause
	for ctx.Err() == nil {
		urls := r.cfg.Directory.RegistrationURLs()
		r.update(func(s *RegistrationStatus) { s.Configured = len(urls) > 0 })
		if len(urls) == 0 {
			sleep(ctx, time.Second) // DNS-SD may find one
			continue
		}
		at := slices.IndexFunc(urls, func(u string) bool { return !tried[u] })
		if at < 0 { // all of them failed
			sleep(ctx, jitter(wait))
			wait = min(wait*2, registerBackoffMax)
			clear(tried)
			continue
		}
		held, err := r.session(ctx, urls[at])
		if ctx.Err() != nil {
			break
		}
		if held { // it worked until now
			wait = registerBackoff
			clear(tried)
		}
		r.failed(urls[at], err)
		if errors.Is(err, errRefused) && r.waitForChange(ctx, refusedPause) {
			continue
		}
		tried[urls[at]] = true
	}
	return nil
}

// session talks to one registry until that fails. held: it accepted something.
func (r *Registration) session(ctx context.Context, base string) (held bool, err error) {
	r.update(func(s *RegistrationStatus) { s.Registry = base })
	var sent time.Time // when the last request that proves us alive went out
	// After a fail-over the first request is a heartbeat: the registry may share
	// its memory with the last one, or have kept our node (NMOS reference §4.1).
	register := !r.known
	for ctx.Err() == nil {
		if register {
			sent = time.Now()
			if err := r.register(ctx, base); err != nil {
				return held, err
			}
		} else {
			sent = time.Now()
			switch err := r.heartbeat(ctx, base); {
			case errors.Is(err, errLost):
				r.cfg.Log.Warn("nmos_registration_lost", "url", base, "node_id", r.cfg.Node.ID())
				r.update(func(s *RegistrationStatus) { s.Registered = false })
				register = true
				continue
			case err != nil:
				return held, err
			}
		}
		held, register = true, false
		r.succeeded(base)
		// Beat from when the last one was sent, so that answers do not stretch it.
		register = r.waitForChange(ctx, time.Until(sent.Add(r.cfg.Heartbeat)))
	}
	return held, ctx.Err()
}

// waitForChange waits; true when the node changed and has to be sent again.
func (r *Registration) waitForChange(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	case <-r.cfg.Node.changes():
		return true
	}
	return false
}

// register POSTs the node and settles what stands in its way.
func (r *Registration) register(ctx context.Context, base string) error {
	code, header, body, err := r.post(ctx, base)
	if err != nil {
		return err
	}
	switch {
	case code == http.StatusOK && !r.known:
		// Left from an earlier run of ours: start clean, children included.
		if _, err := r.deleteAt(ctx, base, registrationPath+"/resource/nodes/"+r.cfg.Node.ID()); err != nil {
			return err
		}
		code, header, body, err = r.post(ctx, base)
	case code == http.StatusConflict, code == http.StatusBadRequest && header.Get("Location") != "":
		// 409: held at another API version. 400 with a Location: held with a newer
		// version, so the clock has gone back since an earlier run (§12).
		var path string
		if path, err = r.locate(base, header.Get("Location")); err != nil {
			return fmt.Errorf("%w: %w: %w", errRefused, newStatusError(http.MethodPost, base+registrationPath+"/resource", code, header, body), err)
		}
		if _, err = r.deleteAt(ctx, base, path); err != nil {
			return err
		}
		code, header, body, err = r.post(ctx, base)
	}
	if err != nil {
		return err
	}
	switch {
	case code == http.StatusCreated:
		r.update(func(s *RegistrationStatus) { s.Epoch++ })
		return nil
	case code == http.StatusOK:
		return nil
	}
	se := newStatusError(http.MethodPost, base+registrationPath+"/resource", code, header, body)
	if code >= 400 && code < 500 {
		return fmt.Errorf("%w: %w", errRefused, se)
	}
	return se
}

func (r *Registration) post(ctx context.Context, base string) (int, http.Header, []byte, error) {
	r.holder = base // even if the answer gets lost
	body, err := json.Marshal(struct {
		Type string          `json:"type"`
		Data json.RawMessage `json:"data"`
	}{"node", r.cfg.Node.Document()})
	if err != nil {
		return 0, nil, nil, err
	}
	return exchange(ctx, r.cfg.Client, http.MethodPost, base+registrationPath+"/resource", body)
}

// heartbeat is one POST /health. The answer's body is not looked at: some
// registries send a number, some a string (NMOS reference §4.1).
func (r *Registration) heartbeat(ctx context.Context, base string) error {
	target := base + registrationPath + "/health/nodes/" + r.cfg.Node.ID()
	code, header, body, err := exchange(ctx, r.cfg.Client, http.MethodPost, target, nil)
	switch {
	case err != nil:
		return err
	case code >= 200 && code < 300:
		return nil
	case code == http.StatusNotFound, code == http.StatusConflict:
		return errLost
	}
	return newStatusError(http.MethodPost, target, code, header, body)
}

// locate takes the path of our node out of a Location; anything that is not our
// node on this registry is refused.
func (r *Registration) locate(base, location string) (string, error) {
	b, err := url.Parse(base)
	if err != nil {
		return "", err
	}
	ref, err := url.Parse(location)
	if err != nil || location == "" {
		return "", fmt.Errorf("location %q: not a url", clip(location))
	}
	u := b.ResolveReference(ref)
	if u.Host != b.Host || u.User != nil || !strings.HasPrefix(u.Path, "/x-nmos/registration/v") ||
		!strings.HasSuffix(strings.TrimSuffix(u.Path, "/"), "/resource/nodes/"+r.cfg.Node.ID()) {
		return "", fmt.Errorf("location %q is not our node", clip(location))
	}
	return strings.TrimSuffix(u.Path, "/"), nil
}

// deleteAt removes our node; one that is gone already is fine.
func (r *Registration) deleteAt(ctx context.Context, base, path string) (status int, err error) {
	code, header, body, err := exchange(ctx, r.cfg.Client, http.MethodDelete, base+path, nil)
	if err != nil {
		return 0, err
	}
	if (code >= 200 && code < 300) || code == http.StatusNotFound {
		return code, nil
	}
	return code, newStatusError(http.MethodDelete, base+path, code, header, body)
}

func (r *Registration) succeeded(base string) {
	r.known, r.holder, r.answered = true, base, time.Now()
	var fresh bool
	r.update(func(s *RegistrationStatus) {
		fresh = !s.Registered || s.LastError != ""
		s.Registered, s.Registry, s.LastError = true, base, ""
	})
	if fresh {
		r.cfg.Log.Info("nmos_registered", "url", base, "node_id", r.cfg.Node.ID())
	}
}

func (r *Registration) failed(base string, err error) {
	r.cfg.Directory.Failed(base)
	var first bool
	r.update(func(s *RegistrationStatus) {
		first = s.LastError == ""
		s.LastError = err.Error()
		if errors.Is(err, errRefused) || !r.known || time.Since(r.answered) >= collectAfter {
			s.Registered = false
		}
	})
	if first {
		r.cfg.Log.Warn("nmos_registration_failed", "url", base, "error", err)
	}
}

func (r *Registration) update(f func(*RegistrationStatus)) {
	r.mu.Lock()
	before := r.status
	f(&r.status)
	differs := r.status != before
	r.mu.Unlock()
	if differs {
		select {
		case r.changed <- struct{}{}:
		default:
		}
	}
}

// Close stops Run and removes the node from the registry that held it last,
// bounded by ctx and 1.5 s. Nothing is sent when the node was never sent.
func (r *Registration) Close(ctx context.Context) error {
	r.stop()
	r.mu.Lock()
	started := r.started
	r.mu.Unlock()
	if !started {
		return nil
	}
	select {
	case <-r.done:
	case <-ctx.Done():
		return fmt.Errorf("nmos registration: stopping: %w", ctx.Err())
	}
	defer r.cfg.Client.CloseIdleConnections()
	if r.holder == "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, deleteTimeout)
	defer cancel()
	status, err := r.deleteAt(ctx, r.holder, registrationPath+"/resource/nodes/"+r.cfg.Node.ID())
	r.update(func(s *RegistrationStatus) { s.Registered = false })
	if err != nil {
		return fmt.Errorf("nmos registration: removing node %s: %w", r.cfg.Node.ID(), err)
	}
	r.cfg.Log.Info("nmos_node_delete", "node_id", r.cfg.Node.ID(), "status", status)
	return nil
}
