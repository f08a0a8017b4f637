package mxl

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sys/unix"
)

func scanPoke(offset int, v byte) func(*testing.T, string) {
	return func(t *testing.T, flow string) {
		t.Helper()
		f, err := os.OpenFile(filepath.Join(flow, nameData), os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if _, err := f.WriteAt([]byte{v}, int64(offset)); err != nil {
			t.Fatal(err)
		}
	}
}

// TestScannerNamesWhyAFlowIsNotReplicable breaks one flow of a domain after the other; a sound one beside them stays.
func TestScannerNamesWhyAFlowIsNotReplicable(t *testing.T) {
	must := func(t *testing.T, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	replace := func(name string, with func(path string) error) func(*testing.T, string) {
		return func(t *testing.T, flow string) {
			t.Helper()
			path := filepath.Join(flow, name)
			must(t, os.RemoveAll(path))
			must(t, with(path))
		}
	}
	write := func(text string) func(string) error {
		return func(path string) error { return os.WriteFile(path, []byte(text), 0o644) }
	}
	link := func(path string) error { return os.Symlink("/etc/passwd", path) }
	fifo := func(path string) error { return unix.Mkfifo(path, 0o644) }
	nothing := func(string) error { return nil }
	definition := func(from, to string) func(*testing.T, string) {
		return func(t *testing.T, flow string) {
			t.Helper()
			path := filepath.Join(flow, nameFlowDef)
			text, err := os.ReadFile(path)
			must(t, err)
			changed := strings.Replace(string(text), from, to, 1)
			if changed == string(text) {
				t.Fatalf("%q is not in %s", from, text)
			}
			must(t, os.WriteFile(path, []byte(changed), 0o644))
		}
	}

	cases := []struct {
		name   string
		audio  bool
		hurt   func(*testing.T, string)
		reason string
	}{
		{"data short", false, func(t *testing.T, flow string) { must(t, os.Truncate(filepath.Join(flow, nameData), 2063)) }, "data: 2063 bytes, want 2064"},
		{"data empty", false, func(t *testing.T, flow string) { must(t, os.Truncate(filepath.Join(flow, nameData), 0)) }, "data: 0 bytes"},
		{"data missing", false, replace(nameData, nothing), "data: no such file"},
		{"data a link", false, replace(nameData, link), "data: a symbolic link"},
		{"data a fifo", false, replace(nameData, fifo), "data: not a regular file"},
		{"data a directory", false, replace(nameData, func(p string) error { return os.Mkdir(p, 0o755) }), "data: not a regular file"},
		{"version", false, scanPoke(offVersion, 2), "version is 2"},
		{"header size", false, scanPoke(offSize, 1), "size is 2049"},
		{"another id", false, scanPoke(offID, 0xEE), "data is that of flow ee"},
		{"format", false, scanPoke(offFormat, 1), "data holds format video"},
		{"unknown format", false, scanPoke(offFormat, 9), "format is 9"},
		{"rate", false, scanPoke(offRateNum, 25), "data holds rate 25/1"},
		{"rate zero", false, scanPoke(offRateNum, 0), "rate is 0/1"},
		{"device memory", false, scanPoke(offLocation, 1), "not in host memory"},
		{"no grains", false, scanPoke(offGrainCount, 0), "grain count is 0"},
		{"slices", false, scanPoke(offSliceSizes, 9), "slices of [9 0 0 0]"},
		{"channels", true, scanPoke(offChannelCount, 3), "data holds 3 channels"},
		{"copied", false, scanPoke(offInode, 0xFF), "a copied flow"},
		{"definition missing", false, replace(nameFlowDef, nothing), "flow_def.json: no such file"},
		{"definition a link", false, replace(nameFlowDef, link), "flow_def.json: a symbolic link"},
		{"definition a fifo", false, replace(nameFlowDef, fifo), "flow_def.json: not a regular file"},
		{"definition empty", false, replace(nameFlowDef, write("")), "flow_def.json: "},
		{"definition no JSON", false, replace(nameFlowDef, write("{{")), "flow_def.json: "},
		{"definition huge", false, replace(nameFlowDef, func(p string) error { return os.WriteFile(p, make([]byte, scanDefinitionLimit+1), 0o644) }), "too large: 65537 bytes"},
		{"definition unreadable", false, replace(nameFlowDef, func(p string) error { return os.WriteFile(p, nil, 0) }), "flow_def.json: "},
		{"definition of another flow", false, definition(`"id":"`, `"id":"0000`), "flow_def.json"},
		{"media type", false, definition("video/smpte291", "video/raw"), "video/raw"},
		{"format word", false, definition("format:data", "format:mux"), "mux"},
		{"grain missing", false, replace("grains/data.3", nothing), "data.3"},
		{"grain short", false, func(t *testing.T, flow string) { must(t, os.Truncate(filepath.Join(flow, "grains/data.0"), 9000)) }, "data.0"},
		{"grain a link", false, replace("grains/data.1", link), "data.1"},
		{"grains missing", false, replace("grains", nothing), "grains"},
		{"channels short", true, func(t *testing.T, flow string) { must(t, os.Truncate(filepath.Join(flow, nameChannels), 4096)) }, "channels"},
		{"channels missing", true, replace(nameChannels, nothing), "channels"},
	}

	root := scanTestRoot(t)
	d := scanTestDomain(t, root, "a", `{"id":"dom-1"}`)
	sound := uuid.New()
	scanTestFlow(t, d, sound)
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			id := uuid.MustParse("11111111-2222-4333-8444-555555555555")
			flow := filepath.Join(d.Path(), FlowDirName(id))
			if c.audio {
				w, _, err := d.CreateContinuousWriter(scanTestAudioDef(id), FlowOptions{})
				must(t, err)
				w.Close()
			} else {
				w, _, err := d.CreateDiscreteWriter(scanTestDataDef(id), FlowOptions{})
				must(t, err)
				w.Close()
			}
			defer os.RemoveAll(flow)
			snap, err := ScanRoot(root, "here")
			must(t, err)
			if r := snap.Domains[0].Flow(id).Reason; r != "" {
				t.Fatalf("sound flow is not replicable: %s", r)
			}
			c.hurt(t, flow)
			if snap, err = ScanRoot(root, "here"); err != nil {
				t.Fatal(err)
			}
			f := snap.Domains[0].Flow(id)
			if f == nil || !strings.Contains(f.Reason, c.reason) || f.Replicable() {
				t.Errorf("flow %+v, want a reason with %q", f, c.reason)
			} else {
				t.Log(f.Reason)
			}
			if s := snap.Domains[0].Flow(sound); s == nil || !s.Replicable() || !s.Active {
				t.Errorf("the sound flow beside it: %+v", s)
			}
		})
	}
}

