package nmos

import (
	"errors"
	"testing"
	"time"
)

// story drives a view by hand: seconds since the start are its clock.
type story struct {
	t     *testing.T
	v     *view
	epoch uint64
	alive bool
}

func newStory(t *testing.T, own bool) *story {
	s := &story{t: t, v: newView(12*time.Second, 30*time.Second, "own")}
	if !own {
		s.v.ownNodeID = ""
	}
	return s
}

func at(sec float64) time.Time {
	return time.Unix(1_000_000, 0).Add(time.Duration(sec * float64(time.Second)))
}

func list(own, node bool) (lists [kinds][]resource) {
	if own {
		lists[kindNode] = append(lists[kindNode], resource{id: "own", node: &nodeFacts{}})
	}
	if node {
		lists[kindNode] = append(lists[kindNode], resource{id: "n", node: &nodeFacts{label: "n"}})
		lists[kindDevice] = []resource{{id: "d", device: &deviceFacts{nodeID: "n"}}}
		lists[kindReceiver] = []resource{{id: "r", receiver: &receiverFacts{deviceID: "d", mxl: true}}}
	}
	return lists
}

func (s *story) pass(sec float64, own, node bool) touched {
	return s.v.applyPass(pass{base: "q", started: at(sec), lists: list(own, node)}, s.epoch, at(sec))
}

func (s *story) down(sec float64) {
	s.v.applyPass(pass{base: "q", err: errors.New("down")}, s.epoch, at(sec))
}

// has checks at a time whether the receiver is still known, and marked.
func (s *story) has(sec float64, known, stale bool) {
	s.t.Helper()
	s.v.expire(at(sec), func(string) bool { return s.alive })
	if got := s.v.entries[kindReceiver]["r"] != nil; got != known {
		s.t.Errorf("at %v s: receiver known %t, want %t", sec, got, known)
	}
	if got := s.v.stale(); got != stale {
		s.t.Errorf("at %v s: stale %t, want %t", sec, got, stale)
	}
}

func TestViewRemovedFromACalmRegistry(t *testing.T) {
	s := newStory(t, true)
	s.alive = true // a node that still answers does not keep what was removed
	s.pass(0, true, true)
	s.pass(100, true, false)
	s.has(100, true, true)
	s.has(111.9, true, true)
	s.has(112, false, false)
}

func TestViewRemovedSoonAfterStart(t *testing.T) {
	s := newStory(t, true)
	s.pass(0, true, true)
	s.pass(5, true, false)
	s.has(29.9, true, true)
	s.has(30, false, false)
}

func TestViewWithoutOwnNodeHoldsLonger(t *testing.T) {
	s := newStory(t, false)
	s.pass(0, false, true)
	lists := list(true, false) // somebody else's node stays
	s.v.applyPass(pass{base: "q", started: at(100), lists: lists}, 0, at(100))
	s.has(129.9, true, true)
	s.has(130, false, false)
}

func TestViewOutageKeepsEverything(t *testing.T) {
	s := newStory(t, true)
	s.pass(0, true, true)
	s.down(10)
	s.has(10, true, true)
	s.has(100_000, true, true)
	s.pass(100_000, true, true)
	s.has(100_000, true, false)
}

func TestViewEmptyRegistryKeepsEverything(t *testing.T) {
	s := newStory(t, true)
	s.pass(0, true, true)
	for sec := 50.0; sec < 5000; sec += 50 {
		s.pass(sec, false, false)
		s.has(sec, true, true)
	}
	s.pass(5001, true, true)
	s.has(5001, true, false)
}

