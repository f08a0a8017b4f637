package mxl

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"
)

// damage is one way to hand out a bad flow.
type damage struct {
	name  string
	audio bool
	do    func(t *testing.T, dir string)
	names string // what the error must name
}

func poke(name string, off int, b ...byte) func(*testing.T, string) {
	return func(t *testing.T, dir string) {
		f, err := os.OpenFile(filepath.Join(dir, name), os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if _, err := f.WriteAt(b, int64(off)); err != nil {
			t.Fatal(err)
		}
	}
}

func poke32(name string, off int, v uint32) func(*testing.T, string) {
	return poke(name, off, le.AppendUint32(nil, v)...)
}

func poke64(name string, off int, v uint64) func(*testing.T, string) {
	return poke(name, off, le.AppendUint64(nil, v)...)
}

func truncate(name string, size int64) func(*testing.T, string) {
	return func(t *testing.T, dir string) {
		if err := os.Truncate(filepath.Join(dir, name), size); err != nil {
			t.Fatal(err)
		}
	}
}

func replace(name string, with func(path string) error) func(*testing.T, string) {
	return func(t *testing.T, dir string) {
		path := filepath.Join(dir, name)
		if err := os.RemoveAll(path); err != nil {
			t.Fatal(err)
		}
		if err := with(path); err != nil {
			t.Fatal(err)
		}
	}
}

func gone(string) error        { return nil }
func fifo(path string) error   { return syscall.Mkfifo(path, 0o644) }
func folder(path string) error { return os.Mkdir(path, 0o755) }
func linkTo(target string) func(string) error {
	return func(path string) error { return os.Symlink(target, path) }
}

// TestConformance42BadFlows opens every kind of bad flow: an error that names the file, never a fault.
func TestConformance42BadFlows(t *testing.T) {
	const data, grain, ring = nameData, "grains/data.3", nameChannels
	for _, c := range []damage{
		{"data empty", false, truncate(data, 0), "0 bytes"},
		{"data short", false, truncate(data, 2063), "2063 bytes"},
		{"data version", false, poke32(data, 0, 2), "version is 2"},
		{"data header size", false, poke32(data, 4, 1024), "size is 1024"},
		{"format 0", false, poke32(data, offFormat, 0), "format is 0"},
		{"format 9", false, poke32(data, offFormat, 9), "format is 9"},
		{"rate numerator 0", false, poke64(data, offRateNum, 0), "rate is 0/1"},
		{"rate denominator 0", false, poke64(data, offRateDen, 0), "rate is 50/0"},
		{"rate negative", false, poke64(data, offRateNum, 1<<63), "rate is -"},
		{"device memory", false, poke32(data, offLocation, 1), "payload location is 1"},
		{"no grains", false, poke32(data, offGrainCount, 0), "grain count is 0"},
		{"too many grains", false, poke32(data, offGrainCount, 1<<31), "grain count is 2147483648"},
		{"one grain more", false, poke32(data, offGrainCount, 11), "data.10"},
		{"slice size 0", false, poke32(data, offSliceSizes, 0), "slice sizes"},
		{"slice size huge", false, poke32(data, offSliceSizes, 1<<31), "data.0"},
		{"a second plane", false, poke32(data, offSliceSizes+4, 1), "data.0"},
		{"data gone", false, replace(data, gone), data},
		{"data a link", false, replace(data, linkTo("/etc/passwd")), "symbolic link"},
		{"data a fifo", false, replace(data, fifo), "not a regular file"},
		{"data a directory", false, replace(data, folder), data},
		{"grains gone", false, replace(nameGrains, gone), nameGrains},
		{"grains a link", false, replace(nameGrains, linkTo("/tmp")), nameGrains},
		{"grains a file", false, replace(nameGrains, func(p string) error { return os.WriteFile(p, nil, 0o644) }), nameGrains},
		{"grain gone", false, replace(grain, gone), "data.3"},
		{"grain a link", false, replace(grain, linkTo("data.4")), "symbolic link"},
		{"grain a fifo", false, replace(grain, fifo), "not a regular file"},
		{"grain a device", false, replace(grain, linkTo("/dev/zero")), "symbolic link"},
		{"grain empty", false, truncate(grain, 0), "0 bytes"},
		{"grain without payload", false, truncate(grain, 8192), "8192 bytes"},
		{"grain one byte short", false, truncate(grain, 12287), "12287 bytes"},
		{"grain version", false, poke32(grain, 0, 2), "grain version is 2"},
		{"grain header size", false, poke32(grain, 4, 8192), "size is 8192"},
		{"grain size", false, poke32(grain, offGrainSize, 1<<31), "grain size is 2147483648"},
		{"grain slices", false, poke32(grain, offGrainSlices, 7), "total slices are 7"},
		{"first grain's size", false, poke32("grains/data.0", offGrainSize, 1<<31), "grain size"},
		{"no slices", false, poke32("grains/data.0", offGrainSlices, 0), "0 slices"},

		{"no channels", true, poke32(data, offChannelCount, 0), "channel count is 0"},
		{"no samples", true, poke32(data, offBufferLength, 0), "buffer length is 0"},
		{"one sample", true, poke32(data, offBufferLength, 1), "buffer length is 1"},
		{"more channels than ring", true, poke32(data, offChannelCount, 5), ring},
		{"channels overflow", true, poke32(data, offChannelCount, 1<<31), "2^32"},
		{"samples overflow", true, poke32(data, offBufferLength, 1<<31), "2^32"},
		{"ring gone", true, replace(ring, gone), ring},
		{"ring empty", true, truncate(ring, 0), "has 0 bytes"},
		{"ring short", true, truncate(ring, 4096), "has 4096 bytes"},
		{"ring of 16 bit", true, truncate(ring, 2*2*19456), "want 4 or 8"},
		{"ring a link", true, replace(ring, linkTo("data")), "symbolic link"},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := newDomain(t, 0)
			var id uuid.UUID
			if c.audio {
				w := newSampleWriter(t, d, audioDef(2, 48000), FlowOptions{})
				id = w.ID()
				w.Close()
			} else {
				w := newGrainWriter(t, d, dataDef(50, 1))
				id = w.ID()
				w.Close()
			}
			dir := filepath.Join(d.Path(), FlowDirName(id))
			c.do(t, dir)
			check := func(what string, err error) {
				t.Helper()
				if err == nil || !strings.Contains(err.Error(), c.names) {
					t.Errorf("%s: %v, want an error that names %q", what, err, c.names)
				}
			}
			if c.audio {
				_, err := d.OpenContinuousReader(id)
				check("reader", err)
				_, err = d.OpenContinuousWriter(id)
				check("writer", err)
			} else {
				_, err := d.OpenDiscreteReader(id)
				check("reader", err)
				_, err = d.OpenDiscreteWriter(id)
				check("writer", err)
			}
			if c.name != "device memory" {
				_, err := InspectFlow(dir)
				check("inspection", err)
			} else if info, err := ReadFlowInfo(dir); err != nil || info.PayloadLocation != DeviceMemory {
				t.Errorf("info %+v, %v", info, err)
			}
		})
	}
}

