package mxl

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"

	"github.com/google/uuid"
)

// Media types of grains.
const (
	MediaV210     = "video/v210"
	MediaV210A    = "video/v210a"
	MediaSMPTE291 = "video/smpte291"
)

// GroupHintTag is the tag every flow definition must carry.
const GroupHintTag = "urn:x-nmos:tag:grouphint/v1.0"

// Interlace modes.
const (
	Progressive   = "progressive"
	InterlacedTFF = "interlaced_tff"
	InterlacedBFF = "interlaced_bff"
)

// FlowDef is a validated flow definition (MXL format reference §2).
type FlowDef struct {
	ID            uuid.UUID
	Format        Format
	Label         string
	MediaType     string   // "" in an audio definition that names none
	Rate          Rational // as stored in the flow header: reduced, doubled when interlaced
	Width, Height int      // of the frame; video only
	Interlace     string   // Progressive, InterlacedTFF, InterlacedBFF; "" unless video
	ChannelCount  int      // audio only
	BitDepth      int      // audio only: 32 or 64
	GroupHints    []string
	Raw           []byte // the definition, verbatim
}

// Interlaced reports whether a grain is a field.
func (d *FlowDef) Interlaced() bool {
	return d.Interlace == InterlacedTFF || d.Interlace == InterlacedBFF
}

// DefinitionError names the member of a flow definition, options or hint that breaks a rule. It wraps ErrInvalidArgument.
type DefinitionError struct {
	Member string // "" for the text as a whole
	Value  string // as it was found, shortened
	Reason string
}

// Error names member and value.
func (e *DefinitionError) Error() string {
	if e.Member == "" {
		return "mxl: flow definition " + e.Reason
	}
	if e.Value == "" {
		return fmt.Sprintf("mxl: flow definition: %s: %s", e.Member, e.Reason)
	}
	return fmt.Sprintf("mxl: flow definition: %s %s: %s", e.Member, e.Value, e.Reason)
}

// Unwrap returns ErrInvalidArgument.
func (e *DefinitionError) Unwrap() error { return ErrInvalidArgument }

// ParseFlowDef parses and validates a definition by the rules of MXL format reference §2. Errors are of type
// *DefinitionError.
func ParseFlowDef(text []byte) (*FlowDef, error) {
	m := members{}
	if err := json.Unmarshal(text, &m); err != nil || m == nil {
		return nil, &DefinitionError{Reason: "is not a JSON object"}
	}
	d := &FlowDef{Raw: text}
	for _, step := range []func(members) error{d.parseIdentity, d.parseGroupHint, d.parseMedia} {
		if err := step(m); err != nil {
			return nil, err
		}
	}
	return d, nil
}

func (d *FlowDef) parseIdentity(m members) error {
	id, err := m.text("id")
	if err != nil {
		return err
	}
	if d.ID, err = parseID(id); err != nil {
		return m.bad("id", "is not a UUID")
	}
	format, err := m.text("format")
	if err != nil {
		return err
	}
	for _, f := range []Format{FormatVideo, FormatAudio, FormatData} {
		if format == f.URN() {
			d.Format = f
		}
	}
	if d.Format == FormatUnspecified {
		return m.bad("format", "is not a format that MXL carries")
	}
	if d.Label, err = m.text("label"); err != nil {
		return err
	}
	if d.Label == "" {
		return m.bad("label", "is empty")
	}
	return nil
}

// parseID accepts what the SDK does: any letter case, with or without braces or hyphens.
func parseID(s string) (uuid.UUID, error) {
	if strings.HasPrefix(strings.ToLower(s), "urn:") {
		return uuid.UUID{}, fmt.Errorf("urn %q", s)
	}
	return uuid.Parse(s)
}

func (d *FlowDef) parseMedia(m members) error {
	switch d.Format {
	case FormatVideo:
		return d.parseVideo(m)
	case FormatData:
		if err := d.parseMediaType(m, MediaSMPTE291); err != nil {
			return err
		}
		return d.parseRate(m, "grain_rate")
	}
	return d.parseAudio(m)
}

