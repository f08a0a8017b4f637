package mirror

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mxl-stack/mxl-fabrics-agent/mxl"
)

func TestEnsureFlowMakesAMirrorDomain(t *testing.T) {
	r := openRoom(t, shmRoot(t))
	for i, kind := range []string{"data", "audio", "video"} {
		o := origin(kind, i+1)
		o.Options = []byte(`{"urn:x-mxl:option:history_duration/v1.0": 100000000}`)
		f, created, err := r.EnsureFlow(o)
		if err != nil || !created {
			t.Fatalf("%s: created %v, %v", kind, created, err)
		}
		if (f.Discrete != nil) == (kind == "audio") || (f.Continuous != nil) != (kind == "audio") {
			t.Errorf("%s: wrong writer", kind)
		}
		text, err := os.ReadFile(flowPath(r, o.Key, "flow_def.json"))
		if err != nil || !bytes.Equal(text, o.FlowDef) {
			t.Errorf("%s: flow_def.json is not the origin's to the byte: %v", kind, err)
		}
		if got := inodeOf(t, flowPath(r, o.Key, "data")); got != f.Inode {
			t.Errorf("%s: inode %d, file has %d", kind, f.Inode, got)
		}
		if !isLocked(t, r, o.Key) {
			t.Errorf("%s: no writer lock", kind)
		}
		again, created, err := r.EnsureFlow(o)
		if err != nil || created || again != f {
			t.Errorf("%s: a second EnsureFlow gave another flow: %v, %v", kind, created, err)
		}
	}
	dir := r.domainPath(testDomain)
	options, err := os.ReadFile(filepath.Join(dir, "options.json"))
	if err != nil || !strings.Contains(string(options), "100000000") {
		t.Errorf("options.json: %q, %v", options, err)
	}
	var def map[string]any
	text, err := os.ReadFile(filepath.Join(dir, "domain_def.json"))
	if err != nil || json.Unmarshal(text, &def) != nil {
		t.Fatalf("domain_def.json: %q, %v", text, err)
	}
	mark, _ := def[markerMember].(map[string]any)
	if def["id"] != testDomain || def["label"] != "mirror "+testDomain || mark["mirror"] != true ||
		mark["source_host_id"] != testSource || mark["owner_host_id"] != testHost {
		t.Errorf("domain_def.json: %s", text)
	}
	if _, ok := def["tags"].(map[string]any); !ok || def["description"] == "" {
		t.Errorf("domain_def.json without tags or description: %s", text)
	}
	if entries := list(t, r.path); len(entries) != 1 {
		t.Errorf("the root holds %v", entries)
	}
	if entries := list(t, dir); len(entries) != 5 {
		t.Errorf("the domain holds %v", entries)
	}
}

