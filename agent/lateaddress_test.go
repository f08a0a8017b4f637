package agent

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/mxl-stack/mxl-fabrics-agent/fabrics"
	"github.com/mxl-stack/mxl-fabrics-agent/peers"
)

var errNoInterface = fmt.Errorf("provider verbs %w for 192.0.2.1", fabrics.ErrNoInterface)

// lateRig is lateAddresses over made-up facts. Looks run when their turn comes.
type lateRig struct {
	*lateAddresses
	clock    time.Time
	up       peers.Link
	rescans  int
	found    error // what a rescan says
	sees     bool  // what another process says
	looks    int
	pending  []func()
	lines    bytes.Buffer
	opens    int
	openErrs []error // of the opens in order, the last one for ever
}

func newLateRig(canRescan bool) *lateRig {
	r := &lateRig{clock: time.Unix(1_000_000, 0), up: peers.Link{Up: true, Interface: "e1"}, openErrs: []error{errNoInterface}}
	r.lateAddresses = &lateAddresses{
		canRescan: canRescan, version: "1.17",
		rescan: func(fabrics.Provider, string) error { r.rescans++; return r.found },
		look:   func(context.Context, fabrics.Provider, string) bool { r.looks++; return r.sees },
		link:   func(string) peers.Link { return r.up },
		now:    func() time.Time { return r.clock }, spawn: func(f func()) { r.pending = append(r.pending, f) },
		log:  slog.New(slog.NewJSONHandler(&r.lines, nil)),
		said: map[lateAddress]string{}, late: map[lateAddress]*lateState{}, tried: map[string]bool{},
	}
	return r
}

func (r *lateRig) try() error {
	return r.open(fabrics.Verbs, "192.0.2.1", func() error {
		err := r.openErrs[min(r.opens, len(r.openErrs)-1)]
		r.opens++
		return err
	})
}

// pass is one pass of the loop, and the looks that it started.
func (r *lateRig) pass(t *testing.T) []lateAddress {
	visible := r.tend(t.Context(), func() {})
	for _, f := range r.pending {
		f()
	}
	r.pending = nil
	return visible
}

func TestLateAddressIsRescanned(t *testing.T) {
	r := newLateRig(true)
	r.openErrs = []error{errNoInterface, nil}
	if err := r.try(); err != nil || r.rescans != 1 || r.opens != 2 {
		t.Errorf("%v, %d rescans, %d opens", err, r.rescans, r.opens)
	}
	if line := r.lines.String(); !strings.Contains(line, `"msg":"fabric_interfaces_rescanned","provider":"verbs","address":"192.0.2.1","interface":"e1","status":"found"`) {
		t.Errorf("log %q", line)
	}
	// Not again within 5 s, and what does not change is said once.
	r = newLateRig(true)
	r.found = errNoInterface
	for range 20 {
		if err := r.try(); !errors.Is(err, fabrics.ErrNoInterface) {
			t.Error(err)
		}
		r.clock = r.clock.Add(time.Second)
	}
	if r.rescans != 4 || strings.Count(r.lines.String(), "\n") != 1 || !strings.Contains(r.lines.String(), "has no interface for 192.0.2.1") {
		t.Errorf("%d rescans in 20 s, log %s", r.rescans, &r.lines)
	}
	if visible := r.pass(t); len(visible) != 0 || r.looks != 0 {
		t.Errorf("%v would be found by a restart, %d looks", visible, r.looks)
	}
}

func TestNothingIsRescannedFor(t *testing.T) {
	for name, change := range map[string]func(*lateRig){
		"another error":         func(r *lateRig) { r.openErrs = []error{errors.New("port is in use")} },
		"no error":              func(r *lateRig) { r.openErrs = []error{nil} },
		"no carrier":            func(r *lateRig) { r.up = peers.Link{Error: "no carrier on e1 (down)", Interface: "e1"} },
		"no such address":       func(r *lateRig) { r.up = peers.Link{Error: "source interface unavailable"} },
		"no address configured": func(r *lateRig) { r.up = peers.Link{Up: true} },
	} {
		for _, canRescan := range []bool{true, false} {
			r := newLateRig(canRescan)
			change(r)
			if err := r.try(); r.openErrs[0] != err || r.rescans != 0 || r.opens != 1 {
				t.Errorf("%s: %v, %d rescans, %d opens", name, err, r.rescans, r.opens)
			}
			if visible := r.pass(t); visible != nil || r.looks != 0 {
				t.Errorf("%s: %v visible, %d looks", name, visible, r.looks)
			}
		}
	}
}

