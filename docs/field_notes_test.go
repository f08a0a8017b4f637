package docs

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// shows are the things that can be run: functions of tests, scenarios of the fault
// matrix and targets of the Makefile ("make soak").
func shows(t *testing.T) map[string]bool {
	t.Helper()
	found := map[string]bool{}
	function := regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)\w+)\(\w+ \*testing`)
	scenario := regexp.MustCompile(`\{name: "(\w+)"`)
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if name := entry.Name(); entry.IsDir() {
			if name == "build" || name == "node_modules" || name == ".git" || name == "testdata" {
				return filepath.SkipDir
			}
			return nil
		}
		var names *regexp.Regexp
		switch {
		case strings.HasSuffix(path, "_test.go"):
			names = function
		case filepath.Dir(path) == filepath.Join(root, "tests", "faults") && strings.HasSuffix(path, ".go"):
			names = scenario
		default:
			return nil
		}
		source, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for _, m := range names.FindAllSubmatch(source, -1) {
			found[string(m[1])] = true
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile(`(?m)^([a-z-]+):`).FindAllStringSubmatch(read(t, "Makefile"), -1) {
		found["make "+m[1]] = true
	}
	return found
}

// shown finds what a text names that can be run.
var shown = regexp.MustCompile("`((?:Test|Fuzz)\\w+|make [a-z-]+)`")

// faults finds the scenarios in "fault `a`, `b`" and "faults `a`".
var faults = regexp.MustCompile("faults?((?:,? `[a-z_]+`)+)")

// named is everything that a text says shows it.
func named(text string) (names []string) {
	for _, m := range shown.FindAllStringSubmatch(text, -1) {
		names = append(names, m[1])
	}
	for _, m := range faults.FindAllStringSubmatch(text, -1) {
		for _, name := range code.FindAllStringSubmatch(m[1], -1) {
			names = append(names, name[1])
		}
	}
	return names
}

// TestThreatModel: every limit has a test, and every test that is named is there.
func TestThreatModel(t *testing.T) {
	text := read(t, "docs/threat-model.md")
	there := shows(t)
	all := named(strings.ReplaceAll(text, "\n", " "))
	if len(all) < 80 {
		t.Errorf("only %d tests are named", len(all))
	}
	for _, name := range all {
		if !there[name] {
			t.Errorf("there is no %s", name)
		}
	}
	rows := 0
	for line := range strings.Lines(section(t, text, "## Foreign input and its limits")) {
		cells := strings.Split(line, "|")
		if len(cells) < 6 || strings.Contains(line, "---") || strings.Contains(line, "shown by") {
			continue
		}
		rows++
		if len(named(cells[5])) == 0 {
			t.Errorf("nothing shows the limit of %q", strings.TrimSpace(cells[1]))
		}
	}
	if rows < 25 {
		t.Errorf("only %d inputs", rows)
	}
	// A fuzz target of the agent is about foreign input: it has its place here.
	for name := range there {
		switch name {
		case "FuzzGrainsCheckAgreesWithFill", "FuzzAPI", // of the tests' own tools
			"FuzzSameDefinition", "FuzzIndexArithmetic", "FuzzOptions", "FuzzParseDomainDef", "FuzzAnswers": // parts of inputs that are there
			continue
		}
		if strings.HasPrefix(name, "Fuzz") && !strings.Contains(text, "`"+name+"`") {
			t.Errorf("%s is not in the threat model", name)
		}
	}
}

// TestFieldNotes: every kind of fault from 1 to 30 is there in order, with something
// that can be run and with what that does not show.
func TestFieldNotes(t *testing.T) {
	text := read(t, "docs/field-notes.md")
	there := shows(t)
	entries := regexp.MustCompile(`(?m)^(\d+)\. \*\*`).FindAllStringSubmatchIndex(text, -1)
	if len(entries) != 30 {
		t.Fatalf("%d entries, want 30", len(entries))
	}
	for i, at := range entries {
		number, err := strconv.Atoi(text[at[2]:at[3]])
		if err != nil || number != i+1 {
			t.Errorf("entry %d has the number %s", i+1, text[at[2]:at[3]])
		}
		end := len(text)
		if i+1 < len(entries) {
			end = entries[i+1][0]
		}
		entry := strings.ReplaceAll(text[at[0]:end], "\n", " ")
		entry = regexp.MustCompile(` +`).ReplaceAllString(entry, " ")
		_, shows, said := strings.Cut(entry, "*Shown:*")
		if shows, _, _ = strings.Cut(shows, "*Not shown:*"); !said || len(named(shows)) == 0 {
			t.Errorf("nothing shows entry %d", i+1)
		}
		for _, name := range named(entry) {
			if !there[name] {
				t.Errorf("entry %d: there is no %s", i+1, name)
			}
		}
	}
}
