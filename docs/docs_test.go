// Package docs tests that the documents say what the code does.
package docs

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/mxl-stack/mxl-fabrics-agent/agent"
	"github.com/mxl-stack/mxl-fabrics-agent/agent/config"
	"github.com/mxl-stack/mxl-fabrics-agent/metrics"
)

// root is the module's directory.
const root = ".."

func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// section is what stands below a heading, up to the next one of its level or
// above.
func section(t *testing.T, text, heading string) string {
	t.Helper()
	_, after, found := strings.Cut(text, "\n"+heading+"\n")
	if !found {
		t.Fatalf("no heading %q", heading)
	}
	level := strings.Count(strings.SplitN(heading, " ", 2)[0], "#")
	var out []string
	for line := range strings.Lines(after) {
		marks, _, isHeading := strings.Cut(line, " ")
		if isHeading && marks != "" && strings.Trim(marks, "#") == "" && len(marks) <= level {
			break
		}
		out = append(out, line)
	}
	return strings.Join(out, "")
}

// rows are the cells of every table row whose first cell begins with code.
func rows(text string) [][]string {
	var out [][]string
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if !strings.HasPrefix(line, "| `") && !strings.HasPrefix(line, "| [`") {
			continue
		}
		var cells []string
		for c := range strings.SplitSeq(strings.Trim(line, "|"), "|") {
			cells = append(cells, strings.TrimSpace(c))
		}
		out = append(out, cells)
	}
	return out
}

var code = regexp.MustCompile("`([^`]+)`")

// firstCode is the first piece of code in a cell.
func firstCode(cell string) string {
	if m := code.FindStringSubmatch(cell); m != nil {
		return m[1]
	}
	return ""
}

func TestConfigurationKeys(t *testing.T) {
	documented := map[string]bool{}
	table := rows(section(t, read(t, "docs/operations.md"), "### Keys"))
	for _, row := range table {
		name := firstCode(row[0])
		documented[name] = true
		k, known := config.Lookup(name)
		if !known || k.Name != name {
			t.Errorf("operations.md documents %s, which is no setting", name)
			continue
		}
		if len(row) != 5 {
			t.Errorf("%s: %d cells, want 5", name, len(row))
			continue
		}
		wantDefault := k.DefaultText
		switch {
		case wantDefault != "":
		case k.Default == "":
			wantDefault = "empty"
		default:
			wantDefault = "`" + k.Default + "`"
		}
		if row[1] != wantDefault {
			t.Errorf("%s: documented default %q, in the code %q", name, row[1], wantDefault)
		}
		wantValues := k.Values
		if strings.Contains(wantValues, "`yes`") {
			wantValues = "switch"
		}
		if row[2] != wantValues {
			t.Errorf("%s: documented values %q, in the code %q", name, row[2], wantValues)
		}
		if live := map[bool]string{true: "yes", false: "no"}[k.Runtime]; row[3] != live {
			t.Errorf("%s: documented live %q, in the code %q", name, row[3], live)
		}
		alias := ""
		if _, after, found := strings.Cut(row[0], "alias "); found {
			alias = firstCode(after)
		}
		if alias != k.Alias {
			t.Errorf("%s: documented alias %q, in the code %q", name, alias, k.Alias)
		}
	}
	for _, k := range config.Keys() {
		if !documented[k.Name] {
			t.Errorf("operations.md lacks %s", k.Name)
		}
	}
	for _, row := range rows(section(t, read(t, "README.md"), "## Run it")) {
		name := firstCode(row[0])
		k, known := config.Lookup(name)
		if !known {
			t.Errorf("README.md names %s, which is no setting", name)
			continue
		}
		if k.Default != "" && row[1] != "`"+k.Default+"`" {
			t.Errorf("README.md: default of %s is %s, in the code %q", name, row[1], k.Default)
		}
	}
}

