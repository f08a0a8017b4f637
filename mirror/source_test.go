package mirror

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestWithSource(t *testing.T) {
	const mark = `"x-mxl-fabrics-agent":{"mirror":true,"source_host_id":"node-a","owner_host_id":"node-b"}`
	for _, tc := range []struct{ name, text, want string }{
		{"as the original writes it", `{"id":"d",` + mark + `}`, `{"id":"d","x-mxl-fabrics-agent":{"mirror":true,"source_host_id":"node-c","owner_host_id":"node-b"}}`},
		{"everything else to the byte", "{ \"n\" : 1.50,\n\t\"x-mxl-fabrics-agent\" : {\"x\":[{\"source_host_id\":\"q\"}], \"source_host_id\"  :\t\"node-a\" , \"mirror\":true, \"owner_host_id\":\"b\"}, \"source_host_id\":\"p\", \"id\":\"d\" }\n",
			"{ \"n\" : 1.50,\n\t\"x-mxl-fabrics-agent\" : {\"x\":[{\"source_host_id\":\"q\"}], \"source_host_id\"  :\t\"node-c\" , \"mirror\":true, \"owner_host_id\":\"b\"}, \"source_host_id\":\"p\", \"id\":\"d\" }\n"},
		{"twice", `{"id":"d","x-mxl-fabrics-agent":{"source_host_id":"p","source_host_id":"node-a"}}`, `{"id":"d","x-mxl-fabrics-agent":{"source_host_id":"node-c","source_host_id":"node-c"}}`},
		{"none", `{"id":"d","x-mxl-fabrics-agent":{"mirror":true}}`, ""},
		{"in another spelling", `{"id":"d","x-mxl-fabrics-agent":{"Source_Host_ID":"node-a"}}`, ""},
		{"no marker", `{"id":"d"}`, ""},
		{"no object", `[1]`, ""},
		{"cut off", `{"id":"d",` + mark, ""},
	} {
		got, err := withSource([]byte(tc.text), "node-c")
		if string(got) != tc.want || (err == nil) != (tc.want != "") {
			t.Errorf("%s: %s, %v", tc.name, got, err)
		}
	}
	if got, err := withSource([]byte(`{"id":"d",`+mark+`}`), "a\"\u2028b"); err != nil {
		t.Errorf("%s, %v", got, err)
	}
}

func FuzzWithSource(f *testing.F) {
	f.Add([]byte(`{"id":"d","x-mxl-fabrics-agent":{"mirror":true,"source_host_id":"node-a"}}`), "node-c")
	f.Fuzz(func(t *testing.T, text []byte, host string) {
		before, err := parseMarker(text)
		out, changed := withSource(text, host)
		if changed != nil {
			return
		}
		after, again := parseMarker(out)
		if before.SourceHost = host; err != nil || again != nil || after != before {
			t.Errorf("%s: %+v, %v", out, after, again)
		}
	})
}

func TestNameSource(t *testing.T) {
	r := openRoom(t, shmRoot(t))
	o := origin("data", 1)
	mustEnsure(t, r, o)
	def := filepath.Join(r.domainPath(testDomain), definitionFile)
	text, err := os.ReadFile(def)
	if err != nil {
		t.Fatal(err)
	}
	made := time.Unix(1_700_000_000, 123456789)
	if err := os.Chtimes(def, made, made); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(r.domainPath(testDomain), renamedFile), "half of one, of a crash")
	for _, news := range []bool{true, false} { // the second time there is nothing to do
		if changed, err := r.NameSource(testDomain, "node-c"); err != nil || changed != news {
			t.Fatal(changed, err)
		}
	}
	now, err := os.ReadFile(def)
	if err != nil {
		t.Fatal(err)
	}
	want := strings.Replace(string(text), `"source_host_id": "node-a"`, `"source_host_id": "node-c"`, 1)
	info, err := os.Stat(def)
	if err != nil || string(now) != want || !info.ModTime().Equal(made) || info.Mode().Perm() != 0o644 {
		t.Errorf("%v %v, %s", info, err, now)
	}
	for _, name := range list(t, r.domainPath(testDomain)) {
		if strings.HasPrefix(name, halfMade) {
			t.Errorf("%s is left", name)
		}
	}
	if on, err := r.Survey(); err != nil || len(on) != 1 || on[0].SourceHost != "node-c" || !on[0].Flows[0].Held {
		t.Errorf("%+v, %v", on, err)
	}
}