func TestScannerNamesBadFlowDirectories(t *testing.T) {
	root := scanTestRoot(t)
	d := scanTestDomain(t, root, "a", `{"id":"dom-1"}`)
	id := uuid.New()
	scanTestFlow(t, d, id)
	for _, name := range []string{"nonsense" + FlowSuffix, strings.ToUpper(id.String()) + FlowSuffix, "{" + id.String() + "}" + FlowSuffix, FlowSuffix} {
		if err := os.Mkdir(filepath.Join(d.Path(), name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	other := uuid.New()
	if err := os.Symlink(filepath.Join(d.Path(), FlowDirName(id)), filepath.Join(d.Path(), FlowDirName(other))); err != nil {
		t.Fatal(err)
	}
	third := uuid.New()
	scanPut(t, filepath.Join(d.Path(), FlowDirName(third)), "a file")
	scanPut(t, filepath.Join(d.Path(), "README"), "a file")
	if err := os.Mkdir(filepath.Join(d.Path(), ".mxl-tmp-XXXXXXXXXXabcdef"), 0o700); err != nil {
		t.Fatal(err)
	}
	snap, err := ScanRoot(root, "here")
	if err != nil {
		t.Fatal(err)
	}
	reasons := map[string]string{}
	for _, f := range snap.Domains[0].Flows {
		reasons[f.Directory] = f.Reason
	}
	for name, want := range map[string]string{
		FlowDirName(id):                           "",
		"nonsense" + FlowSuffix:                   "not a flow id",
		strings.ToUpper(id.String()) + FlowSuffix: "not the canonical form",
		"{" + id.String() + "}" + FlowSuffix:      "not the canonical form",
		FlowDirName(other):                        "symbolic link",
		FlowDirName(third):                        "not a directory",
	} {
		got, ok := reasons[name]
		if !ok || (want == "") != (got == "") || !strings.Contains(got, want) {
			t.Errorf("%s: reason %q, want %q", name, got, want)
		}
		delete(reasons, name)
	}
	delete(reasons, FlowSuffix) // hidden by its dot
	if len(reasons) != 0 {
		t.Errorf("also listed: %v", reasons)
	}
}

func TestScannerNamesBadDomains(t *testing.T) {
	root := scanTestRoot(t)
	for dir, def := range map[string]string{
		"good": `{"id":"good"}`, "array": `[1]`, "null": `null`, "noid": `{"ID":"x"}`, "emptyid": `{"id":""}`, "numid": `{"id":7}`,
		"slash": `{"id":"../../etc"}`, "control": "{\"id\":\"a\\u0000b\"}", "long": `{"id":"` + strings.Repeat("x", 201) + `"}`,
		"half": `{"id":"x"`, "nodef": "",
		"huge": `{"id":"x","label":"` + strings.Repeat("x", 1<<20) + `"}`,
	} {
		scanTestDomain(t, root, dir, def)
	}
	for name, target := range map[string]string{"linkdef": "/etc/passwd", "fifodef": ""} {
		if err := os.Mkdir(filepath.Join(root, name), 0o755); err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(root, name, nameDomainDef)
		var err error
		if target != "" {
			err = os.Symlink(target, path)
		} else {
			err = unix.Mkfifo(path, 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(filepath.Join(root, "good"), filepath.Join(root, "linkdir")); err != nil {
		t.Fatal(err)
	}
	scanPut(t, filepath.Join(root, "file"), "")
	if err := unix.Mkfifo(filepath.Join(root, "fifo"), 0o644); err != nil {
		t.Fatal(err)
	}
	scanPut(t, filepath.Join(root, "good", nameOptions), `[]`)

	snap, err := ScanRoot(root, "here")
	if err != nil {
		t.Fatal(err)
	}
	if len(snap.Domains) != 1 || snap.Domains[0].ID != "good" || string(snap.Domains[0].Options) != "{}" {
		t.Errorf("domains %+v", snap.Domains)
	}
	named := map[string]string{}
	for _, p := range snap.Problems {
		named[strings.TrimPrefix(p.Path, root+"/")] = p.Reason
	}
	for name, want := range map[string]string{
		"array": "not a JSON object", "null": "not a JSON object", "noid": "no id", "emptyid": "no id", "numid": "no id", "slash": "directory name",
		"control": "directory name", "long": "201 bytes", "half": "not a JSON object", "huge": "too large", "linkdef": "symbolic link",
		"fifodef": "not a regular file", "linkdir": "symbolic link", "good/options.json": "not a JSON object",
	} {
		if !strings.Contains(named[name], want) {
			t.Errorf("%s: %q, want %q", name, named[name], want)
		}
		delete(named, name)
	}
	if len(named) != 0 {
		t.Errorf("also named: %v", named)
	}
}

func TestDomainClasses(t *testing.T) {
	for def, want := range map[string]DomainClass{
		`{"id":"x"}`: DomainLocal,
		`{"id":"x","x-mxl-fabrics-agent":{"mirror":true,"source_host_id":"far","owner_host_id":"here"}}`:  DomainMirror,
		`{"id":"x","x-mxl-fabrics-agent":{"mirror":true,"source_host_id":"far","owner_host_id":"other"}}`: DomainConflict,
		`{"id":"x","x-mxl-fabrics-agent":{"mirror":true}}`:                                                DomainConflict,
		`{"id":"x","x-mxl-fabrics-agent":{"mirror":false,"owner_host_id":"here"}}`:                        DomainLocal,
		`{"id":"x","x-mxl-fabrics-agent":{"mirror":"true","owner_host_id":"here"}}`:                       DomainLocal,
		`{"id":"x","x-mxl-fabrics-agent":"mirror"}`:                                                       DomainLocal,
	} {
		d, err := parseDomainIdentity([]byte(def), "here")
		if err != nil || d.class != want {
			t.Errorf("%s: %s %v, want %s", def, d.class, err, want)
		}
	}
}

func TestOneIDInSeveralDirectories(t *testing.T) {
	flows := func(active, live bool) []FlowRecord { return []FlowRecord{{Active: active, Live: live}} }
	rec := func(dir string, class DomainClass, f []FlowRecord) DomainRecord {
		return DomainRecord{ID: "x", Class: class, Directory: dir, Path: "/mxl/" + dir, Flows: f}
	}
	for name, c := range map[string]struct {
		found   []DomainRecord
		current string
		want    []string
	}{
		"first by name":           {[]DomainRecord{rec("b", DomainLocal, nil), rec("a", DomainLocal, nil)}, "", []string{"a"}},
		"the one listed before":   {[]DomainRecord{rec("b", DomainLocal, nil), rec("a", DomainLocal, nil)}, "b", []string{"b"}},
		"the one with a writer":   {[]DomainRecord{rec("b", DomainLocal, flows(true, false)), rec("a", DomainLocal, nil)}, "a", []string{"b"}},
		"the live one":            {[]DomainRecord{rec("b", DomainLocal, flows(true, true)), rec("a", DomainLocal, flows(true, false))}, "a", []string{"b"}},
		"both live, as before":    {[]DomainRecord{rec("b", DomainLocal, flows(true, true)), rec("a", DomainLocal, flows(true, true))}, "b", []string{"b"}},
		"local and mirror":        {[]DomainRecord{rec("mirror-x", DomainMirror, flows(true, true)), rec("a", DomainLocal, nil)}, "", []string{"a", "mirror-x"}},
		"one of each, one of two": {[]DomainRecord{rec("m2", DomainMirror, nil), rec("m1", DomainMirror, nil), rec("a", DomainLocal, nil)}, "", []string{"a", "m1"}},
	} {
		t.Run(name, func(t *testing.T) {
			listed, problems := chooseDomains(c.found, func(string, DomainClass) string { return c.current })
			var got []string
			for _, d := range listed {
				got = append(got, d.Directory)
			}
			if strings.Join(got, " ") != strings.Join(c.want, " ") || len(problems) != len(c.found)-len(c.want) {
				t.Errorf("listed %v, problems %v, want %v", got, problems, c.want)
			}
			for _, p := range problems {
				if !strings.Contains(p.Reason, "already that of directory") {
					t.Errorf("problem %v", p)
				}
			}
		})
	}
}

func TestFaultsAreLoggedOnceUntilTheyChange(t *testing.T) {
	root := scanTestRoot(t)
	d := scanTestDomain(t, root, "a", `{"id":"dom-1"}`)
	id := uuid.New()
	w := scanTestFlow(t, d, id)
	s, log := scanTestRun(t, root, 2*time.Millisecond)
	data := filepath.Join(d.Path(), FlowDirName(id), nameData)
	scans := func(n int) {
		for range n {
			taken := s.Snapshot().Taken
			scanWaitFor(t, "a scan", func() bool { return s.Snapshot().Taken.After(taken) })
		}
	}
	poke := func(offset int64, v byte) {
		f, err := os.OpenFile(data, os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if _, err := f.WriteAt([]byte{v}, offset); err != nil {
			t.Fatal(err)
		}
	}
	poke(offVersion, 2)
	scanWaitFor(t, "the fault in the log", func() bool { return log.count("flow_not_replicable") == 1 })
	scans(5)
	if n := log.count("flow_not_replicable"); n != 1 {
		t.Errorf("named %d times", n)
	}
	poke(offVersion, 3)
	scanWaitFor(t, "another fault in the log", func() bool { return log.count("flow_not_replicable") == 2 })
	poke(offVersion, 1)
	scanWaitFor(t, "the end in the log", func() bool { return log.count("scan_fault_over") == 1 })
	scans(2)
	for _, want := range []string{"domain_id=dom-1", "flow_id=" + id.String(), "reason=", "version is 2", "version is 3"} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("%q is not in the log:\n%s", want, log)
		}
	}
	_ = w
}

// A flow that is being deleted loses its files one by one: that is no fault to report.
func TestAFlowBeingDeletedIsNoFault(t *testing.T) {
	root := scanTestRoot(t)
	d := scanTestDomain(t, root, "a", `{"id":"dom-1"}`)
	id := uuid.New()
	w := scanTestFlow(t, d, id)
	s, log := scanTestRun(t, root, 2*time.Millisecond)
	w.Close()
	scanAwait(t, s, "inactive", func(s *Snapshot) bool { return !s.Domains[0].Flow(id).Active })
	if err := os.Remove(filepath.Join(d.Path(), FlowDirName(id), nameData)); err != nil {
		t.Fatal(err)
	}
	scanAwait(t, s, "unlisted", func(s *Snapshot) bool { return len(s.Domains[0].Flows) == 0 })
	if log.count("flow_not_replicable") != 0 {
		t.Errorf("log:\n%s", log)
	}
	snap := scanAwait(t, s, "leftover listed after a while", func(s *Snapshot) bool { return len(s.Domains[0].Flows) == 1 })
	if snap.Domains[0].Flows[0].Replicable() {
		t.Error("a flow without data is replicable")
	}
}

func TestRootOpensNoSymbolicLinkWithAndWithoutOpenat2(t *testing.T) {
	dir := scanTestRoot(t)
	for _, p := range []string{"a/b", "out"} {
		if err := os.MkdirAll(filepath.Join(dir, p), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	scanPut(t, filepath.Join(dir, "a/b/file"), "text")
	for name, target := range map[string]string{"a/link": "b", "a/b/linkfile": "file", "a/abs": dir + "/a/b"} {
		if err := os.Symlink(target, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	for _, stepwise := range []bool{false, true} {
		root, err := openScanRoot(dir)
		if err != nil {
			t.Fatal(err)
		}
		root.stepwise.Store(stepwise)
		if text, _, err := root.read("a/b/file", 10); err != nil || string(text) != "text" {
			t.Errorf("stepwise %v: read %q, %v", stepwise, text, err)
		}
		if _, _, err := root.read("a/b/file", 3); err == nil {
			t.Errorf("stepwise %v: 4 bytes read with a limit of 3", stepwise)
		}
		for _, bad := range []string{"a/link/file", "a/b/linkfile", "a/abs/file", "a/../../etc/passwd", "../x", "a/none"} {
			if text, _, err := root.read(bad, 1<<20); err == nil {
				t.Errorf("stepwise %v: %s gave %d bytes", stepwise, bad, len(text))
			}
		}
		root.close()
	}
}

func TestHeadLive(t *testing.T) {
	now := uint64(1_700_000_000_000_000_000)
	p50 := Rational{50, 1}
	head := p50.IndexAt(now)
	for _, c := range []struct {
		head uint64
		rate Rational
		want bool
	}{
		{head, p50, true}, {head - 100, p50, true}, {head - 250, p50, true}, {head - 251, p50, false}, {head + 250, p50, true},
		{head + 251, p50, false}, {0, p50, false}, {UndefinedIndex, p50, false}, {head, Rational{}, false}, {head, Rational{0, 1}, false},
		{head - 50*86400, p50, false},
	} {
		if got := headLive(c.head, c.rate, now); got != c.want {
			t.Errorf("headLive(%d, %v) = %v", c.head, c.rate, got)
		}
	}
}

func FuzzDomainDefinition(f *testing.F) {
	f.Add([]byte(`{"id":"x","x-mxl-fabrics-agent":{"mirror":true,"owner_host_id":"here"}}`))
	f.Add([]byte(`{"id":"x/y"}`))
	f.Add([]byte(`null`))
	f.Fuzz(func(t *testing.T, text []byte) {
		d, err := parseDomainIdentity(text, "here")
		if err == nil && (d.id == "" || strings.ContainsAny(d.id, "/\x00") || len(d.id) > maxDomainID) {
			t.Errorf("id %q", d.id)
		}
		options, _, _ := parseDomainOptions(text)
		if !json.Valid(options) || len(options) == 0 {
			t.Errorf("options %q", options)
		}
	})
}

// FuzzFlowHeader judges a sound flow whose data file holds anything.
func FuzzFlowHeader(f *testing.F) {
	id := uuid.MustParse("11111111-2222-4333-8444-555555555555")
	d := scanTestDomain(f, scanTestRoot(f), "a", `{"id":"dom-1"}`)
	w, _, err := d.CreateDiscreteWriter(scanTestDataDef(id), FlowOptions{})
	if err != nil {
		f.Fatal(err)
	}
	inode := w.Inode()
	w.Close()
	sound, err := os.ReadFile(filepath.Join(d.Path(), FlowDirName(id), nameData))
	if err != nil {
		f.Fatal(err)
	}
	def, err := ParseFlowDef(scanTestDataDef(id))
	if err != nil {
		f.Fatal(err)
	}
	facts := flowFacts{name: FlowDirName(id), id: id, def: def, header: sound, inode: inode}
	if r := flowReason(facts); r != "" {
		f.Fatalf("a sound flow is not replicable: %s", r)
	}
	f.Add(sound)
	f.Add(sound[:100])
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, header []byte) {
		facts := facts
		facts.header = header
		reason := flowReason(facts)
		rec := FlowRecord{Def: def, Active: true}
		fillRecord(&rec, header, DefaultHistoryNS, 1_700_000_000_000_000_000)
		if rec.RingDepth == 0 || rec.PayloadSize != 4096 {
			t.Errorf("record %+v", rec)
		}
		if reason == "" && (len(header) < dataFileSize || rec.Rate != (Rational{50, 1}) || le.Uint64(header[offInode:]) != inode) {
			t.Errorf("replicable with header %x", header)
		}
	})
}