func TestConformance42LinksAndTexts(t *testing.T) {
	d := newDomain(t, 0)
	w := newGrainWriter(t, d, dataDef(50, 1))
	link := uuid.New()
	if err := os.Symlink(w.Dir(), filepath.Join(d.Path(), FlowDirName(link))); err != nil {
		t.Fatal(err)
	}
	if _, err := d.OpenDiscreteReader(link); err == nil || !strings.Contains(err.Error(), "symbolic link") {
		t.Errorf("a linked flow directory: %v", err)
	}
	if _, err := d.IsActive(link); err == nil {
		t.Error("a linked flow directory was probed")
	}
	if ids, err := d.Flows(); err != nil || len(ids) != 1 {
		t.Errorf("a linked flow directory is listed: %v %v", ids, err)
	}
	path := filepath.Join(w.Dir(), nameFlowDef)
	for name, with := range map[string]func(string) error{
		"huge":   func(p string) error { return os.WriteFile(p, make([]byte, maxTextSize+1), 0o644) },
		"a link": linkTo("/etc/passwd"), "a fifo": fifo, "gone": gone, "a directory": folder,
	} {
		replace(nameFlowDef, with)(t, w.Dir())
		if text, err := d.ReadFlowDef(w.ID()); err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("definition is %s: %d bytes, %v", name, len(text), err)
		}
	}
	if err := os.Symlink("/etc/passwd", filepath.Join(d.Path(), nameDomainDef)); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Definition(); err == nil || !strings.Contains(err.Error(), "symbolic link") {
		t.Errorf("a linked domain definition: %v", err)
	}
	if _, err := OpenDomain(filepath.Join(d.Path(), nameDomainDef)); err == nil {
		t.Error("a file was opened as a domain")
	}
	if _, err := OpenDomain(filepath.Join(d.Path(), "nowhere")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no domain: %v", err)
	}
}