// What is not this agent's, or cannot be written, stays as it is.
func TestNameSourceLeavesTheRest(t *testing.T) {
	r := openRoom(t, shmRoot(t))
	mustEnsure(t, r, origin("data", 1))
	foreign := filepath.Join(r.path, dirPrefix+"other")
	mkdirAll(t, foreign)
	write(t, filepath.Join(foreign, definitionFile), `{"id":"other","x-mxl-fabrics-agent":{"mirror":true,"source_host_id":"node-a","owner_host_id":"node-x"}}`)
	secret := filepath.Join(t.TempDir(), "secret")
	write(t, secret, "kept")
	symlink(t, secret, filepath.Join(r.domainPath(testDomain), renamedFile))
	before := tree(t, foreign)
	for _, id := range []string{"other", "nothing", "../x"} {
		if _, err := r.NameSource(id, "node-c"); !errors.Is(err, ErrNotMirror) {
			t.Errorf("%s: %v", id, err)
		}
	}
	if tree(t, foreign) != before {
		t.Error("another agent's mirror was changed")
	}
	if _, err := r.NameSource(testDomain, "node-c"); err != nil {
		t.Error(err)
	}
	if text, err := os.ReadFile(secret); err != nil || string(text) != "kept" {
		t.Errorf("through a link: %q, %v", text, err)
	}
	if err := r.enter(Key{DomainID: testDomain}); err != nil {
		t.Fatal(err)
	}
	if _, err := r.NameSource(testDomain, "node-d"); !errors.Is(err, ErrRemoving) {
		t.Errorf("while it is removed: %v", err)
	}
	r.leave(Key{DomainID: testDomain})
	mkdirAll(t, filepath.Join(r.domainPath(testDomain), renamedFile, "in the way"))
	if _, err := r.NameSource(testDomain, "node-d"); err == nil {
		t.Error("with a directory in the way")
	}
	if on, err := r.Survey(); err != nil || on[0].SourceHost != "node-c" {
		t.Errorf("%+v, %v", on, err)
	}
	if _, err := r.Close(false); err != nil {
		t.Fatal(err)
	}
	if _, err := r.NameSource(testDomain, "node-d"); !errors.Is(err, ErrClosed) {
		t.Errorf("closed: %v", err)
	}
}

func TestNameSourceOnAReadOnlyRoot(t *testing.T) {
	root := t.TempDir()
	if err := unix.Mount("tmpfs", root, "tmpfs", 0, "size=16m"); err != nil {
		t.Skip("needs the right to mount: ", err)
	}
	t.Cleanup(func() { _ = unix.Unmount(root, unix.MNT_DETACH) })
	r := openRoom(t, root)
	dir := filepath.Join(root, dirPrefix+testDomain)
	mkdirAll(t, dir)
	text, err := definition(testDomain, testSource, testHost)
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, definitionFile), string(text))
	if err := unix.Mount("", root, "", unix.MS_REMOUNT|unix.MS_RDONLY, ""); err != nil {
		t.Fatal(err)
	}
	before := tree(t, root)
	if _, err := r.NameSource(testDomain, "node-c"); !errors.Is(err, unix.EROFS) {
		t.Error(err)
	}
	if tree(t, root) != before {
		t.Error("something changed")
	}
}

// A function has moved from node-a to node-c, and this agent starts while node-c is
// down: the mirror waits for node-c, not for node-a, which is up and has none of it.
func TestAStartAfterTheOriginMoved(t *testing.T) {
	w := newWorld(t)
	w.set.IdleGrace = 40 * time.Second
	o, other := origin("data", 1), origin("data", 2)
	w.demand[o.Key] = true
	old := w.peer(testSource)
	old.offer(o)
	old.offer(other)
	w.run(StartGuard)
	before := w.inode(o.Key)
	old.flows, old.domains = nil, nil
	for _, moved := range []Origin{o, other} {
		moved.SourceHost = "node-c"
		w.peer("node-c").offer(moved)
	}
	w.run(6 * time.Second)
	w.crash()
	w.peer("node-c").up = false
	w.start()
	w.run(StartGuard + w.set.IdleGrace + 30*time.Second)
	if s := w.step(o.Key); w.inode(o.Key) != before || s.Peer != "node-c" || s.Health.Reason != PeerIsDown {
		t.Fatalf("%+v, %+v", s, w.out.Domains)
	}
	w.peer("node-c").up = true
	w.run(6 * time.Second)
	if s := w.step(o.Key); w.inode(o.Key) != before || s.Health.State != HealthLive {
		t.Errorf("%+v", s)
	}
}

// The marker follows only a source that all flows of the domain have.
func TestWhoTheMarkerIsToName(t *testing.T) {
	w, o, other := warm(t)
	name := func() string {
		d, found := w.domain(testDomain)
		if !found {
			return "no mirror"
		}
		return d.Source
	}
	if got := name(); got != "" {
		t.Errorf("as it was made: %q", got)
	}
	moved := o
	moved.SourceHost = "node-c"
	w.peer("node-c").offer(moved)
	delete(w.peer(testSource).flows, o.Key)
	w.run(6 * time.Second)
	if got := w.markerOf(testDomain); got != testSource {
		t.Errorf("with one of two flows moved: %q", got)
	}
	moved = other
	moved.SourceHost = "node-c"
	w.peer("node-c").offer(moved)
	w.peer(testSource).flows, w.peer(testSource).domains = nil, nil
	w.run(6 * time.Second)
	if got := w.markerOf(testDomain); got != "node-c" || name() != "" {
		t.Errorf("with both moved: %q, to be named %q", got, name())
	}
	w.peer("node-c").up = false
	w.peer(testSource).up = false
	w.run(6 * time.Second)
	if got := w.markerOf(testDomain); got != "node-c" {
		t.Errorf("with nobody up: %q", got)
	}
}

// markerOf is the source host that the marker on disk names.
func (w *world) markerOf(id string) string {
	w.t.Helper()
	text, err := os.ReadFile(filepath.Join(w.room.domainPath(id), definitionFile))
	if errors.Is(err, fs.ErrNotExist) {
		return ""
	}
	m, bad := parseMarker(text)
	if err != nil || bad != nil {
		w.t.Fatal(err, bad)
	}
	return m.SourceHost
}
