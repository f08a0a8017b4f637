package mxl

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/uuid"
)

const fixtures = "../tests/fixtures/mxl"

func readJSON(t testing.TB, path string, v any) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(b, v); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
}

// unpack unpacks a fixture and returns the domain directory.
func unpack(t testing.TB, name string) string {
	t.Helper()
	dir := shmDir(t)
	f, err := os.Open(filepath.Join(fixtures, name, "domain.tar.gz"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if err == io.EOF {
			return filepath.Join(dir, "domain")
		}
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(dir, filepath.Clean("/"+h.Name))
		if h.FileInfo().IsDir() {
			err = os.MkdirAll(path, h.FileInfo().Mode().Perm())
		} else {
			var b []byte
			if b, err = io.ReadAll(r); err == nil {
				err = os.WriteFile(path, b, 0o600)
			}
			if err == nil {
				err = os.Chmod(path, h.FileInfo().Mode().Perm())
			}
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// correctInode makes a copied flow directory a valid flow (MXL format reference §12).
func correctInode(t testing.TB, d *Domain, id uuid.UUID) {
	t.Helper()
	info, err := d.FlowInfo(id)
	if err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(filepath.Join(d.Path(), FlowDirName(id), nameData), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteAt(le.AppendUint64(nil, info.Inode), offInode); err != nil {
		t.Fatal(err)
	}
}

type expectRead struct {
	Index       uint64
	MinSlices   int `json:"minValidSlices"`
	Count       uint64
	NonBlocking string `json:"nonBlocking"`
	Blocking1ms string `json:"blocking1ms"`
}

type expectation struct {
	Pattern struct {
		FirstWritten, LastWritten uint64
	}
	FlowID       uuid.UUID `json:"flowId"`
	IsFlowActive struct{ Active bool }
	FlowDef      struct {
		BufferSizeWithNul int
		SHA256            string
	}
	FlowInfo struct {
		Version, Size uint32
		Config        struct {
			Common struct {
				ID                                           uuid.UUID
				Format, Flags                                uint32
				GrainRate                                    Rational
				MaxCommitBatchSizeHint, MaxSyncBatchSizeHint uint32
				PayloadLocation                              uint32
				DeviceIndex                                  int32
			}
			Discrete *struct {
				SliceSizes [4]uint32
				GrainCount uint32
			}
			Continuous *struct{ ChannelCount, BufferLength uint32 }
		}
		Runtime struct{ HeadIndex, LastWriteTime, LastReadTime uint64 }
	}
	Grains []struct {
		ReadIndex                           uint64
		Slot                                int
		StatusAny, StatusAll, StatusAllLive string
		Index                               uint64
		Version, Size, Flags, GrainSize     uint32
		TotalSlices, ValidSlices            uint16
		PayloadSHA256                       string
	}
	MaxReadLengthSamples uint64
	Windows              []struct {
		Index, Count, FirstSample uint64
		Status                    string
		FragmentBytes             [2]uint64
		StrideBytes               uint64
		Channels                  int
		ChannelSHA256             []string
	}
	Reads []expectRead
	Live  struct{ Reads []expectRead }
	Raw   struct {
		DataFileSize int64
		Inode        uint64
		SyncCounter  uint32
	} `json:"rawState"`
	Files []struct {
		Path, Mode string
		Size       *int64
		Dir        bool
	}
}

var fixtureNames = []string{
	"v210-p50", "v210-i25", "v210a-p50", "v210-p5994", "data-50", "audio-2ch", "audio-16ch", "v210-p50-full",
}

// statusName is the SDK's name of what we return.
func statusName(t testing.TB, err error) string {
	t.Helper()
	switch {
	case err == nil:
		return "MXL_STATUS_OK"
	case errors.Is(err, ErrTooEarly):
		return "MXL_ERR_OUT_OF_RANGE_TOO_EARLY"
	case errors.Is(err, ErrTooLate):
		return "MXL_ERR_OUT_OF_RANGE_TOO_LATE"
	case errors.Is(err, ErrFlowInvalid):
		return "MXL_ERR_FLOW_INVALID"
	}
	t.Fatalf("unexpected error %v", err)
	return ""
}

func TestFixturesEqualExpectations(t *testing.T) {
	for _, name := range fixtureNames {
		t.Run(name, func(t *testing.T) {
			var e expectation
			readJSON(t, filepath.Join(fixtures, name, "expect.json"), &e)
			dir := unpack(t, name)
			d := openDomain(t, dir)
			checkFixtureFiles(t, name, d, &e)
			checkFixtureInfo(t, d, &e)
			if e.FlowInfo.Config.Discrete != nil {
				checkFixtureGrains(t, d, &e)
			} else {
				checkFixtureSamples(t, d, &e)
			}
		})
	}
}

func checkFixtureFiles(t *testing.T, name string, d *Domain, e *expectation) {
	ids, err := d.Flows()
	if err != nil || len(ids) != 1 || ids[0] != e.FlowID {
		t.Fatalf("flows %v, %v", ids, err)
	}
	for _, f := range e.Files {
		st, err := os.Stat(filepath.Join(d.Path(), f.Path))
		if err != nil {
			t.Fatal(err)
		}
		if f.Size != nil && st.Size() != *f.Size || st.IsDir() != f.Dir {
			t.Errorf("%s: size %d dir %v", f.Path, st.Size(), st.IsDir())
		}
	}
	def, err := d.ReadFlowDef(e.FlowID)
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(def)
	if hex.EncodeToString(sum[:]) != e.FlowDef.SHA256 || len(def)+1 != e.FlowDef.BufferSizeWithNul {
		t.Errorf("flow definition of %d bytes differs", len(def))
	}
	given, err := os.ReadFile(filepath.Join(fixtures, name, nameFlowDef))
	if err != nil || !bytes.Equal(given, def) {
		t.Errorf("flow definition is not the one the writer gave (%v)", err)
	}
	if active, err := d.IsActive(e.FlowID); err != nil || active != e.IsFlowActive.Active {
		t.Errorf("active %v, %v", active, err)
	}
	if opt, err := os.ReadFile(filepath.Join(fixtures, name, nameOptions)); err == nil && !bytes.Equal(opt, d.OptionsJSON()) {
		t.Errorf("options.json is %q", d.OptionsJSON())
	}
	if want, err := os.ReadFile(filepath.Join(fixtures, name, nameDomainDef)); err == nil {
		def, err := d.Definition()
		if err != nil || def.ID == "" || def.Label == "" || !bytes.Equal(def.Raw, want) {
			t.Errorf("domain definition %+v, %v", def, err)
		}
	}
}

func checkFixtureInfo(t *testing.T, d *Domain, e *expectation) {
	info, err := d.FlowInfo(e.FlowID)
	if err != nil {
		t.Fatal(err)
	}
	c, r := e.FlowInfo.Config.Common, e.FlowInfo.Runtime
	want := FlowInfo{
		Version: e.FlowInfo.Version, Size: e.FlowInfo.Size, ID: c.ID, Format: Format(c.Format), Flags: c.Flags,
		Rate: c.GrainRate, MaxCommitBatchSizeHint: c.MaxCommitBatchSizeHint, MaxSyncBatchSizeHint: c.MaxSyncBatchSizeHint,
		PayloadLocation: PayloadLocation(c.PayloadLocation), DeviceIndex: c.DeviceIndex,
		HeadIndex: r.HeadIndex, LastWriteTime: r.LastWriteTime, LastReadTime: r.LastReadTime,
		StoredInode: e.Raw.Inode, SyncCounter: e.Raw.SyncCounter, Device: info.Device, Inode: info.Inode,
	}
	if x := e.FlowInfo.Config.Discrete; x != nil {
		want.SliceSizes, want.GrainCount = x.SliceSizes, x.GrainCount
	}
	if x := e.FlowInfo.Config.Continuous; x != nil {
		want.ChannelCount, want.BufferLength = x.ChannelCount, x.BufferLength
	}
	if info != want {
		t.Errorf("info\n%+v, want\n%+v", info, want)
	}
	if full, err := InspectFlow(filepath.Join(d.Path(), FlowDirName(e.FlowID))); err != nil || full != want {
		t.Errorf("inspection: %+v, %v", full, err)
	}
	// The definition alone leads to the same geometry.
	text, err := d.ReadFlowDef(e.FlowID)
	if err != nil {
		t.Fatal(err)
	}
	def, err := ParseFlowDef(text)
	if err != nil {
		t.Fatal(err)
	}
	made, err := newFlowInfo(def, FlowOptionsOf(info), d.HistoryNS())
	if err != nil || made.SliceSizes != want.SliceSizes || made.GrainCount != want.GrainCount ||
		made.BufferLength != want.BufferLength || made.Rate != want.Rate || made.ChannelCount != want.ChannelCount {
		t.Errorf("from definition: %+v, %v", made, err)
	}
}

func checkFixtureGrains(t *testing.T, d *Domain, e *expectation) {
	r := newGrainReader(t, d, e.FlowID)
	buf := make([]byte, r.PayloadSize())
	status := func(index, got uint64, min int, err error, want string) {
		t.Helper()
		if got != index {
			// The SDK does not compare the slot's index; this package reports the gap.
			if err != ErrSkipped {
				t.Errorf("skipped grain %d: %v", index, err)
			}
			return
		}
		if name := statusName(t, err); name != want {
			t.Errorf("grain %d min %d: %s, want %s", index, min, name, want)
		}
	}
	for _, g := range e.Grains {
		want := GrainHeader{g.Version, g.Size, g.Index, g.Flags, g.GrainSize, g.TotalSlices, g.ValidSlices}
		if h := r.Header(g.Slot); h != want || r.SlotOf(g.ReadIndex) != g.Slot {
			t.Errorf("slot %d: %+v, want %+v", g.Slot, h, want)
		}
		sum := sha256.Sum256(r.Slot(g.Slot)[PayloadOffset:])
		if hex.EncodeToString(sum[:]) != g.PayloadSHA256 {
			t.Errorf("slot %d: payload differs", g.Slot)
		}
		_, err := r.Grain(g.ReadIndex, 0)
		status(g.ReadIndex, g.Index, 0, err, g.StatusAny)
		_, err = r.CopyGrain(buf, g.ReadIndex, AllSlices)
		status(g.ReadIndex, g.Index, AllSlices, err, g.StatusAll)
	}
	reads := func(list []expectRead) {
		t.Helper()
		for _, x := range list {
			_, err := r.Grain(x.Index, x.MinSlices)
			got := x.Index
			if err == ErrSkipped {
				got = r.Header(r.SlotOf(x.Index)).Index
			}
			status(x.Index, got, x.MinSlices, err, x.NonBlocking)
			_, err = r.WaitGrain(x.Index, x.MinSlices, time.Millisecond)
			status(x.Index, got, x.MinSlices, err, x.Blocking1ms)
		}
	}
	reads(e.Reads)
	correctInode(t, d, e.FlowID)
	reads(e.Live.Reads)
	for _, g := range e.Grains {
		if g.StatusAllLive != "" {
			_, err := r.Grain(g.ReadIndex, AllSlices)
			status(g.ReadIndex, g.Index, AllSlices, err, g.StatusAllLive)
		}
	}
	if _, err := d.OpenContinuousReader(e.FlowID); !errors.Is(err, ErrInvalidFlowReader) {
		t.Errorf("continuous reader on a discrete flow: %v", err)
	}
}

func checkFixtureSamples(t *testing.T, d *Domain, e *expectation) {
	r := newSampleReader(t, d, e.FlowID)
	if r.MaxCount() != e.MaxReadLengthSamples {
		t.Errorf("max count %d, want %d", r.MaxCount(), e.MaxReadLengthSamples)
	}
	word := uint64(r.WordSize())
	for _, x := range e.Windows {
		w, err := r.Samples(x.Index, x.Count)
		if statusName(t, err) != x.Status {
			t.Fatalf("window %d: %v", x.Index, err)
		}
		if w.First*word != x.FragmentBytes[0] || w.Second*word != x.FragmentBytes[1] ||
			r.BufferLength()*word != x.StrideBytes || r.ChannelCount() != x.Channels {
			t.Errorf("window %d: %+v", x.Index, w)
		}
		if (w.Start)%r.BufferLength() != x.FirstSample%r.BufferLength() {
			t.Errorf("window %d starts at slot %d", x.Index, w.Start)
		}
		dst := make([]byte, x.Count*word*uint64(x.Channels))
		if err := r.Read(dst, x.Index, x.Count); err != nil {
			t.Fatal(err)
		}
		for c, want := range x.ChannelSHA256 {
			sum := sha256.Sum256(dst[uint64(c)*x.Count*word : uint64(c+1)*x.Count*word])
			if hex.EncodeToString(sum[:]) != want {
				t.Errorf("window %d channel %d differs", x.Index, c)
			}
		}
	}
	reads := func(list []expectRead) {
		t.Helper()
		for _, x := range list {
			_, err := r.Samples(x.Index, x.Count)
			_, blocking := r.WaitSamples(x.Index, x.Count, time.Millisecond)
			if a, b := statusName(t, err), statusName(t, blocking); a != x.NonBlocking || b != x.Blocking1ms {
				t.Errorf("read %d of %d: %s %s, want %s %s", x.Count, x.Index, a, b, x.NonBlocking, x.Blocking1ms)
			}
		}
	}
	reads(e.Reads)
	correctInode(t, d, e.FlowID)
	reads(e.Live.Reads)
	checkFixtureWakes(t, r, e)
	if _, err := d.OpenDiscreteReader(e.FlowID); !errors.Is(err, ErrInvalidFlowReader) {
		t.Errorf("discrete reader on a continuous flow: %v", err)
	}
}

// checkFixtureWakes replays the SDK writer's commits: the rule must give its sync counter.
func checkFixtureWakes(t *testing.T, r *ContinuousReader, e *expectation) {
	step := uint64(480)
	if r.ChannelCount() == 16 {
		step = 192
	}
	info := r.Info()
	rule := newWakeRule(info.MaxSyncBatchSizeHint, info.MaxCommitBatchSizeHint)
	wakes := uint32(0)
	for head := e.Pattern.FirstWritten; head <= e.Pattern.LastWritten; head += step {
		if rule.commit(head) {
			wakes++
		}
	}
	if wakes != e.Raw.SyncCounter {
		t.Errorf("%d wakes, the SDK made %d", wakes, e.Raw.SyncCounter)
	}
}