func TestMetrics(t *testing.T) {
	series := map[string]metrics.Series{}
	for _, s := range metrics.All() {
		series[s.Name] = s
	}
	documented := map[string]bool{}
	for _, row := range rows(read(t, "docs/metrics.md")) {
		name := firstCode(row[0])
		s, known := series[name]
		if !known {
			t.Errorf("metrics.md documents %s, which is no series", name)
			continue
		}
		documented[name] = true
		if len(row) != 6 {
			t.Errorf("%s: %d cells, want 6", name, len(row))
			continue
		}
		if row[1] != string(s.Kind) {
			t.Errorf("%s: documented type %q, in the code %q", name, row[1], s.Kind)
		}
		var labels []string
		for _, m := range code.FindAllStringSubmatch(row[2], -1) {
			labels = append(labels, m[1])
		}
		if !slices.Equal(labels, s.Labels) && len(labels)+len(s.Labels) > 0 {
			t.Errorf("%s: documented labels %v, in the code %v", name, labels, s.Labels)
		}
		if want := map[metrics.PerFlow]string{metrics.Dropped: "dropped", metrics.Totalled: "total"}[s.PerFlow]; row[4] != want {
			t.Errorf("%s: documented METRICS_PER_FLOW %q, in the code %q", name, row[4], want)
		}
	}
	for name := range series {
		if !documented[name] {
			t.Errorf("metrics.md lacks %s", name)
		}
	}
	// Names in queries and in other documents.
	mentioned := regexp.MustCompile(metrics.Prefix + `[a-z_]+`)
	for _, doc := range documents(t) {
		for _, name := range mentioned.FindAllString(read(t, doc), -1) {
			_, known := series[name]
			for _, suffix := range []string{"_bucket", "_sum", "_count"} {
				s, ok := series[strings.TrimSuffix(name, suffix)]
				known = known || ok && s.Kind == metrics.Histogram
			}
			if !known && name != metrics.Prefix {
				t.Errorf("%s mentions %s, which is no series", doc, name)
			}
		}
	}
}

func TestEndpoints(t *testing.T) {
	text := read(t, "docs/api.md")
	endpoints := map[string]int{}
	for _, e := range agent.Endpoints() {
		if strings.Contains(e, "...") {
			continue // a form of path that only gets an error
		}
		endpoints[e]++
		if endpoints[e] > 1 {
			t.Errorf("%s is in the routes table twice", e)
		}
	}
	documented := map[string]bool{}
	for _, row := range rows(text) {
		e := firstCode(row[0])
		if method, _, ok := strings.Cut(e, " /"); !ok || strings.ToUpper(method) != method {
			continue
		}
		documented[e] = true
		if endpoints[e] == 0 {
			t.Errorf("api.md documents %s, which is no endpoint", e)
		}
		if !strings.Contains(text, "\n### "+e+"\n") {
			t.Errorf("api.md has no section of %s", e)
			continue
		}
		if !strings.Contains(section(t, text, "### "+e), "    curl ") {
			t.Errorf("api.md: %s has no example", e)
		}
	}
	for e := range endpoints {
		if !documented[e] {
			t.Errorf("api.md lacks %s", e)
		}
	}
}

// eventPatterns find the event names of log lines in the code.
var eventPatterns = []*regexp.Regexp{
	regexp.MustCompile(`\.(?:Debug|Info|Warn|Error)\("([a-z][a-z0-9_]+)"`),
	regexp.MustCompile(`LogAttrs\([^"\n]*"([a-z][a-z0-9_]+)"`),
	regexp.MustCompile(`EventKind = "([a-z][a-z0-9_]+)"`),
	regexp.MustCompile(`Event: "([a-z][a-z0-9_]+)"`),
	regexp.MustCompile(`"event": "([a-z][a-z0-9_]+)"`),
	regexp.MustCompile(`(?:\.log|outcome)\([a-zA-Z.]+, "([a-z][a-z0-9_]+)"`),
	regexp.MustCompile(`report\("([a-z][a-z0-9_]+)"`),
	regexp.MustCompile(`(?m)^\s*origin[A-Z]\w+\s*= "([a-z][a-z0-9_]+)"`),
}

