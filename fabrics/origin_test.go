package fabrics

import (
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/mxl-stack/mxl-fabrics-agent/mxl"
)

// TestOriginGaps: unwritten indexes are passed over and counted, single ones and a
// jump beyond the ring.
func TestOriginGaps(t *testing.T) {
	p := newPair(t, videoDef("video/v210", smallVideo, smallKeyed, rate50), 200*time.Millisecond, 200*time.Millisecond)
	writeGrain(t, p.w, 7000, 0, p.w.TotalSlices())
	connect(t, p.source, "b", p.target)
	p.arrives(t, 7000, mxl.AllSlices)
	gaps := uint64(0)
	write := func(index uint64) {
		t.Helper()
		writeGrain(t, p.w, index, 0, p.w.TotalSlices())
		p.arrives(t, index, mxl.AllSlices)
	}
	for index := uint64(7001); index < 7060; index++ {
		if index%7 == 0 {
			gaps++
			continue
		}
		write(index)
	}
	write(7060 + 500) // 7060 was not written either
	gaps += 500
	for index := uint64(7561); index < 7580; index++ {
		write(index)
	}
	if got := p.source.Stats().OriginGaps; got != gaps {
		t.Errorf("%d origin gaps, want %d", got, gaps)
	}
	if st := targetOf(p.source, "b"); st.Skipped != 0 || st.Errors != 0 {
		t.Errorf("%+v", st)
	}
}

// TestOriginGoesBack: a writer that jumps back is followed.
func TestOriginGoesBack(t *testing.T) {
	p := newPair(t, videoDef("video/v210", smallVideo, smallKeyed, rate50), 200*time.Millisecond, 200*time.Millisecond)
	for _, start := range []uint64{9000, 8000, 7995} {
		writeGrain(t, p.w, start, 0, p.w.TotalSlices())
		if start == 9000 {
			connect(t, p.source, "b", p.target)
		}
		for index := start; index < start+20; index++ {
			if index > start {
				writeGrain(t, p.w, index, 0, p.w.TotalSlices())
			}
			eventually(t, 3*time.Second, p.describe, func() bool { return p.target.Stats().Head == index })
			p.arrives(t, index, mxl.AllSlices)
		}
	}
	if st := p.target.Stats(); st.BadImmediates != 0 || st.Errors != 0 {
		t.Errorf("%+v", st)
	}
}

// TestOriginRecreated: a writer that deletes its flow and makes it again is followed
// within 1.5 s; the mirror keeps its inode, the connection stays.
func TestOriginRecreated(t *testing.T) {
	p := newPair(t, videoDef("video/v210", smallVideo, smallKeyed, rate50), 200*time.Millisecond, 200*time.Millisecond)
	inode := p.mirror.Inode()
	index := uint64(3000)
	writeGrain(t, p.w, index, 0, p.w.TotalSlices())
	connect(t, p.source, "b", p.target)
	p.arrives(t, index, mxl.AllSlices)
	for range 2 {
		if _, err := p.w.Release(); err != nil {
			t.Fatal(err)
		}
		p.w = p.grainWriter(t, p.origin)
		index += 10
		writeGrain(t, p.w, index, 0, p.w.TotalSlices())
		start := time.Now()
		p.arrives(t, index, mxl.AllSlices)
		if took := time.Since(start); took > 1500*time.Millisecond {
			t.Errorf("followed after %v", took)
		}
		for range 5 {
			index++
			writeGrain(t, p.w, index, 0, p.w.TotalSlices())
			p.arrives(t, index, mxl.AllSlices)
		}
	}
	if st := p.target.Stats(); st.Connections != 1 || p.mirror.Inode() != inode {
		t.Errorf("%d connections, inode %d was %d", st.Connections, p.mirror.Inode(), inode)
	}
	seen := map[string]int{}
	for len(p.source.Events()) > 0 {
		seen[(<-p.source.Events()).Name]++
	}
	if seen["origin_reopened"] != 2 || seen["origin_changed"]+seen["origin_deleted"] != 2 {
		t.Errorf("events %v", seen)
	}
}

// TestOriginDeletedIsLetGo: no descriptor or mapping of a deleted flow stays.
func TestOriginDeletedIsLetGo(t *testing.T) {
	p := newPair(t, videoDef("video/v210", smallVideo, smallKeyed, rate50), 200*time.Millisecond, 200*time.Millisecond)
	writeGrain(t, p.w, 10, 0, p.w.TotalSlices())
	connect(t, p.source, "b", p.target)
	p.arrives(t, 10, mxl.AllSlices)
	if deleted, err := p.w.Release(); err != nil || !deleted {
		t.Fatal(deleted, err)
	}
	eventually(t, 2*time.Second, p.describe, func() bool { return !p.source.Stats().Reading })
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		t.Fatal(err)
	}
	if held := countLines(string(maps), "origin/"+p.id.String()); held != 0 {
		t.Errorf("%d mappings of the deleted origin stay", held)
	}
	if st := p.source.Stats(); st.State == StateError || !p.target.Stats().Connected {
		t.Errorf("%s", p.describe())
	}
}

// TestOriginComesBackDifferent: another geometry under the same id is an error that
// names it, and is over when the old one is back.
func TestOriginComesBackDifferent(t *testing.T) {
	p := newPair(t, videoDef("video/v210", smallVideo, smallKeyed, rate50), 200*time.Millisecond, 200*time.Millisecond)
	writeGrain(t, p.w, 10, 0, p.w.TotalSlices())
	connect(t, p.source, "b", p.target)
	p.arrives(t, 10, mxl.AllSlices)
	if _, err := p.w.Release(); err != nil {
		t.Fatal(err)
	}
	other := *p.testFlow
	other.def = fmt.Sprintf(videoDef("video/v210", 192, 54, rate50), p.id)
	w := other.grainWriter(t, p.origin)
	eventually(t, 3*time.Second, p.describe, func() bool { return p.source.Stats().State == StateError })
	t.Log(p.source.Stats().LastError)
	if _, err := w.Release(); err != nil {
		t.Fatal(err)
	}
	p.w = p.grainWriter(t, p.origin)
	writeGrain(t, p.w, 20, 0, p.w.TotalSlices())
	p.arrives(t, 20, mxl.AllSlices)
	if st := p.source.Stats(); st.State != StateActive || st.LastError != "" {
		t.Errorf("%s", p.describe())
	}
}

// TestOriginTruncated: a grain file that is cut off while mapped fails the origin,
// not the process.
func TestOriginTruncated(t *testing.T) {
	p := newPair(t, videoDef("video/v210", smallVideo, smallKeyed, rate50), 200*time.Millisecond, 200*time.Millisecond)
	writeGrain(t, p.w, 10, 0, p.w.TotalSlices())
	connect(t, p.source, "b", p.target)
	p.arrives(t, 10, mxl.AllSlices)
	grains := p.origin.Path() + "/" + mxl.FlowDirName(p.id) + "/grains/data."
	for slot := range p.w.Depth() {
		if err := os.Truncate(fmt.Sprint(grains, slot), 4096); err != nil {
			t.Fatal(err)
		}
	}
	// The writer would fault itself beyond the header: only the header is committed.
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
	// The flow made anew heals the lane.
	if _, err := p.w.Release(); err != nil {
		t.Fatal(err)
	}
	p.w = p.grainWriter(t, p.origin)
	writeGrain(t, p.w, 30, 0, p.w.TotalSlices())
	eventually(t, 8*time.Second, p.describe, func() bool { return p.target.Stats().Head == 30 })
}
