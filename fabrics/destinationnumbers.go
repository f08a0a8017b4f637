package fabrics

import (
	"sync/atomic"

	"github.com/mxl-stack/mxl-fabrics-agent/fabrics/ofi"
)

// destinationNumbers are one target's, as its source lane counts them.
type destinationNumbers struct {
	_           [64]byte
	state       atomic.Uint32
	connected   atomic.Bool
	native      atomic.Bool
	grains      atomic.Uint64
	transfers   atomic.Uint64
	errors      atomic.Uint64
	connections atomic.Uint64
	skipped     atomic.Uint64
	torn        atomic.Uint64
	retracted   atomic.Uint64
	moved       ofi.SampleCounts // of grains too; its Batches are those of runs
	lastError   atomic.Pointer[string]
	_           [64]byte
}

// inherit takes over the running error count of a target that is replaced: it
// never falls. The new numbers are not shared yet.
func (n *destinationNumbers) inherit(old *destinationNumbers) {
	n.errors.Add(old.errors.Load())
}

func (n *destinationNumbers) snapshot(key string) TargetStatus {
	return TargetStatus{
		Key:         key,
		State:       State(n.state.Load()),
		LastError:   loadText(&n.lastError),
		Connected:   n.connected.Load(),
		Native:      n.native.Load(),
		Grains:      n.grains.Load() + n.moved.Batches.Load(),
		Bytes:       n.moved.Bytes.Load(),
		Transfers:   n.transfers.Load() + n.moved.Batches.Load(),
		Errors:      n.errors.Load(),
		Connections: n.connections.Load(),
		Skipped:     n.skipped.Load(),
		Torn:        n.torn.Load(),
		Retracted:   n.retracted.Load(),
		Head:        n.moved.Head.Load(),
		LastAt:      n.moved.At.Load(),
	}
}
