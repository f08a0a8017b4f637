package httpapi

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net"
	"net/http"
	"runtime/debug"
	"strconv"
	"time"
)

// ExitBind is the process exit code of a listener that cannot be bound
// (contract, "Exit codes").
const ExitBind = 75

const (
	headerTimeout = 5 * time.Second
	readTimeout   = 15 * time.Second
	// writeTimeout covers the slowest answer, the test of a peer with its
	// connects and its target.
	writeTimeout = 30 * time.Second
	idleTimeout  = 60 * time.Second
	maxHeader    = 64 << 10
)

// BindError is a port that could not be bound.
type BindError struct {
	Port int
	Err  error
}

func (e *BindError) Error() string { return fmt.Sprintf("bind port %d: %v", e.Port, e.Err) }
func (e *BindError) Unwrap() error { return e.Err }

// Config is what a Server needs.
type Config struct {
	Port   int // on every address, IPv4 and IPv6; 0 picks one
	Routes []Route
	// Names are the host names a browser may use for changes, besides
	// address literals and localhost: the hostname and the host id.
	Names []string
	Log   *slog.Logger
}

// Server serves the routes. Listen, then Serve, then Shutdown.
type Server struct {
	cfg      Config
	http     *http.Server
	listener net.Listener
}

// New makes a Server and does no I/O.
func New(cfg Config) *Server {
	s := &Server{cfg: cfg}
	s.http = &http.Server{
		Handler:           NewHandler(cfg.Routes, cfg.Names, cfg.Log),
		ReadHeaderTimeout: headerTimeout,
		ReadTimeout:       readTimeout,
		WriteTimeout:      writeTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeader,
		// What the library prints concerns broken clients; a state of ours
		// is logged where it changes.
		ErrorLog: log.New(io.Discard, "", 0),
	}
	return s
}

// Listen binds the port. The error is a *BindError.
func (s *Server) Listen() error {
	l, err := net.Listen("tcp", ":"+strconv.Itoa(s.cfg.Port))
	if err != nil {
		return &BindError{Port: s.cfg.Port, Err: err}
	}
	s.listener = newCrowd(l, maxConnections, maxFromOne)
	return nil
}

// Port is the bound port.
func (s *Server) Port() int {
	if addr, ok := s.listener.Addr().(*net.TCPAddr); ok {
		return addr.Port
	}
	return s.cfg.Port
}

// Serve answers requests until Shutdown; it then returns nil.
func (s *Server) Serve() error {
	if err := s.http.Serve(s.listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve HTTP on port %d: %w", s.Port(), err)
	}
	return nil
}

// Shutdown closes the listener, waits for running requests as long as ctx
// allows, then closes what is left. Close the Hub before, so that streams end.
func (s *Server) Shutdown(ctx context.Context) error {
	err := s.http.Shutdown(ctx)
	if err != nil {
		err = errors.Join(err, s.http.Close())
	}
	if s.listener != nil {
		// Not yet served, the listener is still ours to close.
		if closeErr := s.listener.Close(); closeErr != nil && !errors.Is(closeErr, net.ErrClosed) {
			err = errors.Join(err, closeErr)
		}
	}
	return err
}

// NewHandler is the routes with the browser rules, a body limit, an answer
// to a panic, and 404 for everything else, a wrong method included
// (agent API reference §1.1).
func NewHandler(list []Route, names []string, log *slog.Logger) http.Handler {
	table, guard := compile(list), newGuard(names)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		out := &writer{ResponseWriter: w}
		defer func() {
			if cause := recover(); cause != nil {
				failed(out, r, cause, log)
			}
		}()
		handle, ok := table.find(r)
		if !ok {
			WriteError(out, http.StatusNotFound, "not found")
			return
		}
		if err := guard.check(r); err != nil {
			WriteError(out, http.StatusForbidden, err.Error())
			return
		}
		r.Body = http.MaxBytesReader(out, r.Body, MaxBody)
		handle(out, r)
	})
}

// writer remembers whether an answer has begun.
type writer struct {
	http.ResponseWriter
	begun bool
}

func (w *writer) WriteHeader(status int) {
	w.begun = true
	w.ResponseWriter.WriteHeader(status)
}

func (w *writer) Write(p []byte) (int, error) {
	w.begun = true
	return w.ResponseWriter.Write(p)
}

// Unwrap lets http.ResponseController reach the connection.
func (w *writer) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// failed turns a handler's panic into a 500; the process lives.
func failed(w *writer, r *http.Request, cause any, log *slog.Logger) {
	if cause == http.ErrAbortHandler {
		panic(cause)
	}
	log.Error("http_handler_failed", "method", r.Method, "path", r.URL.Path, "error", fmt.Sprint(cause), "stack", string(debug.Stack()))
	if w.begun {
		panic(http.ErrAbortHandler)
	}
	WriteError(w, http.StatusInternalServerError, "internal error: "+fmt.Sprint(cause))
}
