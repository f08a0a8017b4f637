package fabrics

import (
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"github.com/mxl-stack/mxl-fabrics-agent/fabrics/ofi"
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
	// complete to the next transfer; it is never taken below 2 ms there. Zero is 2 ms.
	AudioPass time.Duration
	// AudioPipeline posts an audio batch every AudioPass towards targets of this
	// package, without waiting for the one before.
	AudioPipeline bool
	Log           *slog.Logger
}

// SourceStats is a snapshot of a source lane's numbers.
type SourceStats struct {
	State      State  // error: the origin cannot be read; LastError says why
	LastError  string // reason of StateError
	Reading    bool   // the origin is open; false while it is gone or nobody writes it
	Head       uint64 // origin head; mxl.UndefinedIndex when nothing was written
	OriginGaps uint64 // unwritten origin indexes passed over
	Errors     uint64 // origin errors, running count
	Reopened   uint64 // times the origin was opened again
	Dropped    uint64 // events dropped because nobody read them
	Targets    []TargetStatus
	Timing     Timing // of all targets, also those that went
}

// TargetStatus is one target of a source lane.
type TargetStatus struct {
	Key         string
	State       State
	LastError   string
	Connected   bool
	Native      bool   // the target is one of this package
	Grains      uint64 // whole grains completed; continuous flows: transfers
	Bytes       uint64 // payload bytes completed
	Transfers   uint64 // transfers completed, partial grains too
	Errors      uint64 // running count
	Connections uint64 // connections established
	Skipped     uint64 // grains or samples passed over because they were too old
	Torn        uint64 // grain transfers whose memory was overwritten meanwhile; samples are never sent from such memory
	Retracted   uint64 // of Torn: marked invalid at the target; the others' slots were used again already
	Head        uint64 // last index completed; mxl.UndefinedIndex before the first
	LastAt      uint64 // CLOCK_TAI nanoseconds of the last completion
}

// SourceEvent is something that happened to the origin or to one target, for the
// control side to log.
type SourceEvent struct {
	// Name is origin_changed (re-created), origin_deleted, origin_released (nobody
	// writes it), origin_reopened, origin_failed, target_connected,
	// source_connection_lost, target_failed (a connection was not made).
	Name   string
	Key    string // the target, where one is meant
	Detail string
	At     uint64 // CLOCK_TAI nanoseconds
}

// eventRoom is how many events wait for the control side; more are dropped.
const eventRoom = 64

// sourceNumbers leave the lane through atomics.
type sourceNumbers struct {
	_         [64]byte
	failed    atomic.Bool
	reading   atomic.Bool
	head      atomic.Uint64
	gaps      atomic.Uint64
	errors    atomic.Uint64
	reopened  atomic.Uint64
	lastError atomic.Pointer[string]
	ageOrigin histogram
	ageSent   histogram
	transfer  histogram
	stalls    atomic.Uint64
	dropped   atomic.Uint64
	_         [64]byte
}

// Source sends one origin flow to any number of targets over one local address.
type Source struct {
	lane *sourceLane

	mu      sync.Mutex
	targets []*sourceTarget // in the order they were added
}

type sourceTarget struct {
	key     string
	text    string
	numbers *destinationNumbers
}

// OpenSource opens the origin flow and starts its lane. Errors are those of the
// reader (mxl.ErrFlowNotFound and others), or name the provider and the address.
func OpenSource(cfg SourceConfig) (*Source, error) {
	if cfg.Domain == nil {
		return nil, errors.New("source needs a domain")
	}
	if cfg.AudioPass <= 0 {
		cfg.AudioPass = minSampleGap
	}
	l := &sourceLane{cfg: cfg, instance: randomUint64(), happened: make(chan SourceEvent, eventRoom)}
	l.log = cfg.Log
	l.numbers.head.Store(undefinedIndex)
	if err := l.open(cfg.Provider, cfg.Address, ofi.Sender, maxSourceBatch); err != nil {
		return nil, err
	}
	if err := l.start(cfg.Scheduling, l.prepare, l.run); err != nil {
		return nil, fmt.Errorf("source of flow %v: %w", cfg.FlowID, err)
	}
	l.log.Info("fabric_endpoint", "role", "source", "flow_id", cfg.FlowID, "provider", cfg.Provider, "address", cfg.Address, "domain", l.device)
	return &Source{lane: l}, nil
}

// SetTarget adds the target named key, or replaces it when info differs; an
// unchanged info keeps the connection, or connects again to one that was lost. The error says what in info does not fit
// the flow, or the source's provider; then nothing changes.
func (s *Source) SetTarget(key string, info TargetInfo) error {
	if err := s.lane.shape.accepts(info, s.lane.cfg.Provider); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	text := info.String()
	at := s.find(key)
	if at >= 0 && s.targets[at].text == text {
		if State(s.targets[at].numbers.state.Load()) == StateError {
			s.lane.do(func() { s.lane.askedAgain(key) })
		}
		return nil
	}
	t := &sourceTarget{key: key, text: text, numbers: &destinationNumbers{}}
	t.numbers.moved.Head.Store(undefinedIndex)
	d := &destination{key: key, info: info, numbers: t.numbers}
	if !s.lane.do(func() { s.lane.setDestination(d) }) {
		return errClosedSource
	}
	if at >= 0 {
		t.numbers.inherit(s.targets[at].numbers)
		s.targets[at] = t
	} else {
		s.targets = append(s.targets, t)
	}
	return nil
}

var errClosedSource = errors.New("source is closed")

// RemoveTarget drains and drops the target named key. Unknown keys are ignored.
func (s *Source) RemoveTarget(key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if at := s.find(key); at >= 0 {
		s.targets = append(s.targets[:at], s.targets[at+1:]...)
		s.lane.do(func() { s.lane.removeDestination(key) })
	}
}

func (s *Source) find(key string) int {
	for i, t := range s.targets {
		if t.key == key {
			return i
		}
	}
	return -1
}

// Stats returns the source's numbers as they are now.
func (s *Source) Stats() SourceStats {
	n, now := &s.lane.numbers, s.lane.now()
	stats := SourceStats{
		LastError:  loadText(&n.lastError),
		Reading:    n.reading.Load(),
		Head:       n.head.Load(),
		OriginGaps: n.gaps.Load(),
		Errors:     n.errors.Load(),
		Reopened:   n.reopened.Load(),
		Dropped:    n.dropped.Load(),
		Timing: Timing{
			Transfer:       n.transfer.snapshot(now),
			TransferStalls: n.stalls.Load(),
			AgeOrigin:      n.ageOrigin.snapshot(now),
			AgeSent:        n.ageSent.snapshot(now),
			ThreadStall:    s.lane.stalls.snapshot(now),
		},
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, t := range s.targets {
		status := t.numbers.snapshot(t.key)
		if status.State == StateActive {
			stats.State = StateActive
		}
		stats.Targets = append(stats.Targets, status)
	}
	if n.failed.Load() {
		stats.State = StateError
	}
	return stats
}

// Events is a bounded queue of what happened. Events that nobody reads are dropped.
func (s *Source) Events() <-chan SourceEvent { return s.lane.happened }

// TakeStall returns the longest thread stall since the last call, if there was one.
func (s *Source) TakeStall() (Stall, bool) { return s.lane.stalls.take() }

// Close drains and drops every target, closes the reader and ends the lane. It
// takes at most a second and may be called more than once.
func (s *Source) Close() error {
	s.lane.shut(s.lane.beginClose)
	return s.lane.closeErr
}
