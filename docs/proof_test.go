package docs

import (
	"regexp"
	"strings"
	"testing"
)

// TestProof: every scenario and target that proof.md names is there, the scenarios are
// as many as it makes one believe, and each that the code has can be found.
func TestProof(t *testing.T) {
	text := strings.ReplaceAll(read(t, "docs/proof.md"), "\n", " ")
	there := shows(t)
	names := named(text)
	for _, m := range regexp.MustCompile("`([a-z]+(?:_[a-z]+)+)`").FindAllStringSubmatch(text, -1) {
		names = append(names, m[1])
	}
	for _, name := range names {
		if !there[name] && !isWord(name) {
			t.Errorf("there is no %s", name)
		}
	}
	if len(names) < 5 {
		t.Errorf("only %v are named", names)
	}
	scenarios := 0
	for name := range there {
		if !strings.HasPrefix(name, "make ") && !strings.HasPrefix(name, "Test") && !strings.HasPrefix(name, "Fuzz") {
			scenarios++
		}
	}
	if scenarios < 30 {
		t.Errorf("only %d scenarios were found", scenarios)
	}
}

// isWord says whether a name in proof.md is a word of the API or the log, which other
// tests hold equal to the code.
func isWord(name string) bool {
	switch name {
	case "link_down", "insufficient_space", "origin_conflict", "head_index", "fabric_thread_stall":
		return true
	}
	return false
}
