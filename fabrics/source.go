package fabrics

import (
	"log/slog"
	"time"

	"github.com/google/uuid"

	"github.com/mxl-stack/mxl-fabrics-agent/mxl"
)

// SourceConfig says which origin flow a source reads and from where it sends.
type SourceConfig struct {
	Domain   *mxl.Domain
	FlowID   uuid.UUID
	Provider Provider
	Address  string // numeric address of the local fabric interface

	Scheduling Scheduling
	// AudioPass is the least time from the pass that saw an audio transfer
	// complete to the next transfer; it is never taken below 2 ms. Zero is 2 ms.
	AudioPass time.Duration
	Log       *slog.Logger
}

// SourceStats is a snapshot of a source lane's numbers.
type SourceStats struct {
	State      State  // error: the origin cannot be read; LastError says why
	LastError  string // reason of StateError
	Reading    bool   // the origin is open; false while it is gone
	Head       uint64 // origin head; mxl.UndefinedIndex when nothing was written
	OriginGaps uint64 // unwritten origin indexes passed over
	Errors     uint64 // origin errors, running count
	Targets    []TargetStatus
	Timing     Timing
}

// TargetStatus is one target of a source lane.
type TargetStatus struct {
	Key         string
	State       State
	LastError   string
	Native      bool   // the target is one of this package
	Grains      uint64 // transfers completed; whole grains on discrete flows
	Bytes       uint64 // payload bytes completed
	Transfers   uint64 // transfers completed, partial ones too
	Errors      uint64 // running count
	Connections uint64 // connections established
	Head        uint64 // last index completed
	LastAt      uint64 // CLOCK_TAI nanoseconds of the last completion
	Timing      Timing
}

// SourceEvent is something about the origin that its control side wants to log.
type SourceEvent struct {
	Name   string // origin_changed, origin_gone, origin_reopened, source_connected, source_connection_lost, source_refused, thread_stall
	Key    string // target, where one is meant
	Detail string
	At     uint64 // CLOCK_TAI nanoseconds
}

// Source sends one origin flow to any number of targets over one local address.
type Source struct{}

// OpenSource opens the origin flow and starts its lane.
func OpenSource(cfg SourceConfig) (*Source, error) { return &Source{}, nil }

// SetTarget adds the target named key or replaces it when info differs. An
// unchanged info changes nothing. The error is about info not fitting the flow.
func (s *Source) SetTarget(key string, info TargetInfo) error { return nil }

// RemoveTarget drains and drops the target named key. Unknown keys are ignored.
func (s *Source) RemoveTarget(key string) {}

// Stats returns the source's numbers as they are now.
func (s *Source) Stats() SourceStats { return SourceStats{} }

// Events is a bounded queue of what happened; the lane drops events nobody reads.
func (s *Source) Events() <-chan SourceEvent { return nil }

// Close drains and drops every target, closes the reader and ends the lane. It
// takes at most a second and may be called more than once.
func (s *Source) Close() error { return nil }
