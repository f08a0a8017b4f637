package mxl

import (
	"encoding/binary"
	"fmt"

	"github.com/google/uuid"
)

// PayloadOffset is where the payload starts in a grain file (a slot), in bytes (MXL format reference §4.2).
const PayloadOffset = 8192

// GrainInvalid is the flag of a grain without usable payload.
const GrainInvalid uint32 = 1

// AllSlices asks for a complete grain.
const AllSlices = 65535

// Layout of data (MXL format reference §4.1) and of grains (§4.2), in bytes.
const (
	dataVersion     = 1
	dataFileSize    = 2064
	flowInfoSize    = 2048
	offVersion      = 0
	offSize         = 4
	offID           = 8
	offFormat       = 24
	offFlags        = 28
	offRateNum      = 32
	offRateDen      = 40
	offCommitHint   = 48
	offSyncHint     = 52
	offLocation     = 56
	offDevice       = 60
	offSliceSizes   = 136
	offGrainCount   = 152
	offChannelCount = 136
	offBufferLength = 140
	offHeadIndex    = 200
	offLastWrite    = 208
	offLastRead     = 216
	offInode        = 2048
	offSyncCounter  = 2056

	grainVersion   = 1
	grainInfoSize  = 4096
	offGrainIndex  = 8
	offGrainFlags  = 16
	offGrainSize   = 20
	offGrainSlices = 24 // u16 totalSlices, u16 validSlices
	grainFieldsEnd = 28
)

// Names of files and directories in a flow directory (MXL format reference §1).
const (
	nameFlowDef  = "flow_def.json"
	nameData     = "data"
	nameAccess   = "access"
	nameGrains   = "grains"
	nameChannels = "channels"
)

// MaxGrainCount bounds the ring of a flow this package opens: the fabrics immediate carries a slot in 16 bits, and the
// kernel allows about as many mappings in a process.
const MaxGrainCount = 65536

var le = binary.LittleEndian

// decodeFlowInfo decodes the first dataFileSize bytes of a data file. The info holds what could be read even when the
// error says what is wrong.
func decodeFlowInfo(b []byte) (FlowInfo, error) {
	if len(b) < dataFileSize {
		return FlowInfo{}, fmt.Errorf("data has %d bytes, want at least %d", len(b), dataFileSize)
	}
	info := FlowInfo{
		Version:                le.Uint32(b[offVersion:]),
		Size:                   le.Uint32(b[offSize:]),
		ID:                     uuid.UUID(b[offID : offID+16]),
		Format:                 Format(le.Uint32(b[offFormat:])),
		Flags:                  le.Uint32(b[offFlags:]),
		Rate:                   Rational{int64(le.Uint64(b[offRateNum:])), int64(le.Uint64(b[offRateDen:]))},
		MaxCommitBatchSizeHint: le.Uint32(b[offCommitHint:]),
		MaxSyncBatchSizeHint:   le.Uint32(b[offSyncHint:]),
		PayloadLocation:        PayloadLocation(le.Uint32(b[offLocation:])),
		DeviceIndex:            int32(le.Uint32(b[offDevice:])),
		HeadIndex:              le.Uint64(b[offHeadIndex:]),
		LastWriteTime:          le.Uint64(b[offLastWrite:]),
		LastReadTime:           le.Uint64(b[offLastRead:]),
		StoredInode:            le.Uint64(b[offInode:]),
		SyncCounter:            le.Uint32(b[offSyncCounter:]),
	}
	switch {
	case info.Format.Discrete():
		for p := range info.SliceSizes {
			info.SliceSizes[p] = le.Uint32(b[offSliceSizes+4*p:])
		}
		info.GrainCount = le.Uint32(b[offGrainCount:])
	case info.Format.Continuous():
		info.ChannelCount = le.Uint32(b[offChannelCount:])
		info.BufferLength = le.Uint32(b[offBufferLength:])
	}
	return info, checkFlowInfo(info)
}

// checkFlowInfo says what makes a header unusable. The SDK checks the version only (MXL format reference §4.5).
func checkFlowInfo(info FlowInfo) error {
	switch {
	case info.Version != dataVersion:
		return fmt.Errorf("data version is %d, want %d", info.Version, dataVersion)
	case info.Size != flowInfoSize:
		return fmt.Errorf("data header size is %d, want %d", info.Size, flowInfoSize)
	case !info.Format.Discrete() && !info.Format.Continuous():
		return fmt.Errorf("format is %d, want 1, 2 or 3", uint32(info.Format))
	case !info.Rate.Valid():
		return fmt.Errorf("rate is %v", info.Rate)
	}
	if info.Format.Discrete() {
		switch {
		case info.GrainCount == 0 || info.GrainCount > MaxGrainCount:
			return fmt.Errorf("grain count is %d, want 1 to %d", info.GrainCount, MaxGrainCount)
		case info.SliceSizes[0] == 0:
			return fmt.Errorf("slice sizes are %v", info.SliceSizes)
		}
		return nil
	}
	switch {
	case info.ChannelCount == 0:
		return fmt.Errorf("channel count is 0")
	case info.BufferLength < 2:
		return fmt.Errorf("buffer length is %d", info.BufferLength)
	case uint64(info.ChannelCount)*uint64(info.BufferLength) >= 1<<32:
		// The SDK multiplies in 32 bits (MXL format reference §3.3).
		return fmt.Errorf("%d channels of %d samples are more than 2^32", info.ChannelCount, info.BufferLength)
	}
	return nil
}