// TestConformance42TruncatedWhileMapped takes the files away from under readers and writers.
func TestConformance42TruncatedWhileMapped(t *testing.T) {
	d := newDomain(t, 0)
	w := newGrainWriter(t, d, videoDef(192, 108, 50, 1))
	write(t, w, 100, 1)
	r := newGrainReader(t, d, w.ID())
	buf := make([]byte, r.PayloadSize())
	if err := os.Truncate(filepath.Join(w.Dir(), nameGrains, "data.0"), 0); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Grain(100, AllSlices); !errors.Is(err, ErrFlowInvalid) {
		t.Errorf("grain: %v", err)
	}
	if _, err := r.CopyGrain(buf, 100, AllSlices); !errors.Is(err, ErrFlowInvalid) {
		t.Errorf("copy: %v", err)
	}
	if h := r.Header(0); h.Index != UndefinedIndex {
		t.Errorf("header %+v", h)
	}
	if err := r.Check(); !errors.Is(err, ErrFlowInvalid) {
		t.Errorf("check: %v", err)
	}
	if err := Guard(func() error { _ = r.Header(0); return nil }); !errors.Is(err, ErrFlowInvalid) {
		t.Errorf("header under a guard: %v", err)
	}
	if err := Guard(func() error { copy(buf, r.Slot(0)[PayloadOffset:]); return nil }); !errors.Is(err, ErrFlowInvalid) {
		t.Errorf("copy under a guard: %v", err)
	}
	if _, err := w.OpenGrain(110); !errors.Is(err, ErrFlowInvalid) {
		t.Errorf("writer: %v", err)
	}
	if _, err := w.CommitSlot(0, 1); !errors.Is(err, ErrFlowInvalid) {
		t.Errorf("commit of a slot: %v", err)
	}
	write(t, w, 101, 1) // other slots go on
	if err := os.Truncate(filepath.Join(w.Dir(), nameData), 0); err != nil {
		t.Fatal(err)
	}
	if got := r.Head() + uint64(r.Sync()); got != 0 {
		t.Errorf("head and counter of nothing: %d", got)
	}
	_ = r.Info()
	if _, err := r.WaitSync(0, time.Second); !errors.Is(err, ErrFlowInvalid) {
		t.Errorf("wait: %v", err)
	}
	if _, err := r.WaitGrain(101, AllSlices, time.Second); !errors.Is(err, ErrFlowInvalid) {
		t.Errorf("wait for a grain: %v", err)
	}
	if _, err := w.OpenGrain(102); err != nil {
		t.Errorf("slots are still there: %v", err)
	}
	if err := w.Commit(102, 1, 0); !errors.Is(err, ErrFlowInvalid) {
		t.Errorf("commit: %v", err)
	}

	a := newSampleWriter(t, d, audioDef(2, 48000), FlowOptions{})
	ar := newSampleReader(t, d, a.ID())
	if err := a.Commit(480, 480); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(filepath.Join(a.Dir(), nameChannels), 0); err != nil {
		t.Fatal(err)
	}
	if err := ar.Read(make([]byte, 480*8), 480, 480); !errors.Is(err, ErrFlowInvalid) {
		t.Errorf("read: %v", err)
	}
	if err := os.Truncate(filepath.Join(a.Dir(), nameData), 0); err != nil {
		t.Fatal(err)
	}
	if err := a.Commit(960, 480); !errors.Is(err, ErrFlowInvalid) {
		t.Errorf("commit: %v", err)
	}
	if _, err := ar.Samples(480, 1); !errors.Is(err, ErrFlowInvalid) {
		t.Errorf("samples: %v", err)
	}
}

