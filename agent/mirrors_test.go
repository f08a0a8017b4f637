package agent

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"testing"

	"github.com/google/uuid"

	"github.com/mxl-stack/mxl-fabrics-agent/mirror"
)

// fakeRoom is a mirror room that says what it is told to.
type fakeRoom struct {
	held     *mirror.Flow
	err      error        // of the next deed
	gone     []mirror.Key // that a removal of a domain took
	replaced *mirror.Flow
	named    []string      // "<domain> <host>"
	wait     chan struct{} // a removal waits for it, when not nil
}

func (r *fakeRoom) EnsureFlow(mirror.Origin) (*mirror.Flow, bool, error) { return r.held, false, r.err }
func (r *fakeRoom) Held(mirror.Key) *mirror.Flow                         { return r.held }
func (r *fakeRoom) RemoveFlow(_ context.Context, k mirror.Key, reason mirror.Reason) (mirror.Removal, error) {
	if r.err == nil {
		r.held = nil
	}
	return mirror.Removal{Flows: []mirror.Key{k}, Reason: reason}, r.err
}
func (r *fakeRoom) RemoveDomain(_ context.Context, id string, reason mirror.Reason) (mirror.Removal, error) {
	if r.wait != nil {
		<-r.wait
	}
	if r.err == nil {
		r.held = nil
	}
	return mirror.Removal{DomainID: id, Reason: reason, Flows: r.gone}, r.err
}
func (r *fakeRoom) ReplaceFlow(context.Context, mirror.Origin) (mirror.Rebuilt, error) {
	r.held = r.replaced
	return mirror.Rebuilt{Flow: r.replaced}, nil
}
func (r *fakeRoom) RebuildFlow(context.Context, mirror.Key) (mirror.Rebuilt, error) {
	if r.err != nil {
		return mirror.Rebuilt{}, r.err
	}
	r.held = r.replaced
	return mirror.Rebuilt{Flow: r.replaced, OldInode: 1}, nil
}

func (r *fakeRoom) NameSource(id, host string) (bool, error) {
	r.named = append(r.named, id+" "+host)
	return r.err == nil, r.err
}

// deedBench runs deeds one at a time and writes down what they told the loop.
type deedBench struct {
	*mirrorDeeds
	room  *fakeRoom
	key   mirror.Key
	heard []string // "halt", "note <reason>", "blocked <why>"

	isFull bool // what the last making of a flow told
}

func newDeedBench() *deedBench {
	b := &deedBench{
		room: &fakeRoom{held: &mirror.Flow{Inode: 1}, replaced: &mirror.Flow{Inode: 2}},
		key:  mirror.Key{DomainID: "dom", FlowID: testFlow},
	}
	b.mirrorDeeds = newMirrorDeeds(b.room, slog.New(slog.DiscardHandler))
	b.halt = func(mirror.Key) { b.heard = append(b.heard, "halt") }
	b.note = func(_ mirror.Key, r mirror.Reason) { b.heard = append(b.heard, "note "+string(r)) }
	b.blocked = func(_ mirror.Key, err error) { b.heard = append(b.heard, "blocked "+err.Error()) }
	b.made = func(_ mirror.Key, err error) { b.isFull = errors.Is(err, mirror.ErrNoSpace) }
	b.wake = func() {}
	b.set(b.key, b.room.held)
	return b
}

func TestDeeds(t *testing.T) {
	busy := &mirror.BusyError{Readers: []mirror.Reader{{PID: 7}}}
	inTheWay := &mirror.ObstacleError{Path: "/mxl/mirror-dom/x", Why: "something is mounted on it"}
	differs := &mirror.DiffersError{Members: []string{"grain_rate"}}
	remove := func(b *deedBench) { b.removeFlow(t.Context(), b.key, mirror.OriginMissing, 0, func(error) {}) }
	rebuild := func(b *deedBench) { b.rebuildFlow(t.Context(), b.key, func(mirror.Rebuilt, error) {}) }
	ensure := func(b *deedBench) { b.ensure(t.Context(), mirror.Origin{Key: b.key}) }
	domain := func(b *deedBench) {
		b.removeDomain(t.Context(), "dom", []mirror.Key{b.key}, mirror.Orphan, func(mirror.Removal, error) {})
	}
	for _, tc := range []struct {
		name  string
		err   error
		deed  func(*deedBench)
		heard []string
		inode uint64 // of the flow that is held afterwards, 0 for none
	}{
		{"the same definition", nil, ensure, nil, 1},
		{"another definition", differs, ensure, []string{"halt", "note origin_config_changed"}, 2},
		{"damaged by something else", &mirror.DiffersError{Damaged: errors.New("short")}, ensure, []string{"halt"}, 2},
		{"flow removed", nil, remove, []string{"halt", "note origin_missing"}, 0},
		{"flow with a reader", busy, remove, []string{"halt", "note origin_missing", "note ", "blocked " + busy.Error()}, 1},
		{"flow with a mount in it", inTheWay, remove, []string{"halt", "note origin_missing", "note ", "blocked " + inTheWay.Error()}, 1},
		{"domain removed", nil, domain, []string{"halt", "note mirror_domain_orphan"}, 0},
		{"domain with a reader", busy, domain, []string{"halt", "note mirror_domain_orphan", "note ", "blocked " + busy.Error()}, 1},
		{"domain with a mount in it", inTheWay, domain, []string{"halt", "note mirror_domain_orphan", "note ", "blocked " + inTheWay.Error()}, 1},
		{"rebuilt on request", nil, rebuild, []string{"halt", "note api"}, 2},
		{"rebuild failed before anything went", errors.New("bad definition"), rebuild, []string{"halt", "note api", "note "}, 1},
	} {
		b := newDeedBench()
		b.room.err = tc.err
		_, before := b.flow(b.key)
		tc.deed(b)
		b.wait()
		f, generation := b.flow(b.key)
		inode := uint64(0)
		if f != nil {
			inode = f.Inode
		}
		if inode != tc.inode || !slices.Equal(b.heard, tc.heard) {
			t.Errorf("%s: inode %d, heard %q; want %d, %q", tc.name, inode, b.heard, tc.inode, tc.heard)
		}
		if (generation != before) != (inode != 1) {
			t.Errorf("%s: generation %d after %d", tc.name, generation, before)
		}
	}
}

