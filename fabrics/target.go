package fabrics

import (
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"github.com/mxl-stack/mxl-fabrics-agent/fabrics/ofi"
	"github.com/mxl-stack/mxl-fabrics-agent/mxl"
)

// defaultCQDepth is the number of completions a target's queue holds.
const defaultCQDepth = 256

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

	// Peers are the addresses that an initiator without the secret of Info may connect
	// from. Empty when they are not known: then any.
	Peers []netip.Addr
	// SecretOnly refuses every initiator without the secret, see RequireSecret.
	SecretOnly bool

	Scheduling Scheduling
	Log        *slog.Logger
}

// TargetStats is a snapshot of a target's numbers.
type TargetStats struct {
	State     State
	LastError string // why State is StateError, or why the last connection ended
	Connected bool
	Native    bool   // the connected initiator is one of this package
	Peer      string // address of the connected or last initiator

	Grains        uint64 // grains committed complete or invalid; continuous flows: transfers
	Commits       uint64 // commits, partial grains too
	Samples       uint64 // samples per channel committed; 0 on discrete flows
	Bytes         uint64 // payload bytes committed
	Errors        uint64 // running count, never falls
	BadImmediates uint64 // immediates that named no slot, entry or possible count
	Retracted     uint64 // grains that the initiator marked invalid after they were committed
	Discarded     uint64 // slots invalidated because a transfer into them was never finished
	Connections   uint64 // connections established
	Refused       uint64 // connection requests refused while one was connected
	Strangers     uint64 // connection requests refused because of where they came from
	Head          uint64 // last committed index; mxl.UndefinedIndex before the first
	LastBatch     uint64 // samples of the last batch; 1 for grains
	LastGrainAt   uint64 // CLOCK_TAI nanoseconds of the last commit; 0 before the first
	Interrupted   uint64 // waits ended by a signal
	MirrorLost    bool   // see ErrMirrorLost; it stays

	Timing Timing
}

// targetNumbers leave the lane through atomics; the padding keeps them off cache
// lines that other lanes write.
type targetNumbers struct {
	_             [64]byte
	state         atomic.Uint32
	connected     atomic.Bool
	native        atomic.Bool
	mirrorLost    atomic.Bool
	grains        atomic.Uint64
	commits       atomic.Uint64
	errors        atomic.Uint64
	badImmediates atomic.Uint64
	retracted     atomic.Uint64
	discarded     atomic.Uint64
	connections   atomic.Uint64
	refused       atomic.Uint64
	strangers     atomic.Uint64
	interrupted   atomic.Uint64
	late          atomic.Uint64
	moved         ofi.SampleCounts // of grains too; its Batches are those of runs
	lastError     atomic.Pointer[string]
	peer          atomic.Pointer[string]
	age           histogram
	gap           histogram
	_             [64]byte
}

// Target receives one flow from one initiator at a time.
type Target struct {
	lane *targetLane
	info TargetInfo
	look atomic.Uint64 // CheckMirrorFile looks at this file of the ring
}

// OpenTarget registers the flow's memory and starts the target's lane. It returns
// once the target listens. Errors name the provider, the address and what failed;
// ErrNoInterface and ErrMirrorLost are among them.
func OpenTarget(cfg TargetConfig) (*Target, error) {
	if (cfg.Discrete == nil) == (cfg.Continuous == nil) {
		return nil, errors.New("target needs exactly one writer, discrete or continuous")
	}
	if cfg.Port < 0 || cfg.Port > 65535 {
		return nil, fmt.Errorf("fabric port %d is not a port", cfg.Port)
	}
	if cfg.CQDepth == 0 {
		cfg.CQDepth = defaultCQDepth
	}
	if cfg.CQDepth < 1 {
		return nil, fmt.Errorf("completion queue depth %d is below 1", cfg.CQDepth)
	}
	l := &targetLane{cfg: cfg, admission: admission{secret: newSecret(), secretOnly: cfg.SecretOnly, peers: cfg.Peers}}
	l.log = cfg.Log
	l.numbers.moved.Head.Store(undefinedIndex)
	l.period = int64(time.Second)
	if err := l.open(cfg.Provider, cfg.Address, ofi.Receiver, min(cfg.CQDepth, maxTargetBatch)); err != nil {
		return nil, err
	}
	if err := l.start(cfg.Scheduling, l.prepare, l.run); err != nil {
		return nil, fmt.Errorf("target on %s: %w", listenName(cfg), err)
	}
	l.log.Info("fabric_endpoint", "role", "destination", "flow_id", cfg.FlowID, "provider", cfg.Provider, "address", listenName(cfg), "domain", l.device)
	return &Target{lane: l, info: l.target}, nil
}

func listenName(cfg TargetConfig) string {
	if a, err := netip.ParseAddr(cfg.Address); err == nil {
		return netip.AddrPortFrom(a, uint16(cfg.Port)).String()
	}
	return cfg.Address + " port " + strconv.Itoa(cfg.Port)
}

// Info is what an initiator needs to reach the target. It stays valid until Close,
// over any number of connections.
func (t *Target) Info() TargetInfo { return t.info }

// Stats returns the target's numbers as they are now.
func (t *Target) Stats() TargetStats {
	n, now := &t.lane.numbers, t.lane.now()
	return TargetStats{
		State:         State(n.state.Load()),
		LastError:     loadText(&n.lastError),
		Connected:     n.connected.Load(),
		Native:        n.native.Load(),
		Peer:          loadText(&n.peer),
		Grains:        n.grains.Load() + n.moved.Batches.Load(),
		Commits:       n.commits.Load() + n.moved.Batches.Load(),
		Samples:       n.moved.Samples.Load(),
		Bytes:         n.moved.Bytes.Load(),
		Errors:        n.errors.Load(),
		BadImmediates: n.badImmediates.Load(),
		Retracted:     n.retracted.Load(),
		Discarded:     n.discarded.Load(),
		Connections:   n.connections.Load(),
		Refused:       n.refused.Load(),
		Strangers:     n.strangers.Load(),
		Head:          n.moved.Head.Load(),
		LastBatch:     n.moved.Batch.Load(),
		LastGrainAt:   n.moved.At.Load(),
		Interrupted:   n.interrupted.Load(),
		MirrorLost:    n.mirrorLost.Load(),
		Timing: Timing{
			AgeDelivered:   n.age.snapshot(now),
			DeliveryGap:    n.gap.snapshot(now),
			LateDeliveries: n.late.Load(),
			ThreadStall:    t.lane.stalls.snapshot(now),
		},
	}
}

// TakeStall returns the longest thread stall since the last call, if there was one.
func (t *Target) TakeStall() (Stall, bool) { return t.lane.stalls.take() }

// Close commits what has arrived, deregisters the flow's memory and ends the lane.
// It takes at most a second and may be called more than once.
func (t *Target) Close() error {
	t.lane.shut(func() { t.lane.stop = true })
	return t.lane.closeErr
}

func loadText(p *atomic.Pointer[string]) string {
	if s := p.Load(); s != nil {
		return *s
	}
	return ""
}

// storeText keeps the pointer when the text is the same, so that a repeated error
// allocates nothing.
func storeText(p *atomic.Pointer[string], s string) {
	if old := p.Load(); old != nil && *old == s {
		return
	}
	p.Store(&s)
}
