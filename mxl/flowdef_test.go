package mxl

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/uuid"
)

func hint(values ...any) func(object) {
	return set("tags", object{GroupHintTag: values})
}

func frameRate(num, den any) func(object) {
	return set("grain_rate", object{"numerator": num, "denominator": den})
}

// TestConformance13DefinitionRules has an accepting and a refusing case for every rule of MXL format reference §2.
func TestConformance13DefinitionRules(t *testing.T) {
	video := func(change ...func(object)) []byte { return videoDef(192, 108, 25, 1, change...) }
	data := func(change ...func(object)) []byte { return dataDef(50, 1, change...) }
	audio := func(change ...func(object)) []byte { return audioDef(2, 48000, change...) }
	interlaced := set("interlace_mode", InterlacedTFF)
	const id = "5fbec3b1-1b0f-417d-9059-8b94a47197ed"
	for _, c := range []struct {
		name    string
		text    []byte
		refused string // what the error names; "" when the definition is accepted
	}{
		{"video", video(), ""},
		{"data", data(), ""},
		{"audio", audio(), ""},
		{"not JSON", []byte("{"), "not a JSON object"},
		{"an array", []byte("[]"), "not a JSON object"},
		{"null", []byte("null"), "not a JSON object"},
		{"trailing bytes", append(video(), 'x'), "not a JSON object"},

		{"id upper case", video(set("id", strings.ToUpper(id))), ""},
		{"id in braces", video(set("id", "{"+id+"}")), ""},
		{"id missing", video(without("id")), "id: is missing"},
		{"id short", video(set("id", id[1:])), "id"},
		{"id urn", video(set("id", "urn:uuid:"+id)), "id"},
		{"id number", video(set("id", 5)), "id 5"},

		{"format mux", video(set("format", "urn:x-nmos:format:mux")), "format"},
		{"format missing", video(without("format")), "format: is missing"},
		{"format number", data(set("format", 3)), "format 3"},

		{"label missing", audio(without("label")), "label: is missing"},
		{"label empty", audio(set("label", "")), "label"},
		{"label number", audio(set("label", 1)), "label 1"},

		{"hint group:role", video(hint("g:r")), ""},
		{"hint with device", video(hint("g:r:device", "a:b")), ""},
		{"hint with node", video(hint("g:r:node")), ""},
		{"tags missing", video(without("tags")), "tags: is missing"},
		{"tags array", video(set("tags", []any{})), "tags"},
		{"hint missing", video(set("tags", object{})), GroupHintTag},
		{"hint empty list", video(hint()), GroupHintTag},
		{"hint string", video(set("tags", object{GroupHintTag: "g:r"})), GroupHintTag},
		{"hint number", video(hint(1)), GroupHintTag},
		{"hint null", video(hint(nil)), GroupHintTag},
		{"hint one part", video(hint("group")), "group:role"},
		{"hint four parts", video(hint("a:b:node:d")), "group:role"},
		{"hint empty group", video(hint(":r")), "empty group"},
		{"hint empty role", video(hint("g:")), "empty role"},
		{"hint bad scope", video(hint("g:r:host")), "scope"},
		{"hint second bad", video(hint("g:r", "g")), "group:role"},

		{"rate reduced", video(frameRate(60000, 1000)), ""},
		{"rate without denominator", data(set("grain_rate", object{"numerator": 50})), ""},
		{"rate missing", video(without("grain_rate")), "grain_rate: is missing"},
		{"rate number", data(set("grain_rate", 50)), "grain_rate 50"},
		{"rate null", data(set("grain_rate", nil)), "grain_rate null"},
		{"rate zero numerator", data(frameRate(0, 1)), "positive numerator"},
		{"rate negative", data(frameRate(-50, 1)), "positive numerator"},
		{"rate zero denominator", data(frameRate(50, 0)), "positive denominator"},
		{"rate text", data(frameRate("50", 1)), "positive numerator"},
		{"rate denominator null", data(frameRate(50, nil)), "positive denominator"},
		{"sample rate missing", audio(without("sample_rate")), "sample_rate: is missing"},
		{"sample rate zero", audio(set("sample_rate", object{"numerator": 0})), "sample_rate"},

		{"v210a", video(set("media_type", MediaV210A)), ""},
		{"media type missing", video(without("media_type")), "media_type: is missing"},
		{"media type raw", video(set("media_type", "video/raw")), "media_type"},
		{"media type of data in video", video(set("media_type", MediaSMPTE291)), "media_type"},
		{"media type of video in data", data(set("media_type", MediaV210A)), "media_type"},
		{"media type number", data(set("media_type", 1)), "media_type 1"},
		{"audio without media type", audio(without("media_type")), ""},
		{"audio with any media type", audio(set("media_type", 7)), ""},

		{"width 2", video(set("frame_width", 2)), ""},
		{"width 7680", video(set("frame_width", 7680)), ""},
		{"width 1920.9", video(set("frame_width", 1920.9)), ""},
		{"width 1", video(set("frame_width", 1)), "frame_width 1"},
		{"width 7681", video(set("frame_width", 7681)), "frame_width 7681"},
		{"width text", video(set("frame_width", "1920")), "frame_width"},
		{"width missing", video(without("frame_width")), "frame_width: is missing"},
		{"height 1", video(set("frame_height", 1)), ""},
		{"height 4320", video(set("frame_height", 4320)), ""},
		{"height 0", video(set("frame_height", 0)), "frame_height 0"},
		{"height 4321", video(set("frame_height", 4321)), "frame_height 4321"},
		{"height missing", video(without("frame_height")), "frame_height: is missing"},

		{"progressive", video(set("interlace_mode", Progressive)), ""},
		{"tff", video(interlaced), ""},
		{"bff", video(set("interlace_mode", InterlacedBFF), frameRate(30000, 1001)), ""},
		{"interlaced 25 unreduced", video(interlaced, frameRate(50, 2)), ""},
		{"psf", video(set("interlace_mode", "interlaced_psf")), "interlace_mode"},
		{"mode null", video(set("interlace_mode", nil)), "interlace_mode null"},
		{"interlaced 50", video(interlaced, frameRate(50, 1)), "grain_rate"},
		{"interlaced 30", video(interlaced, frameRate(30, 1)), "grain_rate"},
		{"interlaced odd height", video(interlaced, set("frame_height", 107)), "frame_height 107"},

		{"one channel by default", audio(without("channel_count")), ""},
		{"64 bit", audio(set("bit_depth", 64)), ""},
		{"no channel", audio(set("channel_count", 0)), "channel_count 0"},
		{"half a channel", audio(set("channel_count", 2.5)), "channel_count 2.5"},
		{"channels as text", audio(set("channel_count", "2")), "channel_count"},
		{"bit depth missing", audio(without("bit_depth")), "bit_depth: is missing"},
		{"24 bit", audio(set("bit_depth", 24)), "bit_depth 24"},
		{"bit depth text", audio(set("bit_depth", "32")), "bit_depth"},

		{"other members", video(set("components", []any{1}), set("colorspace", 5), set("parents", nil)), ""},
	} {
		d, err := ParseFlowDef(c.text)
		if c.refused == "" {
			if err != nil || d.ID == (uuid.UUID{}) || len(d.GroupHints) == 0 || string(d.Raw) != string(c.text) {
				t.Errorf("%s: refused: %v", c.name, err)
			}
			continue
		}
		var de *DefinitionError
		if !errors.As(err, &de) || !errors.Is(err, ErrInvalidArgument) || !strings.Contains(err.Error(), c.refused) {
			t.Errorf("%s: %v, want an error that names %q", c.name, err, c.refused)
		}
	}
}

