package docs

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestProof: every test, target and scenario that proof.md names is there, and every
// kind of fault has one.
func TestProof(t *testing.T) {
	text := read(t, "docs/proof.md")
	tests, scenarios := map[string]bool{}, map[string]bool{}
	function := regexp.MustCompile(`(?m)^func (Test\w+)\(`)
	scenario := regexp.MustCompile(`\{name: "(\w+)"`)
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			if name := entry.Name(); name == "build" || name == "node_modules" || name == ".git" {
				return filepath.SkipDir
			}
			return nil
		}
		inFaults := filepath.Dir(path) == filepath.Join(root, "tests", "faults")
		if !strings.HasSuffix(path, "_test.go") && !(inFaults && strings.HasSuffix(path, ".go")) {
			return nil
		}
		source, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for _, m := range function.FindAllSubmatch(source, -1) {
			tests[string(m[1])] = true
		}
		if inFaults {
			for _, m := range scenario.FindAllSubmatch(source, -1) {
				scenarios[string(m[1])] = true
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	makefile := read(t, "Makefile")
	kinds := 0
	for line := range strings.Lines(section(t, text, "## What broke for others")) {
		cells := strings.Split(line, "|")
		if len(cells) < 4 || !regexp.MustCompile(`^ \d+\. `).MatchString(cells[1]) {
			continue
		}
		kinds++
		named := code.FindAllStringSubmatch(cells[2], -1)
		if len(named) == 0 {
			t.Errorf("nothing shows %q", strings.TrimSpace(cells[1]))
		}
		for _, m := range named {
			switch name := m[1]; {
			case strings.HasPrefix(name, "make "):
				if target := strings.TrimPrefix(name, "make "); !regexp.MustCompile(`(?m)^` + target + `:`).MatchString(makefile) {
					t.Errorf("%s: the Makefile has no %s", strings.TrimSpace(cells[1]), target)
				}
			case strings.HasPrefix(name, "Test"):
				if !tests[name] {
					t.Errorf("%s: there is no %s", strings.TrimSpace(cells[1]), name)
				}
			case !scenarios[name]:
				t.Errorf("%s: there is no scenario %s", strings.TrimSpace(cells[1]), name)
			}
		}
	}
	if kinds != 30 {
		t.Errorf("%d kinds of fault, want 30", kinds)
	}
	if len(scenarios) < 30 {
		t.Errorf("only %d scenarios were found", len(scenarios))
	}
}