// While a domain is at work on, nobody gets a flow of it or begins another deed.
func TestOneDeedAtATime(t *testing.T) {
	b := newDeedBench()
	b.room.wait = make(chan struct{})
	if !b.removeDomain(t.Context(), "dom", nil, mirror.Orphan, func(mirror.Removal, error) {}) {
		t.Fatal("the first deed did not begin")
	}
	if f, _ := b.flow(b.key); f != nil {
		t.Error("a flow of a domain that is being removed was given out")
	}
	if b.ensure(t.Context(), mirror.Origin{Key: b.key}) || b.rebuildFlow(t.Context(), b.key, nil) {
		t.Error("a second deed began")
	}
	close(b.room.wait)
	b.wait()
	if !b.ensure(t.Context(), mirror.Origin{Key: b.key}) {
		t.Error("a deed after the first one did not begin")
	}
	b.wait()
}

// A removal of a domain that failed half way: what is gone keeps its reason, what
// stays is as before.
func TestADomainThatGoesHalfWay(t *testing.T) {
	b := newDeedBench()
	other := mirror.Key{DomainID: "dom", FlowID: uuid.MustParse("0d9f6c3a-2b71-4f5e-8a64-1c2d3e4f6b99")}
	b.room.err, b.room.gone = errors.New("1 of 2 flows are gone: device or resource busy"), []mirror.Key{b.key}
	reasons := map[mirror.Key]mirror.Reason{}
	b.note = func(k mirror.Key, r mirror.Reason) { reasons[k] = r }
	var told mirror.Removal
	b.removeDomain(t.Context(), "dom", []mirror.Key{b.key, other}, mirror.Delete, func(r mirror.Removal, _ error) { told = r })
	b.wait()
	if reasons[b.key] != "mirror_domain_api" || reasons[other] != "" {
		t.Errorf("reasons %v", reasons)
	}
	if !slices.Equal(told.Flows, b.room.gone) || !slices.Equal(b.heard, []string{"halt", "blocked " + b.room.err.Error()}) {
		t.Errorf("told %+v, heard %q", told, b.heard)
	}
}

func TestAFlowWithoutRoomIsToldSo(t *testing.T) {
	b := newDeedBench()
	for _, full := range []bool{true, false} {
		if b.room.err = nil; full {
			b.room.err = &mirror.SpaceError{Key: b.key}
		}
		b.ensure(t.Context(), mirror.Origin{Key: b.key})
		b.wait()
		if b.isFull != full {
			t.Errorf("full %v, told %v", full, b.isFull)
		}
	}
}

// The row of a replication whose mirror cannot be made says why, and is no pending one.
func TestTheRowOfAMirrorThatCannotBeMade(t *testing.T) {
	b := newDeedBench()
	b.set(b.key, nil)
	b.room.held, b.room.err = nil, errors.New("flow_def.json: no grouphint")
	b.ensure(t.Context(), mirror.Origin{Key: b.key})
	b.wait()
	why := b.unmade(b.key)
	for _, tc := range []struct{ state, text, wantState, want string }{
		{statePending, "", stateError, "flow_def.json: no grouphint"},
		{stateLinkDown, "no carrier", stateLinkDown, "no carrier"},
		{stateError, "http 500", stateError, "http 500"},
	} {
		row := replicationRow{State: tc.state, LastError: tc.text}
		if row.unmade(why); row.State != tc.wantState || row.LastError != tc.want {
			t.Errorf("%+v, want %+v", row, tc)
		}
	}
	b.room.held, b.room.err = &mirror.Flow{Inode: 3}, nil
	b.ensure(t.Context(), mirror.Origin{Key: b.key})
	b.wait()
	row := replicationRow{State: statePending}
	if row.unmade(b.unmade(b.key)); row.State != statePending || row.LastError != "" {
		t.Errorf("with its mirror: %+v", row)
	}
}
