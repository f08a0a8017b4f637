package mirror

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestViewOfMirrors(t *testing.T) {
	w, o, other := warm(t)
	w.read(o.Key, 77)
	delete(w.demand, o.Key)
	w.run(4 * time.Second)
	text, err := json.Marshal(ViewMirrors(w.facts, w.out))
	if err != nil {
		t.Fatal(err)
	}
	var views []map[string]any
	if err := json.Unmarshal(text, &views); err != nil || len(views) != 1 {
		t.Fatalf("%s: %v", text, err)
	}
	v := views[0]
	for _, name := range []string{"domain_id", "path", "origin", "state", "on_disk", "demand", "idle_since", "age_s", "readers", "readers_known", "flows"} {
		if _, found := v[name]; !found {
			t.Errorf("no %s in %s", name, text)
		}
	}
	if v["state"] != "active" || v["on_disk"] != true || v["demand"] != false || v["readers_known"] != true || v["idle_since"] != nil {
		t.Errorf("%s", text)
	}
	if got := v["origin"].(map[string]any); got["host_id"] != testSource || got["peer_up"] != true || got["on_peer"] != true || got["local"] != false {
		t.Errorf("origin %v", got)
	}
	if readers := v["readers"].([]any); len(readers) != 1 || readers[0].(map[string]any)["pid"] != 77.0 || readers[0].(map[string]any)["comm"] != "player" {
		t.Errorf("readers %v", readers)
	}
	flows := v["flows"].([]any)
	if len(flows) != 2 {
		t.Fatalf("flows %v", flows)
	}
	flow := flows[0].(map[string]any)
	health := flow["health"].(map[string]any)
	if flow["flow_id"] != o.FlowID.String() || flow["media_type"] != "video/smpte291" || flow["format"] != "discrete" || flow["active"] != true || flow["state"] != "idle" {
		t.Errorf("flow %v", flow)
	}
	for _, name := range []string{"state", "reason", "last_grain_age_ms", "stale_since", "stale_after_ms", "rebuilds", "last_rebuild", "last_rebuild_reason"} {
		if _, found := health[name]; !found {
			t.Errorf("no %s in %v", name, health)
		}
	}
	if health["state"] != "idle" || health["reason"] != "no_demand" || health["stale_after_ms"] != 2000.0 || health["last_grain_age_ms"] == nil || health["last_rebuild"] != nil {
		t.Errorf("health %v", health)
	}
	if h := flows[1].(map[string]any)["health"].(map[string]any); h["last_grain_age_ms"] != nil {
		t.Errorf("health without a grain %v", h)
	}

	// A flow that is gone stays in the list with the reason.
	w.proc.remove(77)
	delete(w.peer(testSource).flows, o.Key)
	w.run(50 * time.Second)
	text, _ = json.Marshal(ViewMirrors(w.facts, w.out))
	if !strings.Contains(string(text), `"state":"absent","reason":"origin_missing"`) {
		t.Errorf("%s", text)
	}
	w.peers = map[string]*worldPeer{}
	w.demand[other.Key] = true
	w.run(6 * time.Second)
	if w.inode(other.Key) != 0 {
		t.Fatal("the orphan stayed")
	}
	text, _ = json.Marshal(ViewMirrors(w.facts, w.out))
	if !strings.Contains(string(text), `"state":"idle","on_disk":false,"demand":true`) || !strings.Contains(string(text), `"reason":"mirror_domain_orphan"`) {
		t.Errorf("%s", text)
	}
	if text, _ := json.Marshal(ViewMirrors(Facts{}, Outcome{})); string(text) != "[]" {
		t.Errorf("nothing is %s", text)
	}
}

func TestEventsInTheLog(t *testing.T) {
	w, o, _ := warm(t)
	f := w.peer(testSource).flows[o.Key]
	w.books.Removed(o.Key, TestHook)
	if _, err := w.room.RebuildFlow(t.Context(), o.Key); err != nil {
		t.Fatal(err)
	}
	w.run(4 * time.Second)
	w.peer(testSource).link = false
	w.run(6 * time.Second)
	w.peer(testSource).link = true
	w.run(4 * time.Second)
	_ = f
	log, lines := recorder()
	views := map[string]EventView{}
	for _, e := range w.events {
		e.Log(log)
		if e.Name() != "" {
			views[e.Name()] = e.View()
		}
	}
	events := map[string]map[string]any{}
	for line := range bytes.Lines(lines.Bytes()) {
		var fields map[string]any
		if err := json.Unmarshal(line, &fields); err != nil {
			t.Fatal(err)
		}
		events[fields["msg"].(string)] = fields
	}
	for name, want := range map[string][]string{
		"mirror_stale":     {"domain_id", "flow_id", "peer", "reason", "last_grain_age_ms", "stale_after_ms"},
		"mirror_recovered": {"domain_id", "flow_id", "peer", "state", "reason", "stale_ms"},
		"mirror_rebuilt":   {"domain_id", "flow_id", "peer", "reason", "rebuilds", "old_inode", "inode"},
	} {
		for _, field := range want {
			if _, found := events[name][field]; !found {
				t.Errorf("%s has no %s: %v", name, field, events[name])
			}
		}
	}
	if events["mirror_stale"]["reason"] != "link_down" || events["mirror_recovered"]["state"] != "live" || events["mirror_rebuilt"]["reason"] != "api" {
		t.Errorf("%v", events)
	}
	if v := views["stale"]; v.State != HealthStale || v.StaleSince == nil || v.Peer != testSource || v.FlowID != o.FlowID.String() {
		t.Errorf("%+v", v)
	}
	if v := views["rebuilt"]; v.Rebuilds != 1 || v.LastRebuildReason == nil || *v.LastRebuildReason != "api" {
		t.Errorf("%+v", v)
	}
	if v := views["recovered"]; v.State != HealthLive || v.StaleSince != nil {
		t.Errorf("%+v", v)
	}
}

