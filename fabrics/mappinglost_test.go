package fabrics

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/mxl-stack/mxl-fabrics-agent/mxl"
)

// cutGrains truncates every grain file of a flow to a size; the first 4096 bytes have
// the grain's header.
func cutGrains(t *testing.T, d *mxl.Domain, f *testFlow, depth uint64, size int64) {
	t.Helper()
	for slot := range depth {
		if err := os.Truncate(fmt.Sprint(d.Path(), "/", mxl.FlowDirName(f.id), "/grains/data.", slot), size); err != nil {
			t.Fatal(err)
		}
	}
}

// TestMappingLostAtTheTarget: tcp copies a small grain into the mirror itself, in
// C. A mirror whose files were cut off meanwhile fails the connection, not the
// process.
func TestMappingLostAtTheTarget(t *testing.T) {
	for name, c := range map[string]struct {
		def  string
		size int64
	}{
		"data":             {dataDef, 4096},
		"data, all gone":   {dataDef, 0},
		"video":            {videoDef("video/v210", 320, 36, rate50), 4096},
		"video, all of it": {videoDef("video/v210", 320, 36, rate50), 0},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPair(t, c.def, 200*time.Millisecond, 200*time.Millisecond)
			writeGrain(t, p.w, 10, 0, p.w.TotalSlices())
			connect(t, p.source, "b", p.target)
			p.arrives(t, 10, mxl.AllSlices)
			cutGrains(t, p.testFlow.mirror, p.testFlow, p.w.Depth(), c.size)
			writeGrain(t, p.w, 11, 0, p.w.TotalSlices())
			eventually(t, 5*time.Second, p.describe, func() bool { return p.target.Stats().Errors > 0 })
			if st := p.target.Stats(); st.Head != 10 || st.LastError == "" {
				t.Errorf("head %d, error %q", st.Head, st.LastError)
			}
			t.Log(p.target.Stats().LastError)
			// The lane may have been told by the kernel, which only says that it cannot
			// write there, or see the connection go: the files tell then.
			if err := p.target.CheckMirror(); !errors.Is(err, ErrMirrorLost) {
				t.Errorf("check of all files: %v", err)
			}
			if err := p.target.CheckMirrorFile(); !errors.Is(err, ErrMirrorLost) {
				t.Errorf("check of one file: %v", err)
			}
			if c.size == 0 && !p.target.Stats().MirrorLost {
				t.Error("the target does not say that the mirror is lost")
			}
		})
	}
}

// TestTargetOnLostFiles: no target opens on a mirror whose files are shorter than
// what is mapped of them, or gone; it says so and the process lives.
func TestTargetOnLostFiles(t *testing.T) {
	for name, harm := range map[string]func(dir string) error{
		"one grain cut to nothing":    func(dir string) error { return os.Truncate(dir+"/grains/data.1", 0) },
		"one grain without payload":   func(dir string) error { return os.Truncate(dir+"/grains/data.1", mxl.PayloadOffset) },
		"one grain gone":              func(dir string) error { return os.Remove(dir + "/grains/data.1") },
		"the header cut to nothing":   func(dir string) error { return os.Truncate(dir+"/data", 0) },
		"the whole directory is away": os.RemoveAll,
	} {
		t.Run(name, func(t *testing.T) {
			p := newPair(t, dataDef, 200*time.Millisecond, 200*time.Millisecond)
			if err := p.target.CheckMirror(); err != nil {
				t.Fatalf("whole: %v", err)
			}
			for range 2 * p.target.lane.cfg.Discrete.Depth() {
				if err := p.target.CheckMirrorFile(); err != nil {
					t.Fatalf("whole: %v", err)
				}
			}
			cfg := p.target.lane.cfg
			if err := p.target.Close(); err != nil {
				t.Fatal(err)
			}
			if err := harm(cfg.Discrete.Dir()); err != nil {
				t.Fatal(err)
			}
			if target, err := OpenTarget(cfg); !errors.Is(err, ErrMirrorLost) {
				t.Errorf("opened %v, error %v", target, err)
			} else {
				t.Log(err)
			}
		})
	}
}

// TestMappingLostAtTheOrigin: the same for the origin of a flow whose grains are
// small enough for the library to copy them.
func TestMappingLostAtTheOrigin(t *testing.T) {
	p := newPair(t, dataDef, 200*time.Millisecond, 200*time.Millisecond)
	writeGrain(t, p.w, 10, 0, p.w.TotalSlices())
	connect(t, p.source, "b", p.target)
	p.arrives(t, 10, mxl.AllSlices)
	cutGrains(t, p.origin, p.testFlow, p.w.Depth(), 4096)
	if err := mxl.Guard(func() error {
		if _, err := p.w.OpenGrain(11); err != nil {
			return err
		}
		return p.w.Commit(11, p.w.TotalSlices(), 0)
	}); err != nil {
		t.Fatal(err)
	}
	eventually(t, 5*time.Second, p.describe, func() bool { return p.source.Stats().State == StateError })
	t.Log(p.describe())
	if head := p.target.Stats().Head; head != 10 {
		t.Errorf("the mirror's head is %d, and what was at 11 is gone", head)
	}
}

// TestOriginCutIsLeftUntilItIsWhole: an origin whose files were cut off is left although
// nothing is read from it, and opened again only when every file has its length back.
func TestOriginCutIsLeftUntilItIsWhole(t *testing.T) {
	p := newPair(t, dataDef, 200*time.Millisecond, 200*time.Millisecond)
	writeGrain(t, p.w, 10, 0, p.w.TotalSlices())
	connect(t, p.source, "b", p.target)
	p.arrives(t, 10, mxl.AllSlices)
	cutGrains(t, p.origin, p.testFlow, p.w.Depth(), mxl.PayloadOffset)
	failures := func(n uint64) func() bool {
		return func() bool { st := p.source.Stats(); return st.State == StateError && st.Errors >= n }
	}
	// The first leaves it; the others are tries to open it again.
	eventually(t, 10*time.Second, p.describe, failures(3))
	if st := p.source.Stats(); st.Reading || st.Reopened != 0 || !strings.Contains(st.LastError, "8192 bytes") {
		t.Errorf("reading %v, reopened %d times, %q", st.Reading, st.Reopened, st.LastError)
	}
	cutGrains(t, p.origin, p.testFlow, p.w.Depth(), int64(mxl.PayloadOffset+p.w.PayloadSize()))
	eventually(t, 10*time.Second, p.describe, func() bool { st := p.source.Stats(); return st.Reading && st.Reopened == 1 && st.State != StateError })
	writeGrain(t, p.w, 11, 0, p.w.TotalSlices())
	p.arrives(t, 11, mxl.AllSlices)
}