// encodeFlowInfo fills the data file of a new flow.
func encodeFlowInfo(b []byte, info FlowInfo) {
	le.PutUint32(b[offVersion:], dataVersion)
	le.PutUint32(b[offSize:], flowInfoSize)
	copy(b[offID:], info.ID[:])
	le.PutUint32(b[offFormat:], uint32(info.Format))
	le.PutUint32(b[offFlags:], info.Flags)
	le.PutUint64(b[offRateNum:], uint64(info.Rate.Numerator))
	le.PutUint64(b[offRateDen:], uint64(info.Rate.Denominator))
	le.PutUint32(b[offCommitHint:], info.MaxCommitBatchSizeHint)
	le.PutUint32(b[offSyncHint:], info.MaxSyncBatchSizeHint)
	le.PutUint32(b[offLocation:], uint32(info.PayloadLocation))
	le.PutUint32(b[offDevice:], uint32(info.DeviceIndex))
	if info.Format.Discrete() {
		for p, s := range info.SliceSizes {
			le.PutUint32(b[offSliceSizes+4*p:], s)
		}
		le.PutUint32(b[offGrainCount:], info.GrainCount)
	} else {
		le.PutUint32(b[offChannelCount:], info.ChannelCount)
		le.PutUint32(b[offBufferLength:], info.BufferLength)
	}
	le.PutUint64(b[offHeadIndex:], info.HeadIndex)
	le.PutUint64(b[offLastWrite:], info.LastWriteTime)
	le.PutUint64(b[offLastRead:], info.LastReadTime)
	le.PutUint64(b[offInode:], info.StoredInode)
	le.PutUint32(b[offSyncCounter:], info.SyncCounter)
}

// GrainHeader is the head of a grain file (MXL format reference §4.2).
type GrainHeader struct {
	Version, Size            uint32
	Index                    uint64
	Flags                    uint32
	GrainSize                uint32 // payload bytes
	TotalSlices, ValidSlices uint16
}

// Invalid reports whether the grain has no usable payload.
func (h GrainHeader) Invalid() bool { return h.Flags&GrainInvalid != 0 }

// Complete reports whether all slices are valid.
func (h GrainHeader) Complete() bool { return h.ValidSlices >= h.TotalSlices }

func decodeGrainHeader(b []byte) GrainHeader {
	return GrainHeader{
		Version:     le.Uint32(b[offVersion:]),
		Size:        le.Uint32(b[offSize:]),
		Index:       le.Uint64(b[offGrainIndex:]),
		Flags:       le.Uint32(b[offGrainFlags:]),
		GrainSize:   le.Uint32(b[offGrainSize:]),
		TotalSlices: le.Uint16(b[offGrainSlices:]),
		ValidSlices: le.Uint16(b[offGrainSlices+2:]),
	}
}

func encodeGrainHeader(b []byte, h GrainHeader) {
	le.PutUint32(b[offVersion:], grainVersion)
	le.PutUint32(b[offSize:], grainInfoSize)
	le.PutUint64(b[offGrainIndex:], h.Index)
	le.PutUint32(b[offGrainFlags:], h.Flags)
	le.PutUint32(b[offGrainSize:], h.GrainSize)
	le.PutUint16(b[offGrainSlices:], h.TotalSlices)
	le.PutUint16(b[offGrainSlices+2:], h.ValidSlices)
}

// checkGrainHeader says why a header does not belong into a ring of this geometry.
func checkGrainHeader(h GrainHeader, sliceSizes [4]uint32, grainSize uint32, totalSlices uint16) error {
	switch {
	case h.Version != grainVersion:
		return fmt.Errorf("grain version is %d, want %d", h.Version, grainVersion)
	case h.Size != grainInfoSize:
		return fmt.Errorf("grain header size is %d, want %d", h.Size, grainInfoSize)
	case h.GrainSize != grainSize:
		return fmt.Errorf("grain size is %d, want %d", h.GrainSize, grainSize)
	case h.TotalSlices != totalSlices:
		return fmt.Errorf("total slices are %d, want %d", h.TotalSlices, totalSlices)
	case h.GrainSize == 0 || h.TotalSlices == 0:
		return fmt.Errorf("grain of %d bytes in %d slices", h.GrainSize, h.TotalSlices)
	case lineBytes(sliceSizes)*uint64(totalSlices) != uint64(grainSize):
		return fmt.Errorf("grain size is %d, want %d slices of %v", grainSize, totalSlices, sliceSizes)
	}
	return nil
}

// lineBytes sums the sizes of a slice over the active planes, the leading non-zero ones.
func lineBytes(sliceSizes [4]uint32) uint64 {
	var n uint64
	for _, s := range sliceSizes {
		if s == 0 {
			break
		}
		n += uint64(s)
	}
	return n
}
