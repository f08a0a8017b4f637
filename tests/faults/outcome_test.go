package main

import (
	"bytes"
	"strings"
	"testing"
	"time"
)

func TestFigures(t *testing.T) {
	good := &result{Scenario: "cable", Runs: 3, Limit: 2 * time.Second, Recovery: []time.Duration{900 * time.Millisecond, 300 * time.Millisecond, 500 * time.Millisecond}, Verified: 7}
	slow := &result{Scenario: "kill", Runs: 1, Limit: time.Second, Recovery: []time.Duration{1500 * time.Millisecond}, LostUntouched: 2}
	for _, r := range []*result{good, slow} {
		r.judge()
	}
	got := figures([]*result{good, slow})
	for key, want := range map[string]any{
		"scenarios": 2, "failed": 1, "lost_on_untouched_flows": uint64(2), "verified": uint64(7), "bad": uint64(0),
		"cable_recovery_p50_ms": 500.0, "cable_recovery_worst_ms": 900.0, "kill_recovery_worst_ms": 1500.0, "cable_runs": 3,
	} {
		if got[key] != want {
			t.Errorf("%s is %v, want %v", key, got[key], want)
		}
	}
	if err := verdict([]*result{good}); err != nil {
		t.Errorf("a good run: %v", err)
	}
	if err := verdict([]*result{good, slow}); err == nil || !strings.Contains(err.Error(), "kill") {
		t.Errorf("a slow one: %v", err)
	}
	var printed bytes.Buffer
	table(&printed, []*result{good, slow})
	if text := printed.String(); !strings.Contains(text, "FAILED: recovery took 1500 ms") || !strings.Contains(text, "cable") {
		t.Errorf("table:\n%s", text)
	}
	if err := drawRecoveries(t.TempDir()+"/recovery.svg", []*result{good, slow}); err != nil {
		t.Error(err)
	}
}