func TestParsedDefinition(t *testing.T) {
	v := parse(t, videoDef(1920, 1080, 30000, 1001, set("interlace_mode", InterlacedBFF)))
	if v.Rate != (Rational{60000, 1001}) || v.Width != 1920 || v.Height != 1080 || !v.Interlaced() || v.Format != FormatVideo {
		t.Errorf("%+v", v)
	}
	a := parse(t, audioDef(16, 96000, without("channel_count"), set("bit_depth", 64)))
	if a.ChannelCount != 1 || a.BitDepth != 64 || a.WordSize() != 8 || a.Rate != (Rational{96000, 1}) || a.PayloadSize() != 0 {
		t.Errorf("%+v", a)
	}
	r := parse(t, videoDef(1920, 1080, 60000, 1000))
	if r.Rate != (Rational{60, 1}) {
		t.Errorf("rate %v", r.Rate)
	}
	long := DefinitionError{"label", shorten([]byte(strings.Repeat("x", 500))), "is bad"}
	if len(long.Error()) > 200 {
		t.Errorf("error of %d bytes", len(long.Error()))
	}
}

func TestConformance14FlowOptions(t *testing.T) {
	for text, want := range map[string]FlowOptions{
		"":   {},
		"{}": {},
		`{"maxCommitBatchSizeHint": 5, "maxSyncBatchSizeHint": 25}`:  {MaxCommitBatchSizeHint: 5, MaxSyncBatchSizeHint: 25},
		`{"maxCommitBatchSizeHint": 2.9}`:                            {MaxCommitBatchSizeHint: 2},
		`{"maxSyncBatchSizeHint": 7, "other": 1}`:                    {MaxSyncBatchSizeHint: 7},
		`{"maxCommitBatchSizeHint": 1000, "history": {"a": [null]}}`: {MaxCommitBatchSizeHint: 1000},
	} {
		if got, err := ParseFlowOptions([]byte(text)); err != nil || got != want {
			t.Errorf("%s: %+v, %v", text, got, err)
		}
	}
	for _, text := range []string{
		`{"maxCommitBatchSizeHint": 10, "maxSyncBatchSizeHint": 25}`, `{"maxCommitBatchSizeHint": 0}`,
		`{"maxCommitBatchSizeHint": -1}`, `{"maxSyncBatchSizeHint": "4"}`, `{"maxSyncBatchSizeHint": 4294967296}`,
		`{"maxSyncBatchSizeHint": null}`, `{"maxSyncBatchSizeHint": 0.5}`, `[]`, `null`, `5`, `{`,
	} {
		if got, err := ParseFlowOptions([]byte(text)); !errors.Is(err, ErrInvalidArgument) {
			t.Errorf("%s: %+v, %v", text, got, err)
		}
	}
	d := newDomain(t, 0)
	opt := FlowOptions{MaxCommitBatchSizeHint: 5, MaxSyncBatchSizeHint: 25}
	w, _, err := d.CreateDiscreteWriter(dataDef(50, 1), opt)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	b := dataBytes(t, w.Dir())
	if le.Uint32(b[48:]) != 5 || le.Uint32(b[52:]) != 25 {
		t.Errorf("stored hints %d and %d", le.Uint32(b[48:]), le.Uint32(b[52:]))
	}
	if _, _, err := d.CreateDiscreteWriter(dataDef(50, 1), FlowOptions{MaxCommitBatchSizeHint: 10, MaxSyncBatchSizeHint: 25}); !errors.Is(err, ErrInvalidArgument) {
		t.Errorf("sync hint not a multiple: %v", err)
	}
	copied := FlowOptionsOf(FlowInfo{MaxCommitBatchSizeHint: 100000, MaxSyncBatchSizeHint: 108})
	m, _, err := d.CreateDiscreteWriter(dataDef(50, 1), copied)
	if err != nil {
		t.Fatalf("hints of an existing flow: %v", err)
	}
	defer m.Close()
	if i := m.Info(); i.MaxCommitBatchSizeHint != 100000 || i.MaxSyncBatchSizeHint != 108 {
		t.Errorf("copied hints %+v", i)
	}
}

