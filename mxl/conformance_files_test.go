package mxl

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/uuid"
)

// The tests of this and the following files carry the numbers of the checklist in MXL format reference §16. Where a
// statement is about the SDK they prove the part that can be proven without it.

func TestConformance01DataFile(t *testing.T) {
	d := newDomain(t, 0)
	w := newGrainWriter(t, d, videoDef(1920, 1080, 50, 1))
	b, err := os.ReadFile(filepath.Join(w.Dir(), nameData))
	if err != nil {
		t.Fatal(err)
	}
	if len(b) != 2064 || hex.EncodeToString(b[:8]) != "0100000000080000" {
		t.Fatalf("%d bytes, starting %x", len(b), b[:8])
	}
	st, err := os.Stat(filepath.Join(w.Dir(), nameData))
	if err != nil {
		t.Fatal(err)
	}
	inode := st.Sys().(*syscall.Stat_t).Ino
	id := w.ID()
	for _, f := range []struct {
		name     string
		off, len int
		want     uint64
	}{
		{"format", 24, 4, 1}, {"flags", 28, 4, 0}, {"numerator", 32, 8, 50}, {"denominator", 40, 8, 1},
		{"commit hint", 48, 4, 1080}, {"sync hint", 52, 4, 1080}, {"location", 56, 4, 0}, {"device", 60, 4, 0xffffffff},
		{"slice size 0", 136, 4, 5120}, {"slice size 1", 140, 4, 0}, {"grain count", 152, 4, 10}, {"head", 200, 8, 0},
		{"inode", 2048, 8, inode}, {"sync counter", 2056, 4, 0},
	} {
		got := le.Uint64(append(bytes.Clone(b[f.off:f.off+f.len]), make([]byte, 8)...))
		if got != f.want {
			t.Errorf("%s at %d is %d, want %d", f.name, f.off, got, f.want)
		}
	}
	if !bytes.Equal(b[8:24], id[:]) {
		t.Errorf("id is %x", b[8:24])
	}
	if wrote, read := le.Uint64(b[208:]), le.Uint64(b[216:]); wrote == 0 || wrote != read || Now()-wrote > 60e9 {
		t.Errorf("write time %d, read time %d", wrote, read)
	}
	for _, gap := range [][2]int{{64, 136}, {156, 200}, {224, 2048}, {2060, 2064}} {
		if len(bytes.Trim(b[gap[0]:gap[1]], "\x00")) != 0 {
			t.Errorf("bytes %v are not zero", gap)
		}
	}
}

func TestConformance02GrainFileSizes(t *testing.T) {
	for _, c := range []struct {
		def  []byte
		want int64
	}{
		{videoDef(1920, 1080, 50, 1), 5_537_792},
		{videoDef(1920, 1080, 50, 1, set("media_type", MediaV210A)), 8_302_592},
		{dataDef(50, 1), 12_288},
	} {
		d := newDomain(t, 40_000_000)
		w := newGrainWriter(t, d, c.def)
		st, err := os.Stat(filepath.Join(w.Dir(), nameGrains, "data.0"))
		if err != nil || st.Size() != c.want || len(w.Slot(0)) != int(c.want) {
			t.Errorf("grain file of %d bytes, want %d (%v)", st.Size(), c.want, err)
		}
	}
}

func TestConformance02GeometryVectors(t *testing.T) {
	for _, c := range []struct {
		w, h               int
		interlaced         bool
		v, a               uint32
		payload, withAlpha int
	}{
		{1920, 1080, false, 5120, 2560, 5_529_600, 8_294_400},
		{1920, 1080, true, 5120, 2560, 2_764_800, 4_147_200},
		{1280, 720, false, 3456, 1708, 2_488_320, 3_718_080},
		{3840, 2160, false, 10240, 5120, 22_118_400, 33_177_600},
		{7680, 4320, false, 20480, 10240, 88_473_600, 132_710_400},
	} {
		mode := func(o object) {
			if c.interlaced {
				o["interlace_mode"] = InterlacedBFF
			}
		}
		plain := parse(t, videoDef(c.w, c.h, 25, 1, mode))
		alpha := parse(t, videoDef(c.w, c.h, 25, 1, mode, set("media_type", MediaV210A)))
		if plain.SliceSizes() != [4]uint32{c.v} || plain.PayloadSize() != c.payload ||
			alpha.SliceSizes() != [4]uint32{c.v, c.a} || alpha.PayloadSize() != c.withAlpha {
			t.Errorf("%+v: %v %d, %v %d", c, plain.SliceSizes(), plain.PayloadSize(), alpha.SliceSizes(), alpha.PayloadSize())
		}
	}
}

