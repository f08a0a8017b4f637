package fabrics

import (
	"fmt"
	"os"
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