func TestMirrorFilesAreReadableWhateverTheUmask(t *testing.T) {
	old := umask(0o077)
	defer umask(old)
	r := openRoom(t, shmRoot(t))
	o := origin("data", 1)
	mustEnsure(t, r, o)
	err := filepath.Walk(r.domainPath(testDomain), func(path string, info os.FileInfo, err error) error {
		if err != nil {
			return err
		}
		want := os.FileMode(0o644)
		if info.IsDir() {
			want = 0o755
		}
		if info.Mode().Perm()&^0o022 != want {
			t.Errorf("%s has mode %v, want %v", path, info.Mode().Perm(), want)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestRestartKeepsInodesAndContent(t *testing.T) {
	root := shmRoot(t)
	first := openRoom(t, root)
	o, a := origin("data", 1), origin("audio", 2)
	f := mustEnsure(t, first, o)
	writeGrain(t, f, 77)
	inode, audio := f.Inode, mustEnsure(t, first, a).Inode
	if _, err := first.Close(false); err != nil {
		t.Fatal(err)
	}
	if !isLocked(t, first, o.Key) {
		t.Error("Close without cleanup let go of the lock")
	}
	if _, _, err := first.EnsureFlow(o); !errors.Is(err, ErrClosed) {
		t.Errorf("a closed room: %v", err)
	}
	if err := first.letGo(); err != nil { // the process ends
		t.Fatal(err)
	}

	second := openRoom(t, root)
	list, err := second.Adopt()
	if err != nil {
		t.Fatal(err)
	}
	if len(list) != 1 || len(list[0].Flows) != 2 || list[0].SourceHost != testSource {
		t.Fatalf("adopted %+v", list)
	}
	on := list[0].Flows[0]
	if on.Key != o.Key || on.Inode != inode || on.Head != 77 || !on.Held || on.MediaType != "video/smpte291" || !strings.HasPrefix(on.Label, "flow ") {
		t.Errorf("adopted %+v", on)
	}
	if !isLocked(t, second, o.Key) || !isLocked(t, second, a.Key) {
		t.Error("an adopted flow is not locked: garbage collection would take it")
	}
	domain, err := mxl.OpenDomain(second.domainPath(testDomain))
	if err != nil {
		t.Fatal(err)
	}
	if ids, err := domain.CollectGarbage(); err != nil || len(ids) != 0 {
		t.Errorf("garbage collection took %v, %v", ids, err)
	}
	again, created, err := second.EnsureFlow(o)
	if err != nil || created || again.Inode != inode || again.Head() != 77 {
		t.Errorf("re-opened: created %v, %+v, %v", created, again, err)
	}
	if got := mustEnsure(t, second, a).Inode; got != audio {
		t.Errorf("audio inode %d, was %d", got, audio)
	}
}

func TestAdoptClearsWhatACrashLeft(t *testing.T) {
	root := shmRoot(t)
	first := openRoom(t, root)
	o := origin("data", 1)
	mustEnsure(t, first, o)
	_ = first.letGo()
	domain := filepath.Join(root, dirPrefix+testDomain)
	half := filepath.Join(domain, ".mxl-tmp-XXXXXXXXXXabc123")
	mkdirAll(t, filepath.Join(half, "grains"))
	write(t, filepath.Join(half, "data"), "x")
	write(t, filepath.Join(half, "grains", "data.0"), "x")
	mkdirAll(t, filepath.Join(domain, ".mxl-tmp-gone-"+o.FlowID.String()))
	aside := filepath.Join(root, asidePrefix(testHost)+"1-1")
	mkdirAll(t, aside)
	write(t, filepath.Join(aside, "options.json"), "{}")
	foreign := filepath.Join(root, asidePrefix("node-c")+"1-1")
	mkdirAll(t, foreign)
	unfinished := filepath.Join(root, dirPrefix+"unfinished")
	mkdirAll(t, unfinished)
	text, _ := definition("unfinished", testSource, testHost)
	write(t, filepath.Join(unfinished, "options.json"), "{}")
	write(t, filepath.Join(unfinished, unfinishedFile), string(text))

	second := openRoom(t, root)
	if _, err := second.Adopt(); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{half, aside, filepath.Join(domain, ".mxl-tmp-gone-"+o.FlowID.String())} {
		if exists(path) {
			t.Errorf("%s is still there", path)
		}
	}
	if !exists(foreign) {
		t.Error("another agent's domain under construction was removed")
	}
	if !exists(filepath.Join(unfinished, definitionFile)) || exists(filepath.Join(unfinished, unfinishedFile)) {
		t.Error("a domain whose last step was missing was not finished")
	}
	if second.Held(o.Key) == nil {
		t.Error("the whole flow was not adopted")
	}
}

func TestSweepLeavesAFlowThatSomebodyBuilds(t *testing.T) {
	r := openRoom(t, shmRoot(t))
	o := origin("data", 1)
	mustEnsure(t, r, o)
	half := filepath.Join(r.domainPath(testDomain), ".mxl-tmp-XXXXXXXXXXabc123")
	mkdirAll(t, half)
	write(t, filepath.Join(half, "data"), "x")
	unlock := lockShared(t, filepath.Join(half, "data"))
	if err := r.Sweep(); err != nil || !exists(half) {
		t.Fatalf("a locked half-made flow was swept: %v", err)
	}
	unlock()
	if err := r.Sweep(); err != nil || exists(half) {
		t.Fatalf("an abandoned half-made flow was kept: %v", err)
	}
}

func TestForeignDirectoriesAreNeverTouched(t *testing.T) {
	mine, _ := definition(testDomain, testSource, testHost)
	cases := []struct {
		name string
		make func(t *testing.T, dir string)
	}{
		{"another owner", func(t *testing.T, dir string) {
			text, _ := definition(testDomain, testSource, "node-c")
			mkdirAll(t, dir)
			write(t, filepath.Join(dir, definitionFile), string(text))
		}},
		{"another id", func(t *testing.T, dir string) {
			text, _ := definition("other", testSource, testHost)
			mkdirAll(t, dir)
			write(t, filepath.Join(dir, definitionFile), string(text))
		}},
		{"no marker", func(t *testing.T, dir string) {
			mkdirAll(t, dir)
			write(t, filepath.Join(dir, definitionFile), `{"id":"`+testDomain+`","label":"a function's own"}`)
		}},
		{"marker says no mirror", func(t *testing.T, dir string) {
			mkdirAll(t, dir)
			write(t, filepath.Join(dir, definitionFile), strings.Replace(string(mine), "true", "false", 1))
		}},
		{"no definition", func(t *testing.T, dir string) {
			mkdirAll(t, dir)
			write(t, filepath.Join(dir, "options.json"), "{}")
		}},
		{"definition is no JSON", func(t *testing.T, dir string) {
			mkdirAll(t, dir)
			write(t, filepath.Join(dir, definitionFile), "mirror")
		}},
		{"definition is a link", func(t *testing.T, dir string) {
			mkdirAll(t, dir)
			elsewhere := filepath.Join(filepath.Dir(dir), "elsewhere.json")
			write(t, elsewhere, string(mine))
			symlink(t, elsewhere, filepath.Join(dir, definitionFile))
		}},
		{"definition is huge", func(t *testing.T, dir string) {
			mkdirAll(t, dir)
			write(t, filepath.Join(dir, definitionFile), string(mine)+strings.Repeat(" ", largestText))
		}},
		{"a link to a domain of ours", func(t *testing.T, dir string) {
			real := filepath.Join(filepath.Dir(dir), "real")
			mkdirAll(t, real)
			write(t, filepath.Join(real, definitionFile), string(mine))
			symlink(t, real, dir)
		}},
		{"a file", func(t *testing.T, dir string) { write(t, dir, string(mine)) }},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			root := shmRoot(t)
			c.make(t, filepath.Join(root, dirPrefix+testDomain))
			before := tree(t, root)
			r := openRoom(t, root)
			if adopted, err := r.Adopt(); err != nil || len(adopted) != 0 {
				t.Errorf("adopted %+v, %v", adopted, err)
			}
			o := origin("data", 1)
			if _, _, err := r.EnsureFlow(o); err == nil {
				t.Error("EnsureFlow made a mirror in it")
			}
			if _, err := r.RemoveFlow(t.Context(), o.Key, OriginGone); err == nil {
				t.Error("RemoveFlow did something")
			}
			if _, err := r.RemoveDomain(t.Context(), testDomain, Delete); !errors.Is(err, ErrNotMirror) {
				t.Errorf("RemoveDomain: %v", err)
			}
			if _, err := r.Close(true); err != nil {
				t.Error(err)
			}
			if after := tree(t, root); after != before {
				t.Errorf("the root changed:\n%s\nto\n%s", before, after)
			}
		})
	}
}

func TestForeignIsLoggedOnce(t *testing.T) {
	root := shmRoot(t)
	text, _ := definition(testDomain, testSource, "node-c")
	mkdirAll(t, filepath.Join(root, dirPrefix+testDomain))
	write(t, filepath.Join(root, dirPrefix+testDomain, definitionFile), string(text))
	log, lines := recorder()
	r := openRoom(t, root, func(c *Config) { c.Log = log })
	for range 5 {
		if _, _, err := r.EnsureFlow(origin("data", 1)); !errors.Is(err, ErrForeign) {
			t.Fatal(err)
		}
		r.InTheWay(testDomain)
	}
	if n := strings.Count(lines.String(), "mirror_domain_id_mismatch"); n != 1 {
		t.Errorf("logged %d times:\n%s", n, lines)
	}
}

func TestDomainIDsThatAreNoDirectoryName(t *testing.T) {
	root := shmRoot(t)
	r := openRoom(t, root)
	for _, id := range []string{"", "../x", "a/b", "/", "x\x00y", "x\ny", "\xff", strings.Repeat("x", 241)} {
		o := origin("data", 1)
		o.DomainID = id
		if _, _, err := r.EnsureFlow(o); !errors.Is(err, ErrDomainID) {
			t.Errorf("%q: %v", id, err)
		}
		if _, err := r.RemoveDomain(t.Context(), id, Delete); !errors.Is(err, ErrNotMirror) {
			t.Errorf("%q: RemoveDomain %v", id, err)
		}
	}
	for _, id := range []string{"..", ".", "Studio 1", "ünï", strings.Repeat("x", 240)} {
		o := origin("data", 1)
		o.DomainID = id
		mustEnsure(t, r, o)
		if !exists(filepath.Join(root, dirPrefix+id, flowDir(o.FlowID))) {
			t.Errorf("%q is not where it belongs: %v", id, list(t, root))
		}
	}
}

func TestDefinitionsThatAreNotTheFlows(t *testing.T) {
	root := shmRoot(t)
	r := openRoom(t, root)
	o := origin("data", 1)
	o.FlowDef = origin("data", 2).FlowDef
	if _, _, err := r.EnsureFlow(o); err == nil || !strings.Contains(err.Error(), "has the id") {
		t.Errorf("another id: %v", err)
	}
	if _, _, err := r.EnsureFlow(origin("data", 1).edit("grain_rate", 0)); err == nil {
		t.Error("a definition without a rate was accepted")
	}
	if entries := list(t, root); len(entries) != 0 {
		t.Errorf("the root holds %v", entries)
	}
}

func TestAnotherDefinitionIsADifference(t *testing.T) {
	root := shmRoot(t)
	held := openRoom(t, root)
	video := origin("video", 1)
	inode := mustEnsure(t, held, video).Inode
	cases := []struct {
		name   string
		origin Origin
		same   bool
	}{
		{"label", video.edit("label", "renamed"), true},
		{"description", video.edit("description", "another"), true},
		{"tags", video.edit("tags", map[string][]string{"urn:x-nmos:tag:grouphint/v1.0": {"other:video"}}), true},
		{"parents", video.edit("parents", []string{"00000000-0000-4000-8000-000000000099"}), true},
		{"version", video.edit("version", "1:0"), true},
		{"source_id", video.edit("source_id", "00000000-0000-4000-8000-000000000098"), true},
		{"device_id", video.edit("device_id", "00000000-0000-4000-8000-000000000097"), true},
		{"rate", video.edit("grain_rate", map[string]int{"numerator": 25, "denominator": 1}), false},
		{"media type", video.edit("media_type", "video/v210a"), false},
		{"width", video.edit("frame_width", 1280), false},
		{"height", video.edit("frame_height", 720), false},
		{"format", Origin{Key: video.Key, SourceHost: testSource, FlowDef: origin("audio", 1).FlowDef}, false},
	}
	check := func(t *testing.T, r *Room, o Origin, same bool) {
		t.Helper()
		f, created, err := r.EnsureFlow(o)
		if same {
			if err != nil || created || f.Inode != inode {
				t.Errorf("not kept: created %v, %v", created, err)
			}
			return
		}
		var differs *DiffersError
		if !errors.As(err, &differs) || !errors.Is(err, ErrDiffers) || len(differs.Members) == 0 {
			t.Errorf("no difference: %v", err)
		}
	}
	for _, c := range cases {
		t.Run("held "+c.name, func(t *testing.T) { check(t, held, c.origin, c.same) })
		t.Run("on disk "+c.name, func(t *testing.T) {
			fresh := openRoom(t, root)
			check(t, fresh, c.origin, c.same)
		})
	}
}

func TestDamagedFlowIsADifference(t *testing.T) {
	root := shmRoot(t)
	first := openRoom(t, root)
	o := origin("data", 1)
	mustEnsure(t, first, o)
	_ = first.letGo()
	if err := os.Remove(filepath.Join(root, dirPrefix+testDomain, flowDir(o.FlowID), "grains", "data.3")); err != nil {
		t.Fatal(err)
	}
	r := openRoom(t, root)
	list, err := r.Adopt()
	if err != nil || len(list) != 1 || len(list[0].Flows) != 1 || list[0].Flows[0].Err == nil || list[0].Flows[0].Held {
		t.Fatalf("a damaged flow was adopted: %+v, %v", list, err)
	}
	var differs *DiffersError
	if _, _, err := r.EnsureFlow(o); !errors.As(err, &differs) || differs.Damaged == nil {
		t.Fatalf("EnsureFlow: %v", err)
	}
	done, err := r.ReplaceFlow(t.Context(), o)
	if err != nil || done.Flow == nil || done.Flow.Inode == done.OldInode {
		t.Fatalf("ReplaceFlow: %+v, %v", done, err)
	}
	if again := mustEnsure(t, r, o); again.Inode != done.Flow.Inode {
		t.Error("the new flow is not held")
	}
}

func TestAFlowThatSomethingElseReplaced(t *testing.T) {
	r := openRoom(t, shmRoot(t))
	o := origin("data", 1)
	old := mustEnsure(t, r, o)
	if err := os.RemoveAll(flowPath(r, o.Key)); err != nil {
		t.Fatal(err)
	}
	var differs *DiffersError
	if _, _, err := r.EnsureFlow(o); !errors.As(err, &differs) || differs.Damaged == nil {
		t.Fatalf("a vanished mirror: %v", err)
	}
	done, err := r.ReplaceFlow(t.Context(), o)
	if err != nil || done.Flow == nil || done.Flow.Inode == old.Inode {
		t.Fatalf("ReplaceFlow: %+v, %v", done, err)
	}
}

// BenchmarkSurvey is what a reconcile pass costs on disk with 100 mirror flows
// in 10 domains.
func BenchmarkSurvey(b *testing.B) {
	r := openRoom(b, shmRoot(b))
	origins := make([]Origin, 0, 100)
	for i := range 100 {
		o := origin("data", i+1)
		o.DomainID = fmt.Sprintf("domain-%d", i%10)
		mustEnsure(b, r, o)
		origins = append(origins, o)
	}
	b.Run("survey", func(b *testing.B) {
		for b.Loop() {
			if list, err := r.Survey(); err != nil || len(list) != 10 {
				b.Fatal(err)
			}
		}
	})
	b.Run("ensure held", func(b *testing.B) {
		for b.Loop() {
			for _, o := range origins {
				if _, _, err := r.EnsureFlow(o); err != nil {
					b.Fatal(err)
				}
			}
		}
	})
	b.Run("watched", func(b *testing.B) {
		for b.Loop() {
			if w := r.Watched(); w.Err != nil {
				b.Fatal(w.Err)
			}
		}
	})
}
