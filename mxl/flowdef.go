package mxl

import "github.com/google/uuid"

// FlowDef is a validated flow definition (MXL format reference §2).
type FlowDef struct {
	ID            uuid.UUID
	Format        Format
	Label         string
	MediaType     string   // "" in an audio definition that names none
	Rate          Rational // as stored in the flow header: reduced, doubled when interlaced
	Width, Height int      // frame size, video only
	Interlace     string   // "progressive", "interlaced_tff", "interlaced_bff"; "" unless video
	ChannelCount  int      // audio only
	BitDepth      int      // audio only: 32 or 64
	GroupHints    []string
	Raw           []byte // the definition, verbatim
}

// Interlaced reports whether a grain is a field.
func (d *FlowDef) Interlaced() bool {
	return d.Interlace == "interlaced_tff" || d.Interlace == "interlaced_bff"
}

// ParseFlowDef parses and validates a definition. Errors are of type *DefinitionError and wrap ErrInvalidArgument.
func ParseFlowDef(text []byte) (*FlowDef, error) { return nil, ErrUnsupportedOperation }

// SliceSizes returns the bytes of one slice in each plane; zero for audio.
func (d *FlowDef) SliceSizes() [4]uint32 { return [4]uint32{} }

// TotalSlices returns the slices of a grain: lines of the frame or field, 4096 for ancillary data; 0 for audio.
func (d *FlowDef) TotalSlices() int { return 0 }

// PayloadSize returns the payload bytes of a grain; 0 for audio.
func (d *FlowDef) PayloadSize() int { return 0 }

// WordSize returns the bytes of a sample; 0 unless audio.
func (d *FlowDef) WordSize() int { return 0 }

// RingDepth returns the slots of a discrete ring, or the samples per channel of a continuous one, for a history in ns.
func (d *FlowDef) RingDepth(historyNS uint64) uint64 { return 0 }

// RequiredBytes returns the bytes of all files a new flow takes in the file system.
func RequiredBytes(d *FlowDef, historyNS uint64) uint64 { return 0 }

// SameDefinition compares what decides whether two definitions describe the same essence: id, format, media type, rate
// and geometry. Label, description, tags, parents, version, source_id and device_id do not count. It names the differing
// members.
func SameDefinition(a, b []byte) (same bool, differing []string) { return false, nil }

// FlowOptions are the hints a creator may give (MXL format reference §2.4). Zero means the default of §3.4.
type FlowOptions struct {
	MaxCommitBatchSizeHint uint32 // slices, or samples per channel
	MaxSyncBatchSizeHint   uint32 // a multiple of the commit hint
}

// ParseFlowOptions parses the JSON form; empty text means defaults.
func ParseFlowOptions(text []byte) (FlowOptions, error) { return FlowOptions{}, ErrUnsupportedOperation }

// FlowOptionsOf returns options that make a new flow carry exactly the hints of an existing one.
func FlowOptionsOf(info FlowInfo) FlowOptions { return FlowOptions{} }
