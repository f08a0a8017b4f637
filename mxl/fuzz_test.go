package mxl

import (
	"errors"
	"testing"
)

func FuzzParseFlowDef(f *testing.F) {
	for _, def := range [][]byte{
		videoDef(1920, 1080, 50, 1), videoDef(192, 108, 25, 1, set("interlace_mode", InterlacedTFF)),
		videoDef(3840, 2160, 60000, 1001, set("media_type", MediaV210A)), dataDef(50, 1), audioDef(16, 48000),
		[]byte("{}"), []byte("null"), []byte(`{"id":1e999}`),
	} {
		f.Add(def)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		d, err := ParseFlowDef(text)
		if err != nil {
			if !errors.Is(err, ErrInvalidArgument) || err.Error() == "" {
				t.Fatal(err)
			}
			return
		}
		if same, names := SameDefinition(text, text); !same {
			t.Fatalf("differs from itself in %v", names)
		}
		if d.Format.Discrete() && (d.PayloadSize() <= 0 || d.TotalSlices() <= 0 || d.TotalSlices() > 65535) {
			t.Fatalf("payload %d in %d slices", d.PayloadSize(), d.TotalSlices())
		}
		if info, err := newFlowInfo(d, FlowOptions{}, DefaultHistoryNS); err == nil {
			if err := checkFlowInfo(info); err != nil {
				t.Fatalf("we would make a flow we refuse: %v", err)
			}
			_ = RequiredBytes(d, DefaultHistoryNS)
		}
	})
}

func FuzzSameDefinition(f *testing.F) {
	f.Add(videoDef(192, 108, 25, 1), dataDef(50, 1))
	f.Add([]byte(`{"id":[]}`), []byte(`{}`))
	f.Fuzz(func(t *testing.T, a, b []byte) {
		same, names := SameDefinition(a, b)
		back, _ := SameDefinition(b, a)
		if same != back || same != (len(names) == 0) {
			t.Fatalf("same %v, the other way %v, differing %v", same, back, names)
		}
	})
}

func FuzzParseFlowOptions(f *testing.F) {
	for _, s := range []string{"", "{}", `{"maxCommitBatchSizeHint":5,"maxSyncBatchSizeHint":25}`, `{"maxSyncBatchSizeHint":1e300}`, "[]"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		o, err := ParseFlowOptions(text)
		if err != nil && !errors.Is(err, ErrInvalidArgument) {
			t.Fatal(err)
		}
		if err == nil && o.MaxCommitBatchSizeHint != 0 && o.MaxSyncBatchSizeHint%o.MaxCommitBatchSizeHint != 0 {
			t.Fatalf("%+v", o)
		}
	})
}

func FuzzParseDomainOptions(f *testing.F) {
	for _, s := range []string{"", "{}", `{"` + HistoryKey + `": 5e8}`, `{"` + HistoryKey + `": -1}`, `{"` + HistoryKey + `": "5"}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		if h, err := ParseDomainOptions(text); err != nil && h != DefaultHistoryNS {
			t.Fatalf("%d with %v", h, err)
		}
	})
}

func FuzzParseDomainDef(f *testing.F) {
	for _, s := range []string{"", "{}", `{"id":"x","label":5}`, "null"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		if d, err := ParseDomainDef(text); (err == nil) != (d != nil) {
			t.Fatal(d, err)
		}
	})
}

func FuzzDataHeader(f *testing.F) {
	var b [dataFileSize]byte
	for _, def := range [][]byte{videoDef(192, 108, 50, 1), audioDef(2, 48000)} {
		d, err := ParseFlowDef(def)
		if err != nil {
			f.Fatal(err)
		}
		info, err := newFlowInfo(d, FlowOptions{}, DefaultHistoryNS)
		if err != nil {
			f.Fatal(err)
		}
		encodeFlowInfo(b[:], info)
		f.Add(append([]byte{}, b[:]...))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		info, err := decodeFlowInfo(data)
		if err != nil {
			return
		}
		if err := checkFlowInfo(info); err != nil {
			t.Fatal(err)
		}
		// What was decoded can be encoded again, and the arithmetic of any accepted rate is total.
		var out [dataFileSize]byte
		encodeFlowInfo(out[:], info)
		again, err := decodeFlowInfo(out[:])
		if err != nil || again != info {
			t.Fatalf("%+v, want %+v (%v)", again, info, err)
		}
		_ = info.Rate.TimeOf(info.HeadIndex)
		_ = info.Rate.IndexAt(info.LastWriteTime)
		_ = waitSlice(info)
	})
}

func FuzzGrainHeader(f *testing.F) {
	f.Add(make([]byte, grainFieldsEnd), uint32(512), uint16(108))
	f.Fuzz(func(t *testing.T, b []byte, slice uint32, total uint16) {
		if len(b) < grainFieldsEnd {
			return
		}
		h := decodeGrainHeader(b)
		if checkGrainHeader(h, [4]uint32{slice}, h.GrainSize, h.TotalSlices) == nil &&
			uint64(h.GrainSize) != uint64(slice)*uint64(h.TotalSlices) {
			t.Fatalf("%+v accepted for slices of %d", h, slice)
		}
	})
}

func FuzzIndexArithmetic(f *testing.F) {
	f.Add(uint64(1_700_000_000_123_456_789), int64(60000), int64(1001))
	f.Add(^uint64(0), int64(1)<<62, int64(1)<<62)
	f.Fuzz(func(t *testing.T, v uint64, num, den int64) {
		r := Rational{num, den}
		i, at := r.IndexAt(v), r.TimeOf(v)
		if !r.Valid() && (i != UndefinedIndex || v != 0 && at != UndefinedIndex) {
			t.Fatal(i, at)
		}
	})
}
