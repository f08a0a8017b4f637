package nmos

import (
	"context"
	"log/slog"
	"net/http"
	"time"
)

// ObserverConfig configures the observer.
type ObserverConfig struct {
	Directory    Directory
	Local        *LocalRules
	OwnNodeID    string
	OwnHostID    string        // dropped from Snapshot.Agents
	PollInterval time.Duration // NMOS_POLL_INTERVAL_MS; 0: 1 s
	// NoSubscriptions leaves only polling.
	NoSubscriptions bool
	// RegistrationEpoch, when set, gives RegistrationStatus.Epoch: a new value
	// tells that a registry had lost our node, i.e. restarted.
	RegistrationEpoch func() uint64
	RemoveHold        time.Duration // 0: 12 s
	RestartHold       time.Duration // 0: 30 s
	Parallel          int           // /active reads at once; 0: 64
	Client            *http.Client  // nil: NewHTTPClient()
	Log               *slog.Logger  // nil: discarded
}

// Observer follows a registry and the /active of local MXL receivers.
type Observer struct{}

// NewObserver validates the configuration. It does no I/O.
func NewObserver(cfg ObserverConfig) (*Observer, error) { return &Observer{}, nil }

// Run observes until ctx ends.
func (o *Observer) Run(ctx context.Context) error { <-ctx.Done(); return nil }

// Snapshot is what is known now.
func (o *Observer) Snapshot() Snapshot { return Snapshot{} }

// Changes fires when the snapshot changed (capacity 1).
func (o *Observer) Changes() <-chan struct{} { return nil }
