package agent

import (
	"context"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mxl-stack/mxl-fabrics-agent/fabrics"
	"github.com/mxl-stack/mxl-fabrics-agent/mirror"
	"github.com/mxl-stack/mxl-fabrics-agent/mxl"
	"github.com/mxl-stack/mxl-fabrics-agent/peers"
)

// fakeTarget is a destination lane whose numbers the test sets.
type fakeTarget struct {
	mu     sync.Mutex
	stats  fabrics.TargetStats
	closed bool
	secret bool   // is required
	files  error  // what the checks of the mirror's files say
	looks  [2]int // at one file, at all
}

func (f *fakeTarget) Info() fabrics.TargetInfo { return fabrics.TargetInfo{ID: 1, Provider: "tcp"} }
func (f *fakeTarget) Stats() fabrics.TargetStats {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.stats
}
func (f *fakeTarget) CheckMirror() error     { return f.look(1) }
func (f *fakeTarget) CheckMirrorFile() error { return f.look(0) }
func (f *fakeTarget) look(much int) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.looks[much]++
	return f.files
}
func (f *fakeTarget) RequireSecret() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.secret = true
}
func (f *fakeTarget) Close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closed = true
	return nil
}
func (f *fakeTarget) set(change func(*fabrics.TargetStats)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change(&f.stats)
}
func (f *fakeTarget) isClosed() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.closed
}

// pullBench runs one pull in a synctest bubble. The loop is the bench: it wakes
// the pull every 200 ms.
type pullBench struct {
	*pull
	mu       sync.Mutex
	targets  []*fakeTarget
	setups   []targetSetup // of targets
	asks     []peers.ReplicationRequest
	releases int
	answer   peers.ReplicationAnswer
	askErr   error
	said     func(peers.ReplicationRequest, targetSetup) (peers.ReplicationAnswer, error) // in place of both, when set
	openErr  error
	lost     []uint64 // generations
	cancel   context.CancelFunc
}

func newPullBench(t *testing.T) *pullBench {
	b := &pullBench{answer: peers.ReplicationAnswer{ReplicationID: "id-1", State: statePending}}
	b.pull = newPull(pullKey{Peer: "a", Domain: "dom", Flow: testFlow}, pullDeps{
		hostID: "b", bootID: "boot-b",
		open: func(setup targetSetup) (targetLane, error) {
			b.mu.Lock()
			defer b.mu.Unlock()
			if b.openErr != nil {
				return nil, b.openErr
			}
			f := &fakeTarget{stats: fabrics.TargetStats{Head: mxl.UndefinedIndex}}
			b.targets = append(b.targets, f)
			b.setups = append(b.setups, setup)
			return f, nil
		},
		ask: func(_ context.Context, _ string, req peers.ReplicationRequest) (peers.ReplicationAnswer, error) {
			b.mu.Lock()
			defer b.mu.Unlock()
			b.asks = append(b.asks, req)
			if b.said != nil {
				return b.said(req, b.setups[len(b.setups)-1])
			}
			return b.answer, b.askErr
		},
		release: func(context.Context, string, string, string) error {
			b.mu.Lock()
			defer b.mu.Unlock()
			b.releases++
			return nil
		},
		lost: func(_ mirror.Key, generation uint64, _ error) {
			b.mu.Lock()
			defer b.mu.Unlock()
			b.lost = append(b.lost, generation)
		},
		ports: newPortPool(23500, 2), setups: newPlaces(1),
		ended: func(pullKey, string, fabrics.Provider, bool, fabrics.TargetStats) {}, phase: func(string, time.Duration) {}, now: time.Now, log: slog.New(slog.DiscardHandler),
	})
	ctx, cancel := context.WithCancel(t.Context())
	b.cancel = cancel
	go b.run(ctx)
	return b
}

// passes makes n reconcile passes, 200 ms apart.
func (b *pullBench) passes(n int, wish pullWish) {
	for range n {
		b.want(wish)
		time.Sleep(passEvery) // the bubble's clock
	}
	synctest.Wait()
}

func (b *pullBench) counts() (targets, asks, releases int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.targets), len(b.asks), b.releases
}

func aWish() pullWish {
	return pullWish{pullFacts: wantedFacts(), ControlURL: "http://a/api/v1", Provider: fabrics.TCP, Address: "127.0.0.1"}
}
