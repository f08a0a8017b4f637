package mirror

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/google/uuid"
	"golang.org/x/sys/unix"

	"github.com/mxl-stack/mxl-fabrics-agent/mxl"
)

const (
	testHost   = "node-b"
	testSource = "node-a"
	testDomain = "7b8b3c3e-0000-4000-8000-000000000001"
)

// shmRoot is an MXL root on tmpfs.
func shmRoot(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "mirror-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// openRoom opens a room that is let go, as by the end of a process, when the
// test ends.
func openRoom(t testing.TB, root string, change ...func(*Config)) *Room {
	t.Helper()
	cfg := Config{Root: root, HostID: testHost, Readers: emptyHost(t)}
	for _, f := range change {
		f(&cfg)
	}
	r, err := Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.letGo(); err != nil && !errors.Is(err, os.ErrClosed) {
			t.Error(err)
		}
	})
	return r
}

// emptyHost is a reader check that sees a host where only this process runs.
func emptyHost(t testing.TB) *ReaderCheck {
	t.Helper()
	return NewReaderCheck(ReaderCheckConfig{Proc: fakeProc(t, nil).path, Self: fakeSelf})
}

// fakeSelf is this process' pid on a fake host.
const fakeSelf = 4242

// procTree is a made-up proc file system.
type procTree struct {
	t    testing.TB
	path string
}

// fakeProc makes a host with process 1, this process (with its real maps) and
// the given maps of others.
func fakeProc(t testing.TB, others map[int]string) procTree {
	t.Helper()
	p := procTree{t: t, path: t.TempDir()}
	p.add(1, "init", "")
	p.mkdir("self/ns")
	if err := os.Symlink(initialPIDNamespace, filepath.Join(p.path, "self/ns/pid")); err != nil {
		t.Fatal(err)
	}
	p.mkdir(strconv.Itoa(fakeSelf))
	if err := os.Symlink("/proc/self/maps", filepath.Join(p.path, strconv.Itoa(fakeSelf), "maps")); err != nil {
		t.Fatal(err)
	}
	for pid, text := range others {
		p.add(pid, "reader", text)
	}
	return p
}

func (p procTree) mkdir(name string) {
	p.t.Helper()
	if err := os.MkdirAll(filepath.Join(p.path, name), 0o755); err != nil {
		p.t.Fatal(err)
	}
}

func (p procTree) write(name, text string) {
	p.t.Helper()
	if err := os.WriteFile(filepath.Join(p.path, name), []byte(text), 0o644); err != nil {
		p.t.Fatal(err)
	}
}

func (p procTree) add(pid int, comm, maps string) {
	p.t.Helper()
	dir := strconv.Itoa(pid)
	p.mkdir(dir + "/task/" + dir)
	p.write(dir+"/maps", maps)
	p.write(dir+"/comm", comm+"\n")
}

func (p procTree) remove(pid int) {
	p.t.Helper()
	if err := os.RemoveAll(filepath.Join(p.path, strconv.Itoa(pid))); err != nil {
		p.t.Fatal(err)
	}
}

// mapsOf is the maps text of a process that maps a file.
func mapsOf(t testing.TB, path string) string {
	t.Helper()
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("55d0c0a00000-55d0c0a22000 r--p 00000000 fd:01 1311 /usr/bin/reader\n"+
		"7f0000000000-7f0000001000 r--s 00000000 %02x:%02x %d %s\n7ffd0000-7ffe0000 rw-p 00000000 00:00 0 [stack]\n",
		unix.Major(st.Dev), unix.Minor(st.Dev), st.Ino, path)
}

// origin is a flow of a kind, "data", "audio" or "video", on node-a.
func origin(kind string, n int) Origin {
	id := uuid.MustParse(fmt.Sprintf("00000000-0000-4000-8000-%012d", n))
	def := map[string]any{
		"id": id.String(), "label": "flow " + strconv.Itoa(n), "description": "test", "parents": []string{},
		"tags": map[string][]string{"urn:x-nmos:tag:grouphint/v1.0": {"test:" + kind}},
	}
	switch kind {
	case "data":
		def["format"], def["media_type"] = "urn:x-nmos:format:data", "video/smpte291"
		def["grain_rate"] = map[string]int{"numerator": 50, "denominator": 1}
	case "audio":
		def["format"], def["media_type"] = "urn:x-nmos:format:audio", "audio/float32"
		def["sample_rate"] = map[string]int{"numerator": 48000}
		def["channel_count"], def["bit_depth"] = 2, 32
	case "video":
		def["format"], def["media_type"] = "urn:x-nmos:format:video", "video/v210"
		def["grain_rate"] = map[string]int{"numerator": 50, "denominator": 1}
		def["frame_width"], def["frame_height"] = 1920, 1080
		def["interlace_mode"], def["colorspace"] = "progressive", "BT709"
	}
	text, err := json.MarshalIndent(def, "", " ")
	if err != nil {
		panic(err)
	}
	return Origin{Key: Key{testDomain, id}, SourceHost: testSource, FlowDef: text}
}