// Without another look in this process, one that begins now is asked; only when
// that finds the address a restart is worth anything.
func TestLateAddressIsLookedForFromOutside(t *testing.T) {
	r := newLateRig(false)
	for range 100 { // 100 s of set-ups that fail
		if err := r.try(); err != errNoInterface {
			t.Fatal(err)
		}
		if visible := r.pass(t); visible != nil {
			t.Fatalf("%v visible", visible)
		}
		r.clock = r.clock.Add(time.Second)
	}
	if r.looks != 5 { // at 0, 5, 15, 35, 75 s
		t.Errorf("%d looks", r.looks)
	}
	r.clock = r.clock.Add(lateForgotten / 2)
	r.sees = true
	if err := r.try(); err != errNoInterface {
		t.Error(err)
	}
	r.clock = r.clock.Add(lateForgotten)
	r.try()
	r.pass(t)
	visible := r.pass(t)
	if len(visible) != 1 || visible[0] != (lateAddress{fabrics.Verbs, "192.0.2.1", "e1"}) || r.looks != 6 {
		t.Errorf("%v visible, %d looks", visible, r.looks)
	}
	if err := r.try(); !errors.Is(err, fabrics.ErrNoInterface) || !strings.Contains(err.Error(), "restarts itself in place once no flow is running") {
		t.Error(err)
	}
	// Nobody asks for it any more.
	r.clock = r.clock.Add(lateForgotten + 1)
	if visible := r.pass(t); visible != nil {
		t.Errorf("%v visible", visible)
	}
}

// A restart that did not help is not repeated before the address was away.
func TestRestartIsTriedOnce(t *testing.T) {
	r := newLateRig(false)
	r.sees = true
	r.restarted([]string{"192.0.2.1"})
	r.try()
	r.pass(t)
	if visible := r.pass(t); visible != nil || len(r.without()) != 1 {
		t.Errorf("%v visible, %v tried", visible, r.without())
	}
	if err := r.try(); !strings.Contains(err.Error(), "a restart did not help") {
		t.Error(err)
	}
	r.up = peers.Link{Error: "gone"}
	r.pass(t)
	r.up = peers.Link{Up: true, Interface: "e1"}
	r.try()
	r.pass(t)
	if visible := r.pass(t); len(visible) != 1 {
		t.Errorf("%v visible", visible)
	}
}

func TestRestartStep(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	late := []lateAddress{{fabrics.Verbs, "192.0.2.1", "e1"}}
	for _, c := range []struct {
		name  string
		facts restartFacts
		due   bool
		waits string
	}{
		{"nothing to find", restartFacts{}, false, ""},
		{"nothing to find, flows run", restartFacts{MovedAt: now}, false, ""},
		{"quiet from the start", restartFacts{Visible: late}, true, ""},
		{"quiet for long", restartFacts{Visible: late, MovedAt: now.Add(-restartQuiet)}, true, ""},
		{"a flow runs", restartFacts{Visible: late, MovedAt: now.Add(-restartQuiet + 1)}, false, "flows are running"},
		{"just restarted", restartFacts{Visible: late, Last: now.Add(-restartEvery + 1)}, false, "the last restart in place was less than a minute ago"},
		{"restarted before the clock was set back", restartFacts{Visible: late, Last: now.Add(time.Hour)}, true, ""},
		{"restarted before", restartFacts{Visible: late, Last: now.Add(-restartEvery)}, true, ""},
		{"restarted before, a flow runs", restartFacts{Visible: late, Last: now.Add(-restartEvery), MovedAt: now}, false, "flows are running"},
	} {
		c.facts.Now = now
		due, waits := restartStep(c.facts)
		if due != c.due || !strings.HasPrefix(waits, c.waits) || c.waits == "" && waits != "" {
			t.Errorf("%s: %v %q", c.name, due, waits)
		}
	}
}

func TestRestartIsHandedOver(t *testing.T) {
	given := Restart{Count: 3, At: time.Unix(1_000_000, 5).UTC(), Reason: restartForRoot, Addresses: []string{"192.0.2.1", "2001:db8::1"}}
	before := []string{"A=1", restartVariable + "=old", "B=2"}
	_, clean := TakeRestart(before)
	environ, err := given.Give(clean)
	if err != nil || len(environ) != 3 || len(before) != 3 || before[1] != restartVariable+"=old" {
		t.Fatalf("%q, %v", environ, err)
	}
	got, rest := TakeRestart(environ)
	if fmt.Sprint(got) != fmt.Sprint(given) || fmt.Sprint(rest) != "[A=1 B=2]" {
		t.Errorf("%+v, %q", got, rest)
	}
	for _, text := range []string{"", "x", `{"count":"1"}`, `{"count":1,"at":"yesterday"}`, "[]"} {
		if got, rest := TakeRestart([]string{restartVariable + "=" + text}); got.Count != 0 || got.Addresses != nil || len(rest) != 0 {
			t.Errorf("%q: %+v, %q", text, got, rest)
		}
	}
}
