package agent

import (
	"errors"
	"testing"

	"github.com/mxl-stack/mxl-fabrics-agent/fabrics"
)

// An origin that came back with another geometry: the lane that is open knows the
// old one and refuses the target of the new mirror.
func TestRenewedLane(t *testing.T) {
	refused := errors.New("regions[0].len")
	for name, spoil := range map[string]func(*fakeLane){
		"target refused": func(l *fakeLane) { l.refuse = refused },
		"lane failed":    func(l *fakeLane) { l.lane = fabrics.StateError },
	} {
		b := newSourceBench()
		b.mustAsk(t, "b", 1, overTCP("192.0.2.1"))
		b.mustAsk(t, "c", 1, overTCP("192.0.2.1"))
		spoil(b.opened[0])
		b.mustAsk(t, "b", 2, overTCP("192.0.2.1"))
		if len(b.opened) != 2 || !b.opened[0].closed || b.opened[1].targets["b"] != 2 || b.ended != 1 {
			t.Fatalf("%s: %d lanes, %+v", name, len(b.opened), b.opened[0])
		}
		b.mustAsk(t, "c", 2, overTCP("192.0.2.1"))
		if len(b.opened) != 2 || b.opened[1].targets["c"] != 2 || len(b.list()) != 2 {
			t.Errorf("%s: the other destination was left behind", name)
		}
		// Nothing helps a target that the flow of this moment does not suit either.
		for range 3 {
			b.opened[1].refuse = refused
			b.next = func(l *fakeLane) { l.refuse = refused }
			if _, err := b.ask(request("b", "info"), "/dom", fabrics.TargetInfo{ID: 3, Provider: "tcp"}, overTCP("192.0.2.1")); !errors.Is(err, refused) {
				t.Errorf("%s: %v", name, err)
			}
		}
		if len(b.opened) != 2 {
			t.Errorf("%s: %d lanes within %v", name, len(b.opened), renewEvery)
		}
		b.now = b.now.Add(renewEvery)
		if _, err := b.ask(request("b", "info"), "/dom", fabrics.TargetInfo{ID: 3, Provider: "tcp"}, overTCP("192.0.2.1")); !errors.Is(err, refused) {
			t.Errorf("%s: %v", name, err)
		}
		if len(b.opened) != 3 || !b.opened[2].closed || b.opened[1].closed {
			t.Errorf("%s: %d lanes, a useless one stayed or a good one went", name, len(b.opened))
		}
	}
}