func parse(t testing.TB, text []byte) *FlowDef {
	t.Helper()
	d, err := ParseFlowDef(text)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestConformance03GrainVersion(t *testing.T) {
	d := newDomain(t, 0)
	w := newGrainWriter(t, d, dataDef(50, 1))
	for i := range int(w.Depth()) {
		if h := w.Header(i); h.Version != 1 || h.Size != 4096 {
			t.Errorf("slot %d: %+v", i, h)
		}
	}
	w.Slot(7)[0] = 2
	if _, err := d.OpenDiscreteReader(w.ID()); !errors.Is(err, ErrUnknown) || !strings.Contains(err.Error(), "data.7") {
		t.Errorf("a grain of version 2: %v", err)
	}
}

func TestConformance04SliceSizes(t *testing.T) {
	d := newDomain(t, 40_000_000)
	v := newGrainWriter(t, d, videoDef(1920, 1080, 50, 1, set("media_type", MediaV210A)))
	a := newGrainWriter(t, d, dataDef(50, 1))
	if v.SliceSizes() != [4]uint32{5120, 2560} || a.SliceSizes() != [4]uint32{1} {
		t.Errorf("slice sizes %v and %v", v.SliceSizes(), a.SliceSizes())
	}
	if v.PlaneOffset(0) != 8192 || v.PlaneOffset(1) != 8192+1080*5120 {
		t.Errorf("planes at %d and %d", v.PlaneOffset(0), v.PlaneOffset(1))
	}
}

func TestConformance05Interlaced(t *testing.T) {
	d := newDomain(t, 40_000_000)
	w := newGrainWriter(t, d, videoDef(1920, 1080, 25, 1, set("interlace_mode", InterlacedTFF)))
	if w.Rate() != (Rational{50, 1}) || w.TotalSlices() != 540 {
		t.Errorf("rate %v, %d slices", w.Rate(), w.TotalSlices())
	}
	_, _, err := d.CreateDiscreteWriter(videoDef(1920, 1080, 50, 1, set("interlace_mode", InterlacedTFF)), FlowOptions{})
	if !errors.Is(err, ErrInvalidArgument) {
		t.Errorf("interlaced with 50/1: %v", err)
	}
}

func TestConformance06RingDepths(t *testing.T) {
	for _, c := range []struct {
		num, den   int64
		interlaced bool
		want       uint64
	}{
		{24, 1, false, 4}, {24000, 1001, false, 4}, {25, 1, false, 5}, {30000, 1001, false, 5}, {50, 1, false, 10},
		{25, 1, true, 10}, {60000, 1001, false, 11}, {60, 1, false, 12}, {30000, 1001, true, 11}, {120, 1, false, 24},
	} {
		def := parse(t, videoDef(192, 108, c.num, c.den, func(o object) {
			if c.interlaced {
				o["interlace_mode"] = InterlacedTFF
			}
		}))
		if got := def.RingDepth(DefaultHistoryNS); got != c.want {
			t.Errorf("%d/%d interlaced %v: %d grains, want %d", c.num, c.den, c.interlaced, got, c.want)
		}
	}
	for rate, want := range map[int64][2]uint64{
		44100: {18432, 17920}, 48000: {19456, 19456}, 96000: {38912, 38400}, 192000: {76800, 76800},
	} {
		short := parse(t, audioDef(2, rate)).RingDepth(DefaultHistoryNS)
		long := parse(t, audioDef(2, rate, set("bit_depth", 64))).RingDepth(DefaultHistoryNS)
		if short != want[0] || long != want[1] {
			t.Errorf("%d: %d and %d samples, want %v", rate, short, long, want)
		}
	}
	d := newDomain(t, 500_000_000)
	if w := newGrainWriter(t, d, dataDef(50, 1)); w.Depth() != 25 {
		t.Errorf("500 ms at 50/1: %d grains", w.Depth())
	}
	if w := newSampleWriter(t, d, audioDef(2, 48000), FlowOptions{}); w.BufferLength() != 48128 {
		t.Errorf("500 ms at 48 kHz: %d samples", w.BufferLength())
	}
}

func TestConformance07HistoryFallsBack(t *testing.T) {
	for _, c := range []struct {
		name, text string
		want       uint64
		complains  bool
	}{
		{"number", `{"` + HistoryKey + `": 500000000}`, 500_000_000, false},
		{"fraction", `{"` + HistoryKey + `": 1e8.5}`, DefaultHistoryNS, true},
		{"truncated", `{"` + HistoryKey + `": 100000000.9}`, 100_000_000, false},
		{"zero", `{"` + HistoryKey + `": 0}`, 0, false},
		{"string", `{"` + HistoryKey + `": "500000000"}`, DefaultHistoryNS, false},
		{"null", `{"` + HistoryKey + `": null}`, DefaultHistoryNS, false},
		{"absent", `{}`, DefaultHistoryNS, false},
		{"negative", `{"` + HistoryKey + `": -1}`, DefaultHistoryNS, true},
		{"beyond 64 bits", `{"` + HistoryKey + `": 1e20}`, DefaultHistoryNS, true},
		{"array", `[1]`, DefaultHistoryNS, true},
		{"null document", `null`, DefaultHistoryNS, true},
		{"not JSON", `{history`, DefaultHistoryNS, true},
		{"empty", ``, DefaultHistoryNS, true},
		{"huge", strings.Repeat(" ", maxTextSize+1), DefaultHistoryNS, true},
	} {
		dir := shmDir(t)
		if err := os.WriteFile(filepath.Join(dir, nameOptions), []byte(c.text), 0o644); err != nil {
			t.Fatal(err)
		}
		d := openDomain(t, dir)
		if d.HistoryNS() != c.want || (d.OptionsError() != nil) != c.complains {
			t.Errorf("%s: %d, %v", c.name, d.HistoryNS(), d.OptionsError())
		}
	}
	d := openDomain(t, shmDir(t))
	if d.HistoryNS() != DefaultHistoryNS || d.OptionsError() != nil || d.OptionsJSON() != nil {
		t.Errorf("without file: %d, %v", d.HistoryNS(), d.OptionsError())
	}
}

// TestConformance08SameFilesAsSDK makes the SDK's flow again and compares every byte but those that time decides.
func TestConformance08SameFilesAsSDK(t *testing.T) {
	for _, name := range fixtureNames {
		theirs := openDomain(t, unpack(t, name))
		ids, err := theirs.Flows()
		if err != nil {
			t.Fatal(err)
		}
		info, err := theirs.FlowInfo(ids[0])
		if err != nil {
			t.Fatal(err)
		}
		def, err := theirs.ReadFlowDef(ids[0])
		if err != nil {
			t.Fatal(err)
		}
		ours := newDomain(t, theirs.HistoryNS())
		var w interface {
			Dir() string
			Close() error
		}
		if info.Format.Discrete() {
			w, _, err = ours.CreateDiscreteWriter(def, FlowOptionsOf(info))
		} else {
			w, _, err = ours.CreateContinuousWriter(def, FlowOptionsOf(info))
		}
		if err != nil {
			t.Fatal(err)
		}
		defer w.Close()
		flowDir := filepath.Join(theirs.Path(), FlowDirName(ids[0]))
		compareTrees(t, flowDir, w.Dir())
		a, b := dataBytes(t, flowDir), dataBytes(t, w.Dir())
		for _, zone := range [][2]int{{offHeadIndex, offLastRead + 8}, {offInode, dataFileSize}} {
			clear(a[zone[0]:zone[1]])
			clear(b[zone[0]:zone[1]])
		}
		if !bytes.Equal(a, b) {
			t.Errorf("%s: data differs", name)
		}
		if info.Format.Discrete() {
			for i := range info.GrainCount {
				a, b := grainHead(t, flowDir, int(i)), grainHead(t, w.Dir(), int(i))
				a.Index, a.Flags, a.ValidSlices = 0, 0, 0
				if a != b {
					t.Errorf("%s: grain %d is %+v, want %+v", name, i, b, a)
				}
			}
		}
	}
}

func dataBytes(t testing.TB, dir string) []byte {
	b, err := os.ReadFile(filepath.Join(dir, nameData))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func grainHead(t testing.TB, dir string, i int) GrainHeader {
	b, err := os.ReadFile(filepath.Join(dir, nameGrains, grainName(i)))
	if err != nil {
		t.Fatal(err)
	}
	return decodeGrainHeader(b)
}

// compareTrees compares names, sizes and modes.
func compareTrees(t testing.TB, a, b string) {
	t.Helper()
	list := func(root string) string {
		var s strings.Builder
		err := filepath.Walk(root, func(path string, st os.FileInfo, err error) error {
			if err != nil {
				return err
			}
			size := st.Size()
			if st.IsDir() {
				size = 0
			}
			fmt.Fprintf(&s, "%s %v %d\n", strings.TrimPrefix(path, root), st.Mode(), size)
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		return s.String()
	}
	if x, y := list(a), list(b); x != y {
		t.Errorf("trees differ:\n%s\n%s", x, y)
	}
}

func TestConformance08OpensForReadingAndWriting(t *testing.T) {
	d := newDomain(t, 0)
	def := dataDef(50, 1)
	w := newGrainWriter(t, d, def)
	write(t, w, 100, 1)
	again, created, err := d.CreateDiscreteWriter(def, FlowOptions{})
	if err != nil || created {
		t.Fatalf("created %v, %v", created, err)
	}
	defer again.Close()
	if again.Inode() != w.Inode() || again.Head() != 100 {
		t.Errorf("inode %d head %d", again.Inode(), again.Head())
	}
	other, err := d.OpenDiscreteWriter(w.ID())
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	write(t, other, 101, 2)
	if r := newGrainReader(t, d, w.ID()); r.Head() != 101 {
		t.Errorf("head %d", r.Head())
	}
	if _, err := d.OpenContinuousWriter(w.ID()); !errors.Is(err, ErrInvalidFlowWriter) {
		t.Errorf("continuous writer on a discrete flow: %v", err)
	}
	if _, err := d.OpenDiscreteWriter(uuid.New()); !errors.Is(err, ErrFlowNotFound) {
		t.Errorf("no flow: %v", err)
	}
}
