package agent

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/mxl-stack/mxl-fabrics-agent/mirror"
)

// mirrorRoom is what the agent needs of a mirror.Room to change mirrors.
type mirrorRoom interface {
	EnsureFlow(o mirror.Origin) (*mirror.Flow, bool, error)
	Held(k mirror.Key) *mirror.Flow
	RemoveFlow(ctx context.Context, k mirror.Key, reason mirror.Reason) (mirror.Removal, error)
	RemoveDomain(ctx context.Context, domainID string, reason mirror.Reason) (mirror.Removal, error)
	ReplaceFlow(ctx context.Context, o mirror.Origin) (mirror.Rebuilt, error)
	RebuildFlow(ctx context.Context, k mirror.Key) (mirror.Rebuilt, error)
	NameSource(domainID, host string) (changed bool, err error)
}

// mirrorDeeds makes and removes mirrors beside the reconcile loop, one deed a
// flow or domain at a time.
type mirrorDeeds struct {
	room mirrorRoom
	log  *slog.Logger
	// halt stops whatever uses the writer of a flow, or of any flow of a domain,
	// and waits for it.
	halt func(mirror.Key)
	// note tells the loop that a mirror was, or is about to be, removed for a
	// reason; an empty reason takes that back.
	note func(mirror.Key, mirror.Reason)
	// blocked tells it why a removal failed.
	blocked func(mirror.Key, error)
	// made tells it how the making of a flow went.
	made   func(mirror.Key, error)
	wake   func()
	now    func() time.Time
	places *places
	wg     sync.WaitGroup

	mu     sync.Mutex
	busy   map[mirror.Key]bool
	held   map[mirror.Key]*mirror.Flow
	gens   map[mirror.Key]uint64
	failed map[mirror.Key]string // the last failure, logged when it changes
	losses map[mirror.Key]mirrorLoss
	naming map[string]naming // by domain id
}

func newMirrorDeeds(room mirrorRoom, log *slog.Logger) *mirrorDeeds {
	return &mirrorDeeds{
		room: room, log: log, now: time.Now, places: newPlaces(setupsAtOnce), losses: map[mirror.Key]mirrorLoss{}, naming: map[string]naming{},
		busy: map[mirror.Key]bool{}, held: map[mirror.Key]*mirror.Flow{}, gens: map[mirror.Key]uint64{}, failed: map[mirror.Key]string{},
	}
}

// flow is the open mirror flow and a number that changes when its writer does;
// nil while there is none, a deed is at work on it or its mapping was lost.
func (m *mirrorDeeds) flow(k mirror.Key) (*mirror.Flow, uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.busy) > 0 && (m.busy[k] || m.busy[mirror.Key{DomainID: k.DomainID}]) {
		return nil, 0
	}
	f := m.held[k]
	if f != nil && f.Lost() {
		f = nil
	}
	return f, m.gens[k]
}

// usable says whether the flow's writer of that generation may be written with: no
// deed is at work on it, and no other writer has taken its place.
func (m *mirrorDeeds) usable(k mirror.Key, generation uint64) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return !m.busy[k] && !m.busy[mirror.Key{DomainID: k.DomainID}] && m.held[k] != nil && m.gens[k] == generation
}

// set takes over an open flow, or that there is none.
func (m *mirrorDeeds) set(k mirror.Key, f *mirror.Flow) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.held[k] != f {
		m.gens[k]++
	}
	if f == nil {
		delete(m.held, k)
		return
	}
	m.held[k] = f
}

// start begins a deed on k and says whether it did: not while another one is at
// work on the flow or its domain. It waits for its turn among those for peer, which is
// empty for what is done for this host itself.
func (m *mirrorDeeds) start(ctx context.Context, k mirror.Key, peer string, deed func(context.Context)) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.busy[k] || m.busy[mirror.Key{DomainID: k.DomainID}] || (k.FlowID == uuid.Nil && m.busyIn(k.DomainID)) {
		return false
	}
	m.busy[k] = true
	place := m.places.ask(peer)
	m.wg.Go(func() {
		defer m.wake()
		defer func() {
			m.mu.Lock()
			delete(m.busy, k)
			m.mu.Unlock()
		}()
		defer place.leave()
		select {
		case <-place.ready:
			deed(ctx)
		case <-ctx.Done():
		}
	})
	return true
}

func (m *mirrorDeeds) busyIn(domainID string) bool {
	for k := range m.busy {
		if k.DomainID == domainID {
			return true
		}
	}
	return false
}

