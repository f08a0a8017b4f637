package fabrics

import (
	"log/slog"

	"github.com/google/uuid"

	"github.com/mxl-stack/mxl-fabrics-agent/mxl"
)

// TargetConfig says what a target writes to and where it listens.
type TargetConfig struct {
	// Discrete or Continuous, exactly one, is the mirror flow's writer. The
	// target uses it until Close returns and does not close it.
	Discrete   *mxl.DiscreteWriter
	Continuous *mxl.ContinuousWriter

	FlowID   uuid.UUID
	Provider Provider
	Address  string // numeric IPv4 or IPv6 address of the local fabric interface
	Port     int    // fixed port; 0 lets the system choose
	CQDepth  int    // completion queue entries; 0 is 256

	Scheduling Scheduling
	Log        *slog.Logger
}

// TargetStats is a snapshot of a target's numbers.
type TargetStats struct {
	State     State
	LastError string // why State is StateError, or the last connection's end
	Connected bool
	Native    bool // the connected initiator is one of this package

	Grains        uint64 // grains committed; continuous flows: transfers
	Samples       uint64 // samples per channel committed; 0 on discrete flows
	Bytes         uint64 // payload bytes committed
	Errors        uint64 // running count, never falls
	BadImmediates uint64 // immediates that named no slot, entry or possible count
	Connections   uint64 // connections established
	Refused       uint64 // connection requests refused while one was connected
	Head          uint64 // last committed index; mxl.UndefinedIndex before the first
	LastGrainAt   uint64 // CLOCK_TAI nanoseconds of the last commit; 0 before the first

	Timing Timing
}

// Target receives one flow from one initiator at a time.
type Target struct{}

// OpenTarget starts the target's lane and returns once it listens.
func OpenTarget(cfg TargetConfig) (*Target, error) { return &Target{}, nil }

// Info is what an initiator needs to reach the target. It stays valid until
// Close, over any number of connections.
func (t *Target) Info() TargetInfo { return TargetInfo{} }

// Stats returns the target's numbers as they are now.
func (t *Target) Stats() TargetStats { return TargetStats{} }

// Close commits what has arrived, deregisters the flow's memory and ends the
// lane. It takes at most a second and may be called more than once.
func (t *Target) Close() error { return nil }
