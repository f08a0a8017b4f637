package agent

import "testing"

func TestShown(t *testing.T) {
	for _, c := range []struct {
		name        string
		wish        pullFacts
		seen        destinationView
		state, says string
	}{
		{"link up", pullFacts{Wanted: true, LinkUp: true}, destinationView{State: stateActive, Grains: 7}, stateActive, ""},
		{"link just lost, the target still closes", pullFacts{Wanted: true, LinkReason: "no carrier on e1 (down)"},
			destinationView{State: stateActive, Grains: 7}, stateLinkDown, "no carrier on e1 (down)"},
		{"another error", pullFacts{Wanted: true, LinkReason: "no carrier on e1 (down)"},
			destinationView{State: stateError, Error: "x", Grains: 7}, stateLinkDown, "no carrier on e1 (down)"},
		{"known already", pullFacts{Wanted: true, LinkReason: "new"}, destinationView{State: stateLinkDown, Error: "old", Grains: 7}, stateLinkDown, "old"},
		{"not wanted, without facts of the link", pullFacts{}, destinationView{State: stateActive, Grains: 7}, stateActive, ""},
	} {
		p := newPull(pullKey{}, pullDeps{})
		p.wish.Store(&pullWish{pullFacts: c.wish})
		p.seen.Store(&c.seen)
		before := c.seen.State
		if v := p.shown(); v.State != c.state || v.Error != c.says || v.Grains != 7 {
			t.Errorf("%s: %s %q", c.name, v.State, v.Error)
		}
		if p.seen.Load().State != before {
			t.Errorf("%s: the pull's own view has changed", c.name)
		}
	}
}
