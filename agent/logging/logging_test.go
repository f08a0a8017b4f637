package logging

import (
	"bytes"
	"encoding/json"
	"errors"
	"log/slog"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestLine(t *testing.T) {
	var out bytes.Buffer
	log := slog.New(NewHandler(&out, slog.LevelInfo)).With("peer", "node-b").WithGroup("g").With("a", 1)
	log.Debug("not_seen")
	log.Warn("mirror_stale", "grains", uint64(7), "ok", true, "share", 0.25, "error", errors.New(`bad "thing" <x>`), "took", 1500*time.Millisecond,
		"ms", Elapsed(1500*time.Millisecond), "none", nil, "list", []string{"x", "y"}, "addr", netip.MustParseAddr("192.0.2.1"),
		slog.Group("in", "b", 2), "a", 3)
	if n := strings.Count(out.String(), "\n"); n != 1 {
		t.Fatalf("%d lines: %s", n, &out)
	}
	var got map[string]string
	if err := json.Unmarshal(out.Bytes(), &got); err != nil {
		t.Fatalf("%v in %s", err, &out)
	}
	stamp, err := time.Parse(timeForm, got["ts"])
	if err != nil || time.Since(stamp) > time.Minute || time.Since(stamp) < -time.Minute {
		t.Errorf("ts %q: %v", got["ts"], err)
	}
	delete(got, "ts")
	want := map[string]string{
		"level": "warn", "event": "mirror_stale", "peer": "node-b", "g.a": "3", "g.grains": "7", "g.ok": "true", "g.share": "0.25",
		"g.error": `bad "thing" <x>`, "g.took": "1.5s", "g.ms": "1500", "g.none": "", "g.list": "x,y", "g.addr": "192.0.2.1", "g.in.b": "2",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if !strings.HasPrefix(out.String(), `{"ts":"`) || !strings.Contains(out.String(), `Z","level":"warn","event":"mirror_stale","peer":"node-b",`) || !strings.Contains(out.String(), "<x>") {
		t.Errorf("order or quoting: %s", &out)
	}
}

func TestLevels(t *testing.T) {
	for level, want := range map[slog.Level]string{slog.LevelDebug: "debug", slog.LevelInfo: "info", slog.LevelWarn: "warn", slog.LevelError: "error", slog.LevelError + 4: "error", slog.LevelDebug - 4: "debug"} {
		if got := levelName(level); got != want {
			t.Errorf("%v: %s", level, got)
		}
	}
}

type broken struct{}

func (*broken) String() string { panic("no") }

func TestHostileValues(t *testing.T) {
	var out bytes.Buffer
	log := slog.New(NewHandler(&out, slog.LevelDebug))
	var nowhere *time.Location
	log.Info("e", "event", "shadow", "ts", "shadow", "bad", "a\xffb\n\x00", "nil", nowhere, "panics", &broken{}, "long", strings.Repeat("ä", 3000), "", "no key")
	var got map[string]string
	if err := json.Unmarshal(out.Bytes(), &got); err != nil {
		t.Fatalf("%v in %q", err, out.String())
	}
	if got["event"] != "e" || got["field_event"] != "shadow" || got["field_ts"] != "shadow" || got["bad"] != "a\uFFFDb\n\x00" {
		t.Errorf("got %v", got)
	}
	if n := len(got["long"]); n > maxValue+3 || !strings.HasSuffix(got["long"], "ä…") {
		t.Errorf("a long value has %d bytes", n)
	}
	out.Reset()
	var many []any
	for i := range 100 {
		many = append(many, strings.Repeat("k", i+1), strings.Repeat("v", 1000))
	}
	log.Info("e", many...)
	clear(got)
	if err := json.Unmarshal(out.Bytes(), &got); err != nil || got["truncated"] != "true" || out.Len() > maxLine+2048 {
		t.Errorf("a long line: %d bytes, %v", out.Len(), err)
	}
}

func TestLimiter(t *testing.T) {
	l := NewLimiter(time.Second)
	now := time.Unix(0, 0)
	for i, c := range []struct {
		after      time.Duration
		key        string
		ok         bool
		suppressed uint64
	}{
		{0, "a", true, 0}, {0, "a", false, 0}, {0, "b", true, 0}, {999 * time.Millisecond, "a", false, 0},
		{time.Second, "a", true, 2}, {1500 * time.Millisecond, "a", false, 0}, {time.Minute, "a", true, 1}, {2 * time.Minute, "b", true, 0},
	} {
		if ok, n := l.Allow(c.key, now.Add(c.after)); ok != c.ok || n != c.suppressed {
			t.Errorf("step %d: %v %d, want %v %d", i, ok, n, c.ok, c.suppressed)
		}
	}
	for i := range 10 * maxKeys {
		l.Allow(string(rune(i)), now)
	}
	if len(l.keys) > maxKeys {
		t.Errorf("%d keys are remembered", len(l.keys))
	}
}