// TestWhatKeepsARemovalShows: a domain that is to go and cannot is shown with the
// reason, tried again with each reader check and not more often, and goes once
// nothing is in the way.
func TestWhatKeepsARemovalShows(t *testing.T) {
	w, o, _ := warm(t)
	w.demand = map[Key]bool{}
	deep := filepath.Join(w.room.domainPath(testDomain), "theirs")
	mkdirAll(t, filepath.Join(deep, "2/3/4/5/6"))
	w.peers = map[string]*worldPeer{}
	w.run(10 * time.Second)
	if w.blocked < 3 || w.blocked > 6 {
		t.Errorf("%d tries in 10 s", w.blocked)
	}
	views := ViewMirrors(w.facts, w.out)
	if len(views) != 1 || !strings.Contains(views[0].RemovalError, "nested too deeply") || len(views[0].Flows) != 2 {
		t.Fatalf("%+v", views)
	}
	if f := w.room.Held(o.Key); f == nil || !isLocked(t, w.room, o.Key) {
		t.Error("what stays is not held")
	}
	// While something wants it again there is nothing to be said.
	w.peer(testSource).offer(o)
	w.run(6 * time.Second)
	if views := ViewMirrors(w.facts, w.out); len(views) != 1 || views[0].RemovalError != "" {
		t.Errorf("wanted again: %+v", views)
	}
	w.peers = map[string]*worldPeer{}
	if err := os.RemoveAll(deep); err != nil {
		t.Fatal(err)
	}
	w.run(6 * time.Second)
	if w.inode(o.Key) != 0 || exists(w.room.domainPath(testDomain)) {
		t.Error("it stays without an obstacle")
	}
	if s := w.step(o.Key); s.Health.State != HealthAbsent || s.Health.Reason != "mirror_domain_orphan" {
		t.Errorf("%+v", s.Health)
	}
}

// TestAFlowWithoutRoomSaysSo: it never was there, so there is no reason of a
// removal; that it does not fit is the reason.
func TestAFlowWithoutRoomSaysSo(t *testing.T) {
	w, _, _ := warm(t)
	big := origin("data", 3)
	w.free = 100 * mebibyte // less than the reserve
	w.peer(testSource).offer(big)
	w.run(4 * time.Second)
	says := func(when string) {
		t.Helper()
		if s := w.step(big.Key); s.State != FlowNoSpace || s.Health.State != HealthAbsent || s.Health.Reason != "insufficient_space" {
			t.Errorf("%s: %+v", when, s)
		}
	}
	says("by the reserve")
	// The pass sees room, the file system has none.
	w.facts.FreeBytes = 1 << 40
	w.books.Made(big.Key, &SpaceError{Key: big.Key})
	w.out = w.books.Pass(w.facts)
	says("by the file system")
	if s := w.step(big.Key); s.Do != Ensure {
		t.Error("it is not tried again")
	}
	w.free = 1 << 40
	w.run(time.Second)
	if s := w.step(big.Key); s.State != FlowIdle || s.Health.Reason != NobodyWants {
		t.Errorf("with room: %+v", s)
	}
}

// A flow that cannot be made is absent and says so, whatever is wanted of it.
func TestAFlowThatCannotBeMadeSaysSo(t *testing.T) {
	w, _, _ := warm(t)
	bad := origin("data", 3)
	w.demand[bad.Key] = true
	w.peer(testSource).offer(bad.edit("tags", map[string][]string{})) // the format asks for a grouphint
	w.poll()
	w.facts.Offers = append(w.facts.Offers, Offer{Key: bad.Key, Host: testSource, Active: true, Live: true})
	w.facts.Demand = w.demand
	w.out = w.books.Pass(w.facts)
	if s := w.step(bad.Key); s.State != FlowReplicating || s.Do != Ensure {
		t.Fatalf("before the first try: %+v", s)
	}
	_, _, err := w.room.EnsureFlow(bad.edit("tags", map[string][]string{}))
	if err == nil {
		t.Fatal("it was made")
	}
	w.books.Made(bad.Key, err)
	w.out = w.books.Pass(w.facts)
	s := w.step(bad.Key)
	if s.State != FlowAbsent || s.Health.State != HealthAbsent || s.Health.Reason != "mirror_writer_failed" || s.Do != Ensure || !s.Pull {
		t.Errorf("%+v", s)
	}
	shown := false
	for _, f := range ViewMirrors(w.facts, w.out)[0].Flows {
		if f.FlowID == bad.FlowID.String() {
			shown = f.State == FlowAbsent && !f.Active && f.Health.Reason == "mirror_writer_failed"
		}
	}
	if !shown {
		t.Errorf("%+v", ViewMirrors(w.facts, w.out))
	}
	w.peer(testSource).offer(bad) // its writer has mended it
	w.poll()
	w.run(time.Second)
	if s := w.step(bad.Key); s.State != FlowReplicating || s.Unmade || !s.OnDisk {
		t.Errorf("%+v", s)
	}
}
