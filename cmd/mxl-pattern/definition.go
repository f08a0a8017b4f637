package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/google/uuid"

	"github.com/mxl-stack/mxl-fabrics-agent/mxl"
)

// essence is what the options of write say about the flow.
type essence struct {
	id            uuid.UUID
	label         string
	format        string // v210, v210a, smpte291, audio
	width, height int
	interlace     string // progressive, tff, bff
	rate          mxl.Rational
	channels      int
	bitDepth      int
}

// definition is the flow definition of an essence. The rate of an interlaced essence is that of its frames.
func (e essence) definition() ([]byte, error) {
	hint := e.label + ":"
	def := map[string]any{"id": e.id.String(), "label": e.label, "description": "test pattern of mxl-pattern", "parents": []string{}}
	switch e.format {
	case "v210", "v210a":
		hint += "Video"
		def["format"], def["media_type"] = mxl.FormatVideo.URN(), "video/"+e.format
		def["frame_width"], def["frame_height"] = e.width, e.height
		def["colorspace"] = "BT709"
		def["components"] = []map[string]any{
			{"name": "Y", "width": e.width, "height": e.height, "bit_depth": 10},
			{"name": "Cb", "width": e.width / 2, "height": e.height, "bit_depth": 10},
			{"name": "Cr", "width": e.width / 2, "height": e.height, "bit_depth": 10},
		}
		switch e.interlace {
		case "progressive":
			def["interlace_mode"] = "progressive"
		case "tff", "bff":
			def["interlace_mode"] = "interlaced_" + e.interlace
		default:
			return nil, fmt.Errorf("interlace %q, want progressive, tff or bff", e.interlace)
		}
		def["grain_rate"] = e.rate
	case "smpte291":
		hint += "Data"
		def["format"], def["media_type"] = mxl.FormatData.URN(), "video/smpte291"
		def["grain_rate"] = e.rate
	case "audio":
		hint += "Audio"
		def["format"], def["media_type"] = mxl.FormatAudio.URN(), "audio/float32"
		if e.bitDepth == 64 {
			def["media_type"] = "audio/float64"
		}
		def["sample_rate"], def["channel_count"], def["bit_depth"] = e.rate, e.channels, e.bitDepth
	default:
		return nil, fmt.Errorf("format %q, want v210, v210a, smpte291 or audio", e.format)
	}
	def["tags"] = map[string][]string{"urn:x-nmos:tag:grouphint/v1.0": {hint}}
	return json.MarshalIndent(def, "", "  ")
}

// site is what the options of write say about the domain.
type site struct {
	path      string
	id, label string
	history   time.Duration
}

// prepare creates the domain directory when it has an id or does not exist, and writes domain_def.json and options.json
// where they are wanted and absent.
func (s site) prepare() error {
	if err := os.MkdirAll(s.path, 0o755); err != nil {
		return err
	}
	if s.history > 0 {
		options := map[string]int64{"urn:x-mxl:option:history_duration/v1.0": s.history.Nanoseconds()}
		if err := writeAbsent(filepath.Join(s.path, "options.json"), options); err != nil {
			return err
		}
	}
	if s.id == "" {
		return nil
	}
	label := s.label
	if label == "" {
		label = "mxl-pattern"
	}
	def := map[string]any{"id": s.id, "label": label, "description": "test domain of mxl-pattern", "tags": map[string][]string{}}
	return writeAbsent(filepath.Join(s.path, "domain_def.json"), def)
}

// writeAbsent writes a JSON file under its name only when complete, and leaves an existing one alone.
func writeAbsent(path string, value any) error {
	if _, err := os.Lstat(path); err == nil {
		return nil
	}
	text, err := json.MarshalIndent(value, "", "  ")
	if err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".mxl-pattern-*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	_, err = f.Write(append(text, '\n'))
	if err := errors.Join(err, f.Chmod(0o644), f.Close()); err != nil {
		return err
	}
	if err := os.Link(f.Name(), path); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return nil
}