// ensure makes the mirror of an origin, or opens it, and says whether it began.
// A definition that differs from the one on disk replaces the mirror at once,
// readers or not: the old layout is wrong for them too (contract, "Rebuild
// rules"). A mirror that was lost again and again rests in between.
func (m *mirrorDeeds) ensure(ctx context.Context, o mirror.Origin) bool {
	if m.resting(o.Key) {
		return false
	}
	return m.start(ctx, o.Key, o.SourceHost, func(ctx context.Context) {
		f, created, err := m.room.EnsureFlow(o)
		var differs *mirror.DiffersError
		if errors.As(err, &differs) {
			m.log.Warn("mirror_definition_changed", "domain_id", o.DomainID, "flow_id", o.FlowID, "peer", o.SourceHost, "error", err)
			m.halt(o.Key)
			if differs.Damaged == nil {
				m.note(o.Key, mirror.OriginConfigChanged)
			}
			var rebuilt mirror.Rebuilt
			rebuilt, err = m.room.ReplaceFlow(ctx, o)
			f, created = rebuilt.Flow, err == nil
			if err != nil && m.room.Held(o.Key) != nil {
				m.note(o.Key, "") // it failed before anything was removed
			}
		}
		if created {
			m.log.Info("mirror_created", "domain_id", o.DomainID, "flow_id", o.FlowID, "peer", o.SourceHost)
		}
		m.outcome(o.Key, "mirror_writer_failed", err)
		m.made(o.Key, err)
		m.set(o.Key, f)
	})
}

// removeFlow removes one mirror flow. done hears how it went.
func (m *mirrorDeeds) removeFlow(ctx context.Context, k mirror.Key, reason mirror.Reason, missing time.Duration, done func(error)) {
	m.start(ctx, k, "", func(ctx context.Context) {
		m.halt(k)
		m.note(k, reason)
		removal, err := m.room.RemoveFlow(ctx, k, reason)
		if err != nil {
			m.note(k, "")
			m.blocked(k, err)
			m.outcome(k, "mirror_flow_remove_failed", obstacle(err))
		} else {
			removal.LogFlow(m.log, missing)
			m.outcome(k, "", nil)
		}
		m.set(k, m.room.Held(k))
		done(err)
	})
}

// removeDomain removes a whole mirror domain with these flows. done hears how it
// went; it is not called when another deed is at work, and the answer is false.
func (m *mirrorDeeds) removeDomain(ctx context.Context, domainID string, flows []mirror.Key, reason mirror.Reason, done func(mirror.Removal, error)) bool {
	k := mirror.Key{DomainID: domainID}
	return m.start(ctx, k, "", func(ctx context.Context) {
		m.halt(k)
		for _, f := range flows {
			m.note(f, reason.ForFlow())
		}
		removal, err := m.room.RemoveDomain(ctx, domainID, reason)
		if err != nil {
			m.kept(k, flows, removal)
			m.blocked(k, err)
			m.outcome(k, "mirror_domain_remove_failed", obstacle(err))
		} else {
			removal.LogDomain(m.log)
			m.outcome(k, "", nil)
		}
		for _, f := range flows {
			m.set(f, m.room.Held(f))
		}
		done(removal, err)
	})
}

// kept follows a removal of a domain that failed: the flows it did not take are
// there as before, those it took are gone for its reason.
func (m *mirrorDeeds) kept(k mirror.Key, flows []mirror.Key, removal mirror.Removal) {
	for _, f := range flows {
		if !removal.Took(f) {
			m.note(f, "")
		}
	}
	removal.Reason = removal.Reason.ForFlow()
	removal.LogFlow(m.log, 0)
}

// obstacle is what is logged of a failed removal here; nothing of one that readers
// refused, which has an event of its own.
func obstacle(err error) error {
	if errors.Is(err, mirror.ErrBusy) {
		return nil
	}
	return err
}

// rebuildFlow makes a mirror flow anew from its own definition, readers or not.
// done hears how it went; it is not called when the answer is false.
func (m *mirrorDeeds) rebuildFlow(ctx context.Context, k mirror.Key, done func(mirror.Rebuilt, error)) bool {
	return m.start(ctx, k, "", func(ctx context.Context) {
		m.halt(k)
		m.note(k, mirror.TestHook)
		rebuilt, err := m.room.RebuildFlow(ctx, k)
		if err != nil && m.room.Held(k) != nil {
			m.note(k, "") // it failed before anything was removed
		}
		m.outcome(k, "mirror_writer_failed", err)
		m.set(k, m.room.Held(k))
		done(rebuilt, err)
	})
}

// unmade is why a mirror flow could not be made, empty when there is one, or it is not
// known yet.
func (m *mirrorDeeds) unmade(k mirror.Key) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.held[k] != nil {
		return ""
	}
	return m.failed[k]
}

// outcome logs a failure when it is another one than before.
func (m *mirrorDeeds) outcome(k mirror.Key, event string, err error) {
	m.mu.Lock()
	before := m.failed[k]
	if err == nil {
		delete(m.failed, k)
		m.mu.Unlock()
		return
	}
	m.failed[k] = err.Error()
	m.mu.Unlock()
	switch {
	case before == err.Error():
	case k.FlowID == uuid.Nil:
		m.log.Warn(event, "domain_id", k.DomainID, "error", err)
	default:
		m.log.Warn(event, "domain_id", k.DomainID, "flow_id", k.FlowID, "error", err)
	}
}

// wait returns when every deed has ended.
func (m *mirrorDeeds) wait() { m.wg.Wait() }