func TestLogEvents(t *testing.T) {
	inCode := map[string]string{}
	for _, dir := range []string{"agent", "cmd/mxl-fabrics-agent", "fabrics", "metrics", "mirror", "mxl", "nmos", "peers"} {
		err := filepath.WalkDir(filepath.Join(root, dir), func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			text, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			for _, p := range eventPatterns {
				for _, m := range p.FindAllStringSubmatch(string(text), -1) {
					inCode[m[1]] = path
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if len(inCode) < 60 {
		t.Fatalf("only %d events found in the code: the patterns miss them", len(inCode))
	}
	documented := map[string]bool{}
	for _, row := range rows(section(t, read(t, "docs/operations.md"), "## Log")) {
		name := firstCode(row[0])
		if documented[name] {
			t.Errorf("operations.md documents the event %s twice", name)
		}
		documented[name] = true
		if inCode[name] == "" {
			t.Errorf("operations.md documents the event %s, which is not in the code", name)
		}
	}
	for name, path := range inCode {
		if !documented[name] {
			t.Errorf("operations.md lacks the event %s of %s", name, path)
		}
	}
}

// documents are the module's Markdown files, relative to its root.
func documents(t *testing.T) []string {
	t.Helper()
	list := []string{"README.md"}
	found, err := filepath.Glob(filepath.Join(root, "docs", "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range found {
		list = append(list, filepath.Join("docs", filepath.Base(path)))
	}
	return list
}

var link = regexp.MustCompile(`\[[^\]]*\]\(([^)\s]+)\)`)

func TestLinks(t *testing.T) {
	for _, doc := range documents(t) {
		for _, m := range link.FindAllStringSubmatch(read(t, doc), -1) {
			target := m[1]
			if strings.Contains(target, "://") {
				continue
			}
			path, anchor, _ := strings.Cut(target, "#")
			file := doc
			if path != "" {
				file = filepath.Join(filepath.Dir(doc), path)
			}
			if _, err := os.Stat(filepath.Join(root, file)); err != nil {
				t.Errorf("%s: link to %s: %v", doc, target, err)
				continue
			}
			if anchor != "" && !slices.Contains(anchors(read(t, file)), anchor) {
				t.Errorf("%s: link to %s: no such heading", doc, target)
			}
		}
	}
}

// anchors are the names that GitHub gives the headings of a document.
func anchors(text string) []string {
	var out []string
	for line := range strings.Lines(text) {
		marks, title, found := strings.Cut(strings.TrimSpace(line), " ")
		if !found || strings.Trim(marks, "#") != "" {
			continue
		}
		out = append(out, strings.Map(func(r rune) rune {
			switch {
			case r == ' ':
				return '-'
			case r == '-' || r == '_' || 'a' <= r && r <= 'z' || '0' <= r && r <= '9':
				return r
			}
			return -1
		}, strings.ToLower(title)))
	}
	return out
}

func TestMakeTargets(t *testing.T) {
	makefile := read(t, "Makefile")
	targets := regexp.MustCompile("(?m)(?:`|^    )make ([a-z-]+)").FindAllStringSubmatch(read(t, "README.md"), -1)
	if len(targets) < 2 {
		t.Fatalf("README.md names %d make targets", len(targets))
	}
	named := map[string]bool{}
	for _, m := range targets {
		named[m[1]] = true
		if !regexp.MustCompile(`(?m)^` + m[1] + `:`).MatchString(makefile) {
			t.Errorf("README.md says make %s, which the Makefile does not have", m[1])
		}
	}
	for _, must := range []string{"demo", "test"} {
		if !named[must] {
			t.Errorf("README.md does not name make %s", must)
		}
	}
}

// TestPatternOptions holds mxl-pattern.md against the options in the command's
// source.
func TestPatternOptions(t *testing.T) {
	text := read(t, "docs/mxl-pattern.md")
	var inCode []string
	declared := regexp.MustCompile(`fs\.\w+\((?:&[\w.]+, )?"([a-z-]+)"`)
	sources, err := filepath.Glob(filepath.Join(root, "cmd/mxl-pattern", "*.go"))
	if err != nil || len(sources) == 0 {
		t.Fatalf("%d sources, %v", len(sources), err)
	}
	for _, path := range sources {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		source, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range declared.FindAllStringSubmatch(string(source), -1) {
			inCode = append(inCode, m[1])
		}
	}
	if len(inCode) < 30 {
		t.Fatalf("only %d options found in the code", len(inCode))
	}
	for _, name := range inCode {
		if !strings.Contains(text, "`--"+name+"`") {
			t.Errorf("mxl-pattern.md lacks --%s", name)
		}
	}
	for _, m := range regexp.MustCompile("`--([a-z-]+)`").FindAllStringSubmatch(text, -1) {
		if !slices.Contains(inCode, m[1]) {
			t.Errorf("mxl-pattern.md documents --%s, which is no option", m[1])
		}
	}
}
