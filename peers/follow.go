package peers

import (
	"context"
	"encoding/json"
	"strconv"
	"time"
)

const (
	followFirst = time.Second
	followMost  = 60 * time.Second
)

// follow listens to one peer's events and polls sooner on them. A peer
// without a useful stream costs an attempt a minute and is only polled.
func (t *Table) follow(ctx context.Context, e *entry, controlURL string) {
	wait := followFirst
	for pause(ctx, wait, nil) {
		if !t.peerOf(e).Up {
			wait = followFirst
			continue
		}
		ears := listener{heard: make(map[string]string)}
		got := false
		// The reason of an end is of no use: the poll tells whether the peer
		// is up, and it goes on without the stream.
		_ = t.cfg.Client.Follow(ctx, controlURL, func(event Event) {
			got = true
			if ears.wants(event, t.peerOf(e)) {
				wake(e.sooner)
			}
		})
		wait = min(2*wait, followMost)
		if got {
			wait = followFirst
		}
	}
}

func (t *Table) peerOf(e *entry) Peer {
	t.mu.Lock()
	defer t.mu.Unlock()
	return e.peer
}

// listener decides which events are news.
type listener struct {
	heard map[string]string // event name, or replication id, to what it last said
}

// maxHeard bounds the memory of a stream that keeps inventing ids.
const maxHeard = 4096

// wants reports whether an event is a reason to poll the peer now. An
// original repeats its revision on every pass and publishes every repeated
// handshake; only what differs from what is known counts.
func (l *listener) wants(e Event, p Peer) bool {
	switch e.Name {
	case "inventory":
		if revision, err := strconv.ParseUint(e.Data, 10, 64); err == nil && p.Inventory != nil {
			return revision != p.Inventory.Revision
		}
		return l.news(e.Name, e.Data)
	case "peer":
		return l.news(e.Name, e.Data)
	case "replication":
		a, err := ParseReplicationAnswer(json.RawMessage(e.Data))
		if err != nil {
			return false
		}
		return l.news("replication/"+a.ReplicationID, a.State+" "+a.Error)
	}
	return false
}

func (l *listener) news(about, said string) bool {
	if before, ok := l.heard[about]; ok && before == said {
		return false
	}
	if len(l.heard) >= maxHeard {
		clear(l.heard)
	}
	l.heard[about] = said
	return true
}