func (d *FlowDef) parseMediaType(m members, accepted ...string) (err error) {
	if d.MediaType, err = m.text("media_type"); err != nil {
		return err
	}
	for _, a := range accepted {
		if d.MediaType == a {
			return nil
		}
	}
	return m.bad("media_type", "is not one of "+strings.Join(accepted, ", "))
}

func (d *FlowDef) parseRate(m members, name string) error {
	r, err := m.rational(name)
	d.Rate = r
	return err
}

func (d *FlowDef) parseVideo(m members) (err error) {
	if err := d.parseMediaType(m, MediaV210, MediaV210A); err != nil {
		return err
	}
	if err := d.parseRate(m, "grain_rate"); err != nil {
		return err
	}
	if d.Width, err = m.integer("frame_width", 2, 7680); err != nil {
		return err
	}
	if d.Height, err = m.integer("frame_height", 1, 4320); err != nil {
		return err
	}
	d.Interlace = Progressive
	if m.has("interlace_mode") {
		if d.Interlace, err = m.text("interlace_mode"); err != nil {
			return err
		}
	}
	switch d.Interlace {
	case Progressive:
		return nil
	case InterlacedTFF, InterlacedBFF:
		return d.interlace(m)
	}
	return m.bad("interlace_mode", "is not progressive, interlaced_tff or interlaced_bff")
}

// interlace turns the frame rate into the field rate (MXL format reference §2.2).
func (d *FlowDef) interlace(m members) error {
	if d.Rate != (Rational{25, 1}) && d.Rate != (Rational{30000, 1001}) {
		return m.bad("grain_rate", "is not 25/1 or 30000/1001, the frame rates of interlaced video")
	}
	if d.Height%2 != 0 {
		return m.bad("frame_height", "is odd, and the video is interlaced")
	}
	d.Rate.Numerator *= 2
	return nil
}

func (d *FlowDef) parseAudio(m members) (err error) {
	if err := d.parseRate(m, "sample_rate"); err != nil {
		return err
	}
	// The media type of audio is not looked at (MXL format reference §2.1).
	_ = json.Unmarshal(m["media_type"], &d.MediaType)
	d.ChannelCount = 1
	if m.has("channel_count") {
		if d.ChannelCount, err = m.integer("channel_count", 1, math.MaxInt32); err != nil {
			return err
		}
		if v, _ := number(m["channel_count"]); v != math.Trunc(v) {
			return m.bad("channel_count", "is not an integer")
		}
	}
	depth, ok := number(m["bit_depth"])
	if !ok || (depth != 32 && depth != 64) {
		return m.bad("bit_depth", "is not 32 or 64")
	}
	d.BitDepth = int(depth)
	return nil
}

// parseGroupHint checks group:role[:scope] (MXL format reference §2.3).
func (d *FlowDef) parseGroupHint(m members) error {
	var tags map[string]json.RawMessage
	if json.Unmarshal(m["tags"], &tags) != nil || tags == nil {
		return m.bad("tags", "is not an object")
	}
	raw, ok := tags[GroupHintTag]
	if !ok {
		return m.bad("tags", "has no "+GroupHintTag)
	}
	var hints []*string
	if json.Unmarshal(raw, &hints) != nil || len(hints) == 0 {
		return &DefinitionError{GroupHintTag, shorten(raw), "is not a non-empty array of strings"}
	}
	for _, h := range hints {
		if h == nil {
			return &DefinitionError{GroupHintTag, shorten(raw), "is not a non-empty array of strings"}
		}
		if why := groupHintFault(*h); why != "" {
			return &DefinitionError{GroupHintTag, fmt.Sprintf("%q", *h), why}
		}
		d.GroupHints = append(d.GroupHints, *h)
	}
	return nil
}

func groupHintFault(hint string) string {
	parts := strings.Split(hint, ":")
	switch {
	case len(parts) < 2 || len(parts) > 3:
		return "is not group:role or group:role:scope"
	case parts[0] == "":
		return "has an empty group"
	case parts[1] == "":
		return "has an empty role"
	case len(parts) == 3 && parts[2] != "device" && parts[2] != "node":
		return "has a scope that is not device or node"
	}
	return ""
}
