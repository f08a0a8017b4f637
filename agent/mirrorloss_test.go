package agent

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/mxl-stack/mxl-fabrics-agent/mirror"
)

// TestMirrorLossWaits: the first loss is answered at once, those that follow with the
// doubling back-off, and after a calm time the next one is the first again.
func TestMirrorLossWaits(t *testing.T) {
	now := time.Unix(1000, 0)
	var l mirrorLoss
	var waits []time.Duration
	for range 9 {
		l = l.again(now)
		waits = append(waits, l.wait.wait)
		if !l.wait.ready(now.Add(l.wait.wait)) || l.wait.wait > 0 && l.wait.ready(now.Add(l.wait.wait-1)) {
			t.Errorf("the wait of %v ends at another time", l.wait.wait)
		}
		now = now.Add(l.wait.wait + time.Second) // it is cut off a second after it is there again
	}
	const ms = time.Millisecond
	if want := []time.Duration{0, 500 * ms, 1000 * ms, 2000 * ms, 4000 * ms, 8000 * ms, 16000 * ms, 30000 * ms, 30000 * ms}; !slices.Equal(waits, want) {
		t.Errorf("waits %v, want %v", waits, want)
	}
	if l = l.again(now.Add(lossCalm)); l.wait.wait != 0 {
		t.Errorf("after a calm time it waits %v", l.wait.wait)
	}
}

func TestLoseAMirror(t *testing.T) {
	b := newDeedBench()
	clock := time.Unix(1000, 0)
	b.now = func() time.Time { return clock }
	woken := 0
	b.wake = func() { woken++ }
	cut := errors.New("data.3 has 0 bytes")
	// remake is what a pass does, and says whether it began.
	remake := func(inode uint64) bool {
		b.room.err, b.room.replaced = &mirror.DiffersError{Damaged: cut}, &mirror.Flow{Inode: inode}
		began := b.ensure(t.Context(), mirror.Origin{Key: b.key})
		b.wait()
		return began
	}
	inode := func() uint64 {
		if f, _ := b.flow(b.key); f != nil {
			return f.Inode
		}
		return 0
	}
	_, generation := b.flow(b.key)
	b.lose(b.key, generation+1, cut)
	b.lose(mirror.Key{DomainID: "other", FlowID: testFlow}, 0, cut)
	if inode() != 1 || woken != 0 {
		t.Fatalf("another writer was meant: inode %d, woken %d times", inode(), woken)
	}
	b.lose(b.key, generation, cut)
	b.lose(b.key, generation, cut)
	if inode() != 0 || woken != 1 {
		t.Fatalf("a lost flow is given out, inode %d, woken %d times", inode(), woken)
	}
	if !remake(2) || inode() != 2 || !slices.Equal(b.heard, []string{"halt"}) {
		t.Fatalf("not made anew at once: inode %d, heard %q", inode(), b.heard)
	}
	_, after := b.flow(b.key)
	if after == generation {
		t.Fatal("the new writer has the generation of the old one")
	}
	// Cut off again: it rests, and only it.
	b.lose(b.key, after, cut)
	if remake(3) || inode() != 0 || !b.resting(b.key) || b.resting(mirror.Key{DomainID: "other", FlowID: testFlow}) {
		t.Fatalf("made anew at once the second time: inode %d", inode())
	}
	clock = clock.Add(500 * time.Millisecond)
	if !remake(3) || inode() != 3 || b.resting(b.key) {
		t.Fatalf("not made anew after the wait: inode %d", inode())
	}
	// What is remembered of a loss goes with the next one after a calm time.
	clock = clock.Add(lossCalm)
	b.set(mirror.Key{DomainID: "other", FlowID: testFlow}, &mirror.Flow{Inode: 9})
	_, generation = b.flow(mirror.Key{DomainID: "other", FlowID: testFlow})
	b.lose(mirror.Key{DomainID: "other", FlowID: testFlow}, generation, cut)
	if len(b.losses) != 1 {
		t.Errorf("%d losses remembered", len(b.losses))
	}
}