// edit gives the origin with another value of one member of its definition.
func (o Origin) edit(member string, value any) Origin {
	var def map[string]any
	if err := json.Unmarshal(o.FlowDef, &def); err != nil {
		panic(err)
	}
	def[member] = value
	text, err := json.Marshal(def)
	if err != nil {
		panic(err)
	}
	o.FlowDef = text
	return o
}

// mustEnsure makes or opens a mirror.
func mustEnsure(t testing.TB, r *Room, o Origin) *Flow {
	t.Helper()
	f, _, err := r.EnsureFlow(o)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func flowPath(r *Room, k Key, names ...string) string {
	return filepath.Join(append([]string{r.domainPath(k.DomainID), flowDir(k.FlowID)}, names...)...)
}

func inodeOf(t testing.TB, path string) uint64 {
	t.Helper()
	var st unix.Stat_t
	if err := unix.Lstat(path, &st); err != nil {
		t.Fatal(err)
	}
	return st.Ino
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// writeGrain puts one grain of a small flow at an index.
func writeGrain(t testing.TB, f *Flow, index uint64) {
	t.Helper()
	payload, err := f.Discrete.OpenGrain(index)
	if err != nil {
		t.Fatal(err)
	}
	payload[0] = byte(index)
	if err := f.Discrete.Commit(index, 4096, 0); err != nil {
		t.Fatal(err)
	}
}

// isLocked says whether a writer holds the flow.
func isLocked(t testing.TB, r *Room, k Key) bool {
	t.Helper()
	active, err := mxl.IsFlowActive(flowPath(r, k))
	if err != nil {
		t.Fatal(err)
	}
	return active
}

// startMapper runs another process that maps a file until it is stopped.
func startMapper(t testing.TB, path string) (pid int, stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	cmd := exec.CommandContext(ctx, os.Args[0])
	cmd.Env = append(os.Environ(), "MIRROR_TEST_MAP="+path)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	done := false
	stop = func() {
		if !done {
			done = true
			_ = in.Close()
			_ = cmd.Wait()
			cancel()
		}
	}
	t.Cleanup(stop)
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || !strings.HasPrefix(line, "mapped") {
		t.Fatalf("the mapper said %q: %v", line, err)
	}
	return cmd.Process.Pid, stop
}

// mapAndWait is the other process: it makes mappings and waits for the end of
// its input. what is "path", "private path", or "anonymous private shared path" with a number of
// mappings of each kind: memory, its own program, the file.
func mapAndWait(what string) int {
	var anonymous, private, shared int
	path, way := "", unix.MAP_SHARED
	if only, found := strings.CutPrefix(what, "private "); found {
		what, way = only, unix.MAP_PRIVATE
	}
	if n, _ := fmt.Sscanf(what, "%d %d %d %s", &anonymous, &private, &shared, &path); n != 4 {
		path, shared = what, 1
	}
	err := mapMany("/proc/self/exe", private, unix.MAP_PRIVATE)
	if err == nil {
		err = mapMany(path, shared, way)
	}
	for i := 0; i < anonymous && err == nil; i++ {
		// Neighbours of other rights do not merge.
		_, err = unix.Mmap(-1, 0, 4096, i%2*unix.PROT_READ, unix.MAP_PRIVATE|unix.MAP_ANON)
	}
	if err != nil {
		fmt.Println(err)
		return 1
	}
	fmt.Println("mapped")
	_, _ = io.Copy(io.Discard, os.Stdin)
	return 0
}

// mapMany maps the first page of a file many times.
func mapMany(path string, count, flags int) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	for range count {
		if _, err := unix.Mmap(int(f.Fd()), 0, 4096, unix.PROT_READ, flags); err != nil {
			return err
		}
	}
	return nil
}
