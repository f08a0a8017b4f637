package nmos

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/coder/websocket"
)

// ListenError says which of our ports could not be bound. The process exits 75
// on it (contract, exit codes).
type ListenError struct {
	Purpose string // "node api" or "websocket"
	Port    int
	Err     error
}

func (e *ListenError) Error() string {
	return fmt.Sprintf("nmos %s port %d: %v", e.Purpose, e.Port, e.Err)
}

// Unwrap gives the cause, e.g. syscall.EADDRINUSE.
func (e *ListenError) Unwrap() error { return e.Err }

// Listeners are the two bound sockets of the Node.
type Listeners struct {
	API       net.Listener // NMOS_PORT
	WebSocket net.Listener // NMOS_PORT+1
}

// Listen binds NMOS_PORT and NMOS_PORT+1 on all addresses. Either both are
// bound or the error is a *ListenError.
func Listen(port int) (*Listeners, error) {
	api, err := net.Listen("tcp", ":"+strconv.Itoa(port))
	if err != nil {
		return nil, &ListenError{"node api", port, err}
	}
	ws, err := net.Listen("tcp", ":"+strconv.Itoa(port+1))
	if err != nil {
		return nil, &ListenError{"websocket", port + 1, errors.Join(err, api.Close())}
	}
	return &Listeners{API: api, WebSocket: ws}, nil
}

// Close closes both sockets.
func (l *Listeners) Close() error { return errors.Join(l.API.Close(), l.WebSocket.Close()) }

// Serve answers on both listeners until ctx ends, then closes them.
func (n *Node) Serve(ctx context.Context, l *Listeners, log *slog.Logger) error {
	log = orDiscard(log)
	servers := [...]*http.Server{newServer(ctx, n.Handler(), log), newServer(ctx, webSocketHandler(ctx), log)}
	failed := make(chan error, len(servers))
	for i, ln := range [...]net.Listener{l.API, l.WebSocket} {
		go func() { failed <- servers[i].Serve(ln) }()
	}
	var err error
	running := len(servers)
	select {
	case <-ctx.Done():
	case err = <-failed:
		running--
	}
	for _, s := range servers {
		s.Close()
	}
	for range running {
		<-failed
	}
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}

func newServer(ctx context.Context, h http.Handler, log *slog.Logger) *http.Server {
	return &http.Server{
		Handler:           h,
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       10 * time.Second,
		WriteTimeout:      10 * time.Second,
		IdleTimeout:       60 * time.Second,
		MaxHeaderBytes:    16 << 10,
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelDebug),
		BaseContext:       func(net.Listener) context.Context { return ctx },
	}
}

// webSocketIdle is how long a silent client may stay; IS-07 clients send a
// health command every 5 s and servers drop them after 12 s.
const webSocketIdle = 12 * time.Second

// webSocketHandler accepts event sockets. The Node has no sources, so nothing is
// ever sent; what a client sends is read and dropped.
func webSocketHandler(ctx context.Context) http.Handler {
	slots := make(chan struct{}, 16) // nothing uses this socket: a small bound is enough
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Upgrade") == "" {
			w.Header().Set("Access-Control-Allow-Origin", "*")
			writeError(w, http.StatusNotFound, "this port speaks websocket only")
			return
		}
		select {
		case slots <- struct{}{}:
			defer func() { <-slots }()
		default:
			w.Header().Set("Access-Control-Allow-Origin", "*")
			writeError(w, http.StatusServiceUnavailable, "too many event sockets")
			return
		}
		conn, err := websocket.Accept(w, r, &websocket.AcceptOptions{InsecureSkipVerify: true})
		if err != nil {
			return // Accept has answered
		}
		defer conn.CloseNow()
		conn.SetReadLimit(64 << 10)
		for {
			wait, cancel := context.WithTimeout(ctx, webSocketIdle)
			_, _, err := conn.Read(wait)
			cancel()
			if err != nil {
				return
			}
		}
	})
}