func TestViewRestartedRegistry(t *testing.T) {
	for name, restart := range map[string]func(s *story){
		"down for a minute": func(s *story) { s.down(50); s.pass(99, true, false) },
		"seen empty":        func(s *story) { s.pass(98, false, false); s.pass(99, true, false) },
		"own node away":     func(s *story) { s.pass(98, false, true); s.pass(99, true, false) },
		"registered anew":   func(s *story) { s.epoch++; s.pass(99, true, false) },
		"lost between the lists of a pass": func(s *story) {
			lists := list(true, true)
			lists[kindReceiver] = nil
			s.v.applyPass(pass{base: "q", started: at(97), lists: lists}, s.epoch, at(97))
			s.pass(98, false, false)
			s.pass(99, true, false)
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStory(t, true)
			s.pass(0, true, true)
			restart(s)
			s.has(99, true, true)
			s.has(99+29.9, true, true) // others have 30 s to come back
			s.pass(99+20, true, true)
			s.has(99+40, true, false)

			s = newStory(t, true)
			s.alive = true
			s.pass(0, true, true)
			restart(s)
			s.has(99+1000, true, true) // forgotten, but its node answers
			s.alive = false
			s.has(99+1001, false, false)
		})
	}
}

func TestViewFailOver(t *testing.T) {
	s := newStory(t, true)
	s.pass(0, true, true)
	s.v.applyPass(pass{base: "other", started: at(100), lists: list(true, false)}, 0, at(100))
	s.has(129.9, true, true)
	s.has(130, false, false)
}

func TestViewMessages(t *testing.T) {
	s := newStory(t, true)
	s.pass(0, true, true)
	receiver := func(label string) change {
		return change{res: resource{id: "r", receiver: &receiverFacts{deviceID: "d", mxl: true, label: label}}}
	}
	removed := change{res: resource{id: "r"}, removed: true}
	// Removal and addition in one message, in array order.
	if got := s.v.applyMessage(message{kindReceiver, []change{removed, receiver("x")}, nil}, at(100)); !got["r"] || len(got) != 1 {
		t.Errorf("touched %v", got)
	}
	s.has(100, true, false)
	// An unchanged entry asks for a read too: versions may be coarse.
	if got := s.v.applyMessage(message{kindReceiver, []change{receiver("x")}, nil}, at(101)); !got["r"] {
		t.Error("an entry with an equal receiver was taken for nothing")
	}
	// A pass that started before a message does not undo it.
	s.v.applyMessage(message{kindReceiver, []change{removed}, nil}, at(110))
	s.v.applyPass(pass{base: "q", started: at(109), lists: list(true, true)}, 0, at(111))
	s.has(111, true, true)
	s.v.applyMessage(message{kindReceiver, []change{receiver("y")}, nil}, at(112))
	s.v.applyPass(pass{base: "q", started: at(111.5), lists: list(true, false)}, 0, at(113))
	if e := s.v.entries[kindReceiver]["r"]; e == nil || !e.missing.IsZero() || e.res.receiver.label != "y" {
		t.Errorf("entry %+v", e)
	}
	// What a message removed in a calm registry goes after the hold.
	s.pass(114, true, true)
	s.v.applyMessage(message{kindReceiver, []change{removed}, nil}, at(200))
	s.has(211, true, true)
	s.has(212, false, false)
	// Bad and unknown entries change nothing.
	s.v.applyMessage(message{kindReceiver, []change{{res: resource{id: "q", bad: true}}, {res: resource{id: "z"}, removed: true}}, nil}, at(213))
	if len(s.v.entries[kindReceiver]) != 0 {
		t.Error("a bad or removed entry was taken up")
	}
}

func TestViewBadEntryKeepsWhatWasKnown(t *testing.T) {
	s := newStory(t, true)
	s.pass(0, true, true)
	lists := list(true, true)
	lists[kindReceiver] = []resource{{id: "r", bad: true}, {bad: true}}
	s.v.applyPass(pass{base: "q", started: at(100), lists: lists}, 0, at(100))
	s.has(1000, true, false)
}

func TestViewChangedControlsAskForReads(t *testing.T) {
	s := newStory(t, true)
	if got := s.pass(0, true, true); !got["r"] {
		t.Error("a new receiver is not read")
	}
	if got := s.pass(1, true, true); len(got) != 0 {
		t.Errorf("nothing changed, but %v is read", got)
	}
	d := change{res: resource{id: "d", device: &deviceFacts{nodeID: "n", controls: []control{{2, "http://h"}}}}}
	if got := s.v.applyMessage(message{kindDevice, []change{d}, nil}, at(2)); !got["r"] {
		t.Error("another control href is not read")
	}
}