func TestSameDefinition(t *testing.T) {
	id := set("id", uuid.NewString())
	base := videoDef(192, 108, 25, 1, id)
	for _, c := range []struct {
		name string
		b    []byte
		want string
	}{
		{"itself", base, ""},
		{"label and more", videoDef(192, 108, 25, 1, id, set("label", "x"), set("description", "y"), hint("a:b"),
			set("parents", []any{"p"}), set("version", "1:2"), set("source_id", "s"), set("device_id", "d")), ""},
		{"rate unreduced", videoDef(192, 108, 50, 2, id), ""},
		{"mode spelled out", videoDef(192, 108, 25, 1, id, set("interlace_mode", Progressive)), ""},
		{"id", videoDef(192, 108, 25, 1), "id"},
		{"rate", videoDef(192, 108, 50, 1, id), "grain_rate"},
		{"width and height", videoDef(194, 110, 25, 1, id), "frame_width,frame_height"},
		{"interlace", videoDef(192, 108, 25, 1, id, set("interlace_mode", InterlacedTFF)), "interlace_mode"},
		{"media type", videoDef(192, 108, 25, 1, id, set("media_type", MediaV210A)), "media_type"},
		{"format", dataDef(25, 1, id), "format,media_type,frame_width,frame_height,interlace_mode"},
		{"not JSON", []byte("{"), nameFlowDef},
		{"refused, same essence", videoDef(192, 108, 25, 1, id, without("label")), ""},
		{"refused, other rate", videoDef(192, 108, 24, 1, id, without("label")), "grain_rate"},
	} {
		same, names := SameDefinition(base, c.b)
		if got := strings.Join(names, ","); got != c.want || same != (c.want == "") {
			t.Errorf("%s: %v %q, want %q", c.name, same, got, c.want)
		}
	}
	a, b := audioDef(2, 48000, id), audioDef(4, 96000, id, set("bit_depth", 64), set("media_type", "audio/x"))
	if _, names := SameDefinition(a, b); strings.Join(names, ",") != "sample_rate,channel_count,bit_depth" {
		t.Errorf("audio: %v", names)
	}
}

func TestDomainDefinition(t *testing.T) {
	d, err := ParseDomainDef([]byte(`{"id": "x", "label": 5, "description": "d", "more": []}`))
	if err != nil || d.ID != "x" || d.Label != "" || d.Description != "d" {
		t.Errorf("%+v, %v", d, err)
	}
	for _, text := range []string{"", "null", "[]", "5", "{"} {
		if _, err := ParseDomainDef([]byte(text)); !errors.Is(err, ErrInvalidArgument) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestRefusedRings(t *testing.T) {
	for name, c := range map[string]struct {
		def     []byte
		history uint64
	}{
		"history 0":              {dataDef(50, 1), 0},
		"history below a grain":  {dataDef(25, 1), 39_999_999},
		"too many grains":        {dataDef(120, 1), 3600 * nanosPerSecond},
		"more than 64 bits":      {dataDef(1<<53, 1), 1 << 63},
		"audio history 0":        {audioDef(2, 48000), 0},
		"channels times samples": {audioDef(1<<30, 48000), DefaultHistoryNS},
		"a very long ring":       {audioDef(1, 1<<53), 1 << 63},
	} {
		_, err := newFlowInfo(parse(t, c.def), FlowOptions{}, c.history)
		if !errors.Is(err, ErrInvalidArgument) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
