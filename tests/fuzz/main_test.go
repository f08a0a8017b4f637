package main

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// Every end of a run is told from the others, with real runs.
func TestEnds(t *testing.T) {
	work := t.TempDir()
	source, err := os.ReadFile("testdata/ends/ends_test.go")
	if err != nil {
		t.Fatal(err)
	}
	// A found input is written beside the test: not in the tree.
	for name, text := range map[string]string{"ends_test.go": string(source), "go.mod": "module ends\n\ngo 1.26\n"} {
		if err := os.WriteFile(filepath.Join(work, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(work)
	targets, err := list(t.Context(), regexp.MustCompile(""))
	if err != nil {
		t.Fatal(err)
	}
	if err := compile(t.Context(), work, targets); err != nil {
		t.Fatal(err)
	}
	want := map[string]string{
		"FuzzGood": endGood, "FuzzFound": endFound, "FuzzGreedy": endFound, "FuzzHung": endHung,
	}
	if len(targets) != len(want) {
		t.Fatalf("targets %+v", targets)
	}
	for _, target := range targets {
		target.dir = "."
		r := run(t.Context(), target, limits{each: 8 * time.Second, memoryMiB: 256, cache: filepath.Join(work, "cache")})
		if r.end != want[target.name] {
			t.Errorf("%s ends as %q, want %q:\n%s", target.name, r.end, want[target.name], r.output)
		}
		if r.peakMiB < 5 || r.peakMiB > 400 {
			t.Errorf("%s: peak of %d MiB", target.name, r.peakMiB)
		}
		if (r.end == endGood) != !strings.Contains(r.row(), "\n") {
			t.Errorf("%s: row %q", target.name, r.row())
		}
	}
}

func TestJudge(t *testing.T) {
	const (
		busy  = "fuzz: elapsed: 3s, execs: 7 (2/sec), new interesting: 0 (total: 1)\n--- FAIL: FuzzX (3.01s)\n    context deadline exceeded\nFAIL\n"
		still = "fuzz: elapsed: 3s, execs: 7 (2/sec), new interesting: 0 (total: 1)\nfuzz: elapsed: 7s, execs: 7 (0/sec), new interesting: 0 (total: 1)\nPASS\n"
		died  = "    fuzzing process hung or terminated unexpectedly: exit status 2\n    Failing input written to x\nFAIL\n"
	)
	failed := os.ErrClosed
	for _, c := range []struct {
		err, stopped error
		output       string
		want         string
	}{
		{nil, nil, "PASS", endGood},
		{failed, nil, busy, endGood},
		{failed, nil, "Failing input written to x\n" + busy, endFound},
		{failed, nil, died, endFound},
		{nil, nil, still, endHung},
		{failed, context.DeadlineExceeded, "", endHung},
		{failed, context.Canceled, "", endStopped},
	} {
		r := result{output: c.output}
		if got := r.judge(c.err, c.stopped); got != c.want {
			t.Errorf("%v, %v, %q: %q, want %q", c.err, c.stopped, c.output, got, c.want)
		}
	}
}

func TestCounts(t *testing.T) {
	execs, found := counts("fuzz: elapsed: 3s, execs: 131 (43/sec), new interesting: 1 (total: 3)\nfuzz: elapsed: 4s, execs: 150 (0/sec), new interesting: 2 (total: 4)\n")
	if execs != 150 || found != 2 {
		t.Errorf("%d inputs, %d new", execs, found)
	}
}
