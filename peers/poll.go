package peers

import (
	"context"
	"time"
)

// pollGap is the least time between two polls of one peer, whatever its
// events say: an original publishes an event on every pass of 200 ms.
const pollGap = 200 * time.Millisecond

// A peer that stops answering restarts more often than not, and every flow from it
// waits for the poll that finds it again: it is asked every downGap for
// downPatience, and at the interval after that.
const (
	downGap      = 250 * time.Millisecond
	downPatience = 15 * time.Second
)

// nextPoll is the time from the end of one poll to the next; goodAt is when the
// peer last answered, or was first asked.
func nextPoll(interval time.Duration, failed bool, goodAt, now time.Time) time.Duration {
	if failed && now.Sub(goodAt) < downPatience {
		return max(pollGap, min(interval, downGap))
	}
	return max(pollGap, interval)
}

// reading is what one poll brought; err belongs to either request.
type reading struct {
	info      Info
	inventory *Inventory
	err       error
	at        time.Time // when the inventory arrived, or the poll failed
}

// poll asks one peer until ctx is done.
func (t *Table) poll(ctx context.Context, e *entry, controlURL string) {
	goodAt := time.Now()
	for {
		began := time.Now()
		r := t.ask(ctx, controlURL)
		if ctx.Err() != nil {
			return
		}
		if t.cfg.Polled != nil {
			t.cfg.Polled(e.hostID, time.Since(began), r.err)
		}
		t.take(e, r)
		if !pause(ctx, pollGap, nil) {
			return
		}
		if r.err == nil {
			goodAt = r.at
		}
		t.mu.Lock()
		rest := nextPoll(t.interval, r.err != nil && controlURL != "", goodAt, time.Now()) - pollGap
		t.mu.Unlock()
		if !pause(ctx, rest, e.sooner) {
			return
		}
	}
}

// pause waits for d or for a value, and reports false when ctx is done.
func pause(ctx context.Context, d time.Duration, sooner <-chan struct{}) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
	case <-sooner:
	}
	return true
}

func (t *Table) ask(ctx context.Context, controlURL string) (r reading) {
	if controlURL == "" {
		return reading{err: ErrNoControlURL, at: time.Now()}
	}
	r.info, r.err = t.cfg.Client.Info(ctx, controlURL)
	if r.err == nil {
		r.inventory, r.err = t.cfg.Client.Inventory(ctx, controlURL)
	}
	r.at = time.Now()
	return r
}

// Polled is the peer after one more poll, which ended at that moment (agent API
// reference §9.3); err belongs to either request. The table does this for each poll.
func (p *Peer) Polled(info Info, inventory *Inventory, err error, at time.Time) Peer {
	return advance(*p, reading{info, inventory, err, at})
}

// advance is Polled with what a poll brought.
func advance(p Peer, r reading) Peer {
	p.PolledAt = r.at
	if r.err != nil {
		p.Error = r.err.Error()
		p.Up, p.UpSince, p.Settled = false, time.Time{}, false
		if p.UnsettledSince.IsZero() {
			p.UnsettledSince = r.at
		}
		return p
	}
	wasUp, lastBoot := p.Up, p.BootID
	restarted := lastBoot != "" && r.info.BootID != "" && r.info.BootID != lastBoot
	if p.Inventory != nil && p.Inventory.Revision != 0 && r.inventory.Revision < p.Inventory.Revision {
		restarted = true
	}
	if restarted || p.Incarnation == 0 {
		p.Incarnation++
	}
	p.Up, p.Error = true, ""
	if !wasUp {
		p.UpSince = r.at
	}
	if r.info.BootID != "" {
		p.BootID = r.info.BootID
	}
	// A source older than the 503 answers revision 0 before its first scan.
	p.Settled = wasUp && !restarted && r.info.BootID == lastBoot && r.inventory.Revision >= 1
	switch {
	case p.Settled:
		p.UnsettledSince = time.Time{}
	case p.UnsettledSince.IsZero():
		p.UnsettledSince = r.at
	}
	p.Info, p.Inventory, p.ReceivedAt = r.info, r.inventory, r.at
	return p
}

func (t *Table) take(e *entry, r reading) {
	t.mu.Lock()
	if t.entries[e.peer.HostID] != e {
		t.mu.Unlock()
		return
	}
	if r.err == nil {
		size, err := t.roomFor(e, r.inventory)
		if err != nil {
			r = reading{err: err, at: r.at}
		} else {
			e.held = size
		}
	}
	before := e.peer
	e.peer = advance(before, r)
	if r.err == nil {
		e.peer.Warning = identityDoubt(e.hostID, t.cfg.HostID, t.cfg.BootID, r.info)
	}
	after := e.peer
	var fresh []Problem
	if r.err == nil {
		fresh = e.unnamed(r.inventory.Problems)
	}
	t.mu.Unlock()
	t.tell(before, after, fresh)
	if differs(before, after) {
		wake(t.changed)
	}
}

// differs says whether a poll brought more than newer heads. Those are read with
// the next look at the table: twenty peers must not cause a look each.
func differs(before, after Peer) bool {
	revision := func(p Peer) uint64 {
		if p.Inventory == nil {
			return 0
		}
		return p.Inventory.Revision
	}
	return before.Up != after.Up || before.Error != after.Error || before.Warning != after.Warning || before.BootID != after.BootID || before.Settled != after.Settled ||
		before.Incarnation != after.Incarnation || revision(before) != revision(after) || after.Up && revision(after) == 0
}

// unnamed picks the problems that the log does not have yet and forgets those
// that are gone, so that each is named once while it lasts.
func (e *entry) unnamed(problems []Problem) (fresh []Problem) {
	now := make(map[Problem]bool, len(problems))
	for _, p := range problems {
		if !e.problems[p] && !now[p] {
			fresh = append(fresh, p)
		}
		now[p] = true
	}
	e.problems = now
	return fresh
}

func (t *Table) tell(before, after Peer, problems []Problem) {
	log := t.cfg.Log
	switch {
	case after.Up && !before.Up:
		log.Info("peer_up", "peer", after.HostID, "boot_id", after.BootID)
	case !after.Up && (before.Up || before.Error != after.Error):
		log.Warn("peer_down", "peer", after.HostID, "error", after.Error)
	}
	if before.Incarnation != 0 && after.Incarnation != before.Incarnation {
		log.Info("peer_restarted", "peer", after.HostID, "boot_id", after.BootID)
	}
	t.tellIdentity(before, after)
	for _, p := range problems {
		log.Warn("peer_record_invalid", "peer", after.HostID, "domain_id", p.DomainID, "flow_id", p.FlowID, "error", p.Reason)
	}
}
