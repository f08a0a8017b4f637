package mxl

import (
	"github.com/google/uuid"
)

// FlowInfo is the decoded header of a flow's data file (MXL format reference §4.1) and the identity of the file.
type FlowInfo struct {
	Version, Size          uint32
	ID                     uuid.UUID
	Format                 Format
	Flags                  uint32
	Rate                   Rational // grains (fields when interlaced) or samples per second
	MaxCommitBatchSizeHint uint32   // slices, or samples per channel
	MaxSyncBatchSizeHint   uint32
	PayloadLocation        PayloadLocation
	DeviceIndex            int32

	SliceSizes [4]uint32 // discrete: bytes of a slice in each plane
	GrainCount uint32    // discrete: slots of the ring

	ChannelCount uint32 // continuous
	BufferLength uint32 // continuous: samples per channel in the ring

	HeadIndex     uint64
	LastWriteTime uint64 // TAI ns; of a continuous flow the time of creation for ever
	LastReadTime  uint64 // TAI ns

	StoredInode uint64 // inode the writer noted in the file; differs from Inode in a copied directory
	SyncCounter uint32

	Device, Inode uint64 // of the data file that was read
}

// ReadFlowInfo reads the header of the flow in a flow directory (…/<uuid>.mxl-flow) without mapping anything.
// Symbolic links are refused. When the header is malformed the error says how and the info holds what could be decoded.
func ReadFlowInfo(flowDir string) (FlowInfo, error) { return FlowInfo{}, ErrUnsupportedOperation }

// ReadFlowInfoAt is ReadFlowInfo for the flow of an id in the domain directory open as domainFD.
func ReadFlowInfoAt(domainFD int, id uuid.UUID) (FlowInfo, error) {
	return FlowInfo{}, ErrUnsupportedOperation
}

// InspectFlow does all checks a reader makes when it opens a flow (sizes and versions of every file), without mapping.
func InspectFlow(flowDir string) (FlowInfo, error) { return FlowInfo{}, ErrUnsupportedOperation }
