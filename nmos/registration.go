package nmos

import (
	"context"
	"log/slog"
	"net/http"
	"time"
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
	Registered bool   // a registry holds our node
	Registry   string // base URL of the registry in use or last tried
	LastError  string // empty while registered and well
	Epoch      uint64 // how often a registry took our node as new
}

// Registration keeps our Node registered.
type Registration struct{}

// NewRegistration validates the configuration. It does no I/O.
func NewRegistration(cfg RegistrationConfig) (*Registration, error) { return &Registration{}, nil }

// Run registers and heartbeats until ctx ends or Close is called.
func (r *Registration) Run(ctx context.Context) error { <-ctx.Done(); return nil }

// Status is the current state.
func (r *Registration) Status() RegistrationStatus { return RegistrationStatus{} }

// Changes fires when the status changed (capacity 1).
func (r *Registration) Changes() <-chan struct{} { return nil }

// Close stops Run and removes the node from the registry, bounded by ctx and
// 1.5 s.
func (r *Registration) Close(ctx context.Context) error { return nil }