func TestGuardLetsOtherPanicsPass(t *testing.T) {
	defer func() {
		if r := recover(); r != "mine" {
			t.Errorf("recovered %v", r)
		}
	}()
	_ = Guard(func() error { panic("mine") })
}

func TestGuardPassesErrors(t *testing.T) {
	want := errors.New("x")
	if err := Guard(func() error { return want }); err != want {
		t.Error(err)
	}
	if err := Guard(func() error { return nil }); err != nil {
		t.Error(err)
	}
}

func TestPermissionErrorsNameTheOwner(t *testing.T) {
	err := fileError("open", t.TempDir(), syscall.EACCES)
	if !errors.Is(err, ErrPermissionDenied) || !errors.Is(err, syscall.EACCES) {
		t.Error(err)
	}
	for _, word := range []string{"uid", "gid", "mode 07", "we are uid"} {
		if !strings.Contains(err.Error(), word) {
			t.Errorf("%v does not name %s", err, word)
		}
	}
}

func TestUseAfterClose(t *testing.T) {
	d := newDomain(t, 0)
	w := newGrainWriter(t, d, dataDef(50, 1))
	r := newGrainReader(t, d, w.ID())
	a := newSampleWriter(t, d, audioDef(2, 48000), FlowOptions{})
	ar := newSampleReader(t, d, a.ID())
	for _, c := range []interface{ Close() error }{r, w, a, ar, r, w, a, ar} {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
	_, grain := r.Grain(1, 1)
	_, waited := r.WaitGrain(1, 1, time.Second)
	_, copied := r.CopyGrain(make([]byte, 4096), 1, 1)
	_, slot := w.CommitSlot(0, 1)
	_, samples := ar.Samples(1, 1)
	_, window := a.OpenSamples(1, 1)
	for i, err := range []error{grain, waited, copied, slot, samples, window, w.Commit(1, 1, 0), a.Commit(1, 1), ar.Read(nil, 1, 1)} {
		if !errors.Is(err, ErrInvalidFlowReader) && !errors.Is(err, ErrInvalidFlowWriter) {
			t.Errorf("%d: %v", i, err)
		}
	}
	if _, err := r.WaitSync(0, time.Second); err != ErrInvalidState {
		t.Error(err)
	}
	if err := r.Check(); err != ErrInvalidState {
		t.Error(err)
	}
	if r.Head() != 0 || r.Sync() != 0 || r.Header(0).Index != UndefinedIndex || r.Slot(0) != nil || r.Intact(Grain{}) || ar.Channels() != nil {
		t.Error("something is left after close")
	}
	r.Touch()
	_ = r.Info()
}

func TestErrorsSayWhatTheyMean(t *testing.T) {
	for err, want := range map[error]string{
		&DifferenceError{uuid.UUID{}, []string{"grain_rate", "format"}}: "differs in grain_rate, format",
		&goneError{"/d/f/data"}:                           "/d/f/data is gone",
		&faultError{0x10}:                                 "memory fault at 0x10",
		&notFoundError{"/d/f/data"}:                       "flow not found",
		ErrTooEarly:                                       "too early",
		fileError("link", "/x", syscall.ELOOP):            "symbolic link",
		fileError("read", "/nowhere", syscall.EIO):        "read /nowhere",
		fileError("read", "/nowhere", syscall.EROFS):      "permission denied",
		&DefinitionError{Reason: "is not a JSON object"}:  "is not a JSON object",
		&DefinitionError{Member: "id", Reason: "missing"}: "id: missing",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q does not say %q", err, want)
		}
	}
}
