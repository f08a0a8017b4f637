package logging

import (
	"sync"
	"time"
)

// Limiter lets at most one line per interval and key through and counts the
// others: for what can happen as often as a peer or a disk likes.
type Limiter struct {
	interval time.Duration

	mu   sync.Mutex
	keys map[string]*limited
}

type limited struct {
	next       time.Time
	suppressed uint64
}

// maxKeys bounds the memory of a limiter. Keys that have been quiet for an
// interval are forgotten first, all of them when that is not enough.
const maxKeys = 1024

// NewLimiter makes a Limiter; the agent's lines use one a second.
func NewLimiter(interval time.Duration) *Limiter {
	return &Limiter{interval: interval, keys: make(map[string]*limited)}
}

// Allow reports whether a line may be written now, and how many of the key
// were not since the last one that was.
func (l *Limiter) Allow(key string, now time.Time) (ok bool, suppressed uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	k := l.keys[key]
	if k == nil {
		l.makeRoom(now)
		k = new(limited)
		l.keys[key] = k
	}
	if now.Before(k.next) {
		k.suppressed++
		return false, 0
	}
	suppressed = k.suppressed
	k.suppressed, k.next = 0, now.Add(l.interval)
	return true, suppressed
}

func (l *Limiter) makeRoom(now time.Time) {
	if len(l.keys) < maxKeys {
		return
	}
	for key, k := range l.keys {
		if !now.Before(k.next) {
			delete(l.keys, key)
		}
	}
	if len(l.keys) >= maxKeys {
		clear(l.keys)
	}
}
