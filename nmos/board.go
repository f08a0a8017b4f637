package nmos

import (
	"cmp"
	"maps"
	"slices"
	"sync"
)

// board is what the observer tells. Its owner posts what changed; whoever reads pays
// for one list of all receivers, once for however many changes there were.
type board struct {
	mu        sync.Mutex
	head      Snapshot             // everything but the receivers
	receivers []Receiver           // sorted by id; not written to once it was read
	pending   map[string]*Receiver // not in receivers yet; nil: not there any more
}

// post replaces the head and the rows that changed, nil for one that has gone.
func (b *board) post(head Snapshot, rows map[string]*Receiver) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.head = head
	if b.pending == nil {
		b.pending = rows
	} else {
		maps.Copy(b.pending, rows)
	}
	const most = 1024 // nobody may be reading
	if len(b.pending) > most+len(b.receivers) {
		b.settle()
	}
}

// read is what is known now.
func (b *board) read() Snapshot {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.settle()
	s := b.head
	s.Receivers = b.receivers
	return s
}

// settle brings the list up to date. b.mu is held.
func (b *board) settle() {
	if len(b.pending) == 0 {
		return
	}
	ids := slices.Sorted(maps.Keys(b.pending))
	list := make([]Receiver, 0, len(b.receivers)+len(ids))
	rest := b.receivers
	for _, id := range ids {
		at, there := slices.BinarySearchFunc(rest, id, func(r Receiver, id string) int { return cmp.Compare(r.ID, id) })
		list = append(list, rest[:at]...)
		if row := b.pending[id]; row != nil {
			list = append(list, *row)
		}
		if rest = rest[at:]; there {
			rest = rest[1:]
		}
	}
	b.receivers, b.pending = append(list, rest...), nil
}
