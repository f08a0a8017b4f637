package mxl

import "fmt"

// Format is the kind of a flow as stored in its header (MXL format reference §4.1).
type Format uint32

// Flow formats.
const (
	FormatUnspecified Format = 0
	FormatVideo       Format = 1
	FormatAudio       Format = 2
	FormatData        Format = 3
)

// Discrete reports whether flows of the format are rings of grains.
func (f Format) Discrete() bool { return f == FormatVideo || f == FormatData }

// Continuous reports whether flows of the format are rings of samples.
func (f Format) Continuous() bool { return f == FormatAudio }

// String returns "video", "audio" or "data".
func (f Format) String() string {
	switch f {
	case FormatVideo:
		return "video"
	case FormatAudio:
		return "audio"
	case FormatData:
		return "data"
	}
	return fmt.Sprintf("format(%d)", uint32(f))
}

// URN returns the NMOS format of a flow definition, "" for an unknown format.
func (f Format) URN() string {
	switch f {
	case FormatVideo, FormatAudio, FormatData:
		return "urn:x-nmos:format:" + f.String()
	}
	return ""
}

// PayloadLocation says where grains or samples live.
type PayloadLocation uint32

// Payload locations. Only host memory is in use today.
const (
	HostMemory   PayloadLocation = 0
	DeviceMemory PayloadLocation = 1
)
