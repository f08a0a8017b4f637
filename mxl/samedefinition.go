package mxl

import (
	"bytes"
	"encoding/json"
	"slices"
)

// SameDefinition compares what decides whether two definitions describe the same essence: id, format, media type, rate
// and geometry. Label, description, tags, parents, version, source_id, device_id and everything else do not count. It names
// the differing members, or flow_def.json when one of the two cannot be parsed and they are not equal.
func SameDefinition(a, b []byte) (same bool, differing []string) {
	if bytes.Equal(a, b) {
		return true, nil
	}
	x, errX := ParseFlowDef(a)
	y, errY := ParseFlowDef(b)
	if errX != nil || errY != nil {
		differing = comparedMembersDiffer(a, b)
		return len(differing) == 0, differing
	}
	add := func(differ bool, name string) {
		if differ {
			differing = append(differing, name)
		}
	}
	add(x.ID != y.ID, "id")
	add(x.Format != y.Format, "format")
	add(x.MediaType != y.MediaType && x.Format != FormatAudio, "media_type")
	add(x.frameRate() != y.frameRate(), rateMember(y.Format))
	add(x.Width != y.Width, "frame_width")
	add(x.Height != y.Height, "frame_height")
	add(x.Interlace != y.Interlace, "interlace_mode")
	add(x.ChannelCount != y.ChannelCount, "channel_count")
	add(x.BitDepth != y.BitDepth, "bit_depth")
	return len(differing) == 0, differing
}

// frameRate is the rate as the definition has it.
func (d *FlowDef) frameRate() Rational {
	if d.Interlaced() {
		return Rational{d.Rate.Numerator, d.Rate.Denominator * 2}.Reduced()
	}
	return d.Rate
}

// comparedMembersDiffer compares definitions of which at least one is not valid.
func comparedMembersDiffer(a, b []byte) (differing []string) {
	var x, y map[string]any
	if json.Unmarshal(a, &x) != nil || json.Unmarshal(b, &y) != nil || x == nil || y == nil {
		return []string{nameFlowDef}
	}
	for _, name := range []string{
		"id", "format", "media_type", "grain_rate", "sample_rate", "frame_width", "frame_height", "interlace_mode",
		"channel_count", "bit_depth",
	} {
		p, errP := json.Marshal(x[name])
		q, errQ := json.Marshal(y[name])
		if errP != nil || errQ != nil || !bytes.Equal(p, q) {
			differing = append(differing, name)
		}
	}
	return differing
}

func unique(names []string) []string {
	var out []string
	for _, n := range names {
		if !slices.Contains(out, n) {
			out = append(out, n)
		}
	}
	return out
}
