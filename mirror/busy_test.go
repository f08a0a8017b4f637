package mirror

import (
	"errors"
	"testing"
	"time"
)

// Readers that only the check right before the deed meets are told as those of any
// other check are: by the contract's name, once while they are the same.
func TestReadersThatTheLastCheckMeetsAreTold(t *testing.T) {
	for _, whole := range []bool{true, false} {
		w, o, _ := warm(t)
		p, kind, k := w.peer(testSource), EventFlowKept, o.Key
		if whole {
			p.flows, p.domains = nil, nil
			kind, k = EventDomainBusy, Key{DomainID: o.DomainID}
		} else {
			delete(p.flows, o.Key)
			w.run(w.set.IdleGrace - 10*time.Second)
		}
		unseen := func(passes, pid int) {
			for range passes { // each reader check is made before the reader maps it
				w.now = w.now.Add(2 * time.Second)
				w.proc.remove(7)
				w.report, w.checked = w.check.scan(t.Context(), w.room.Watched(), true), w.now.Add(time.Hour)
				w.read(o.Key, pid)
				w.pass()
				w.now = w.now.Add(200 * time.Millisecond)
				w.pass()
			}
		}
		unseen(12, 7)
		if w.inode(o.Key) == 0 || w.refused < 2 || w.count(kind, k) != 1 {
			t.Fatalf("whole domain %v: refused %d times, told %d times", whole, w.refused, w.count(kind, k))
		}
		for _, e := range w.events {
			if e.Kind == kind && (pidList(e.Readers) != "7 (player)" || e.Why != "" || e.Reason == "") {
				t.Errorf("%+v", e)
			}
		}
		w.checked = time.Time{}
		w.run(4 * time.Second) // and now it does
		if w.count(kind, k) != 1 {
			t.Errorf("whole domain %v: told again by the next check", whole)
		}
		unseen(2, 8)
		if w.count(kind, k) != 2 {
			t.Errorf("whole domain %v: another reader, told %d times", whole, w.count(kind, k))
		}
	}
}

// A removal that fails for something else is no refusal by readers.
func TestAFailedRemovalIsNotBusy(t *testing.T) {
	w, o, _ := warm(t)
	w.books.Blocked(Key{DomainID: o.DomainID}, errors.New("device or resource busy"))
	w.books.Blocked(o.Key, errors.New("device or resource busy"))
	w.run(time.Second)
	if n := w.count(EventDomainBusy, Key{DomainID: o.DomainID}) + w.count(EventFlowKept, o.Key); n != 0 {
		t.Errorf("%d events", n)
	}
}
