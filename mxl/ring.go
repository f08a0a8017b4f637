package mxl

import (
	"time"

	"github.com/google/uuid"
)

// PayloadOffset is where the payload starts in a grain file (a slot), in bytes.
const PayloadOffset = 8192

// GrainInvalid is the flag of a grain without usable payload.
const GrainInvalid uint32 = 1

// AllSlices asks for a complete grain.
const AllSlices = 65535

// flow is what readers and writers of both kinds share.
type flow struct{}

// ID returns the id of the flow.
func (f *flow) ID() uuid.UUID { return uuid.UUID{} }

// Info returns the header with the runtime fields of this moment.
func (f *flow) Info() FlowInfo { return FlowInfo{} }

// Head returns the head index.
func (f *flow) Head() uint64 { return 0 }

// Sync returns the sync counter, the futex word of the flow.
func (f *flow) Sync() uint32 { return 0 }

// WaitSync sleeps until the sync counter differs from seen, at most timeout, and returns the counter. Interruptions are
// retried; a timeout is no error. It fails only when the mapping is broken. Read Sync before looking at the head.
func (f *flow) WaitSync(seen uint32, timeout time.Duration) (uint32, error) { return 0, nil }

// Check returns nil while the data file is the one that was opened, ErrFlowInvalid when it was replaced or truncated,
// and an error that is both ErrFlowInvalid and ErrFlowNotFound when it is gone.
func (f *flow) Check() error { return nil }

// Inode returns the inode of the data file that was opened.
func (f *flow) Inode() uint64 { return 0 }

// Device returns the device of the data file that was opened.
func (f *flow) Device() uint64 { return 0 }

// GrainHeader is the head of a grain file (MXL format reference §4.2).
type GrainHeader struct {
	Version, Size            uint32
	Index                    uint64
	Flags                    uint32
	GrainSize                uint32
	TotalSlices, ValidSlices uint16
}

// Invalid reports whether the grain has no usable payload.
func (h GrainHeader) Invalid() bool { return h.Flags&GrainInvalid != 0 }

// Complete reports whether all slices are valid.
func (h GrainHeader) Complete() bool { return h.ValidSlices >= h.TotalSlices }

type grainRing struct{ flow }

// Depth returns the slots of the ring.
func (r *grainRing) Depth() uint64 { return 0 }

// SlotOf returns the ring slot of an index.
func (r *grainRing) SlotOf(index uint64) int { return 0 }

// PayloadSize returns the payload bytes of a grain.
func (r *grainRing) PayloadSize() int { return 0 }

// TotalSlices returns the slices of a grain.
func (r *grainRing) TotalSlices() int { return 0 }

// SliceSizes returns the bytes of a slice in each plane.
func (r *grainRing) SliceSizes() [4]uint32 { return [4]uint32{} }

// PlaneOffset returns where a plane starts in the slot, in bytes.
func (r *grainRing) PlaneOffset(plane int) int { return 0 }

// Slot returns a whole mapped grain file: PayloadOffset bytes of header, then the payload.
func (r *grainRing) Slot(i int) []byte { return nil }

// Header returns the header of a slot; a mapping that lost its file gives Index UndefinedIndex.
func (r *grainRing) Header(slot int) GrainHeader { return GrainHeader{} }

// Grain is a grain in the ring. Payload is a window on live memory; after use ask Intact.
type Grain struct {
	GrainHeader
	Slot    int
	Payload []byte
}

// DiscreteReader reads grains. One goroutine at a time.
type DiscreteReader struct{ grainRing }

// Grain returns the grain of an index once minSlices (AllSlices: all of them) are valid, or it is invalid. Errors:
// ErrTooEarly, ErrTooLate, ErrSkipped, ErrFlowInvalid.
func (r *DiscreteReader) Grain(index uint64, minSlices int) (Grain, error) { return Grain{}, nil }

// WaitGrain is Grain that waits while it is too early, at most timeout; then it returns ErrTooEarly.
func (r *DiscreteReader) WaitGrain(index uint64, minSlices int, timeout time.Duration) (Grain, error) {
	return Grain{}, nil
}

// Intact reports whether a slot still holds the grain that was returned: call it after the payload was used.
func (r *DiscreteReader) Intact(g Grain) bool { return false }

// CopyGrain copies the payload of a grain and makes sure it was not overwritten meanwhile.
func (r *DiscreteReader) CopyGrain(dst []byte, index uint64, minSlices int) (GrainHeader, error) {
	return GrainHeader{}, nil
}

// Touch tells the writer's side that the flow is read.
func (r *DiscreteReader) Touch() {}

// Close unmaps the flow. It may be called again.
func (r *DiscreteReader) Close() error { return nil }

// DiscreteWriter writes grains. One goroutine at a time.
type DiscreteWriter struct{ grainRing }

// OpenGrain starts a grain: its slot is made unacceptable to readers of old content and gets the index. It returns the
// payload to fill.
func (w *DiscreteWriter) OpenGrain(index uint64) ([]byte, error) { return nil, nil }

// Commit publishes the first validSlices slices of the open grain and wakes readers. The grain stays open until all
// slices are valid.
func (w *DiscreteWriter) Commit(index uint64, validSlices int, flags uint32) error { return nil }

// Cancel forgets the open grain.
func (w *DiscreteWriter) Cancel() {}

// CommitSlot publishes a grain whose header and payload were written into the slot from outside (RDMA). It returns the
// index found in the header.
func (w *DiscreteWriter) CommitSlot(slot int, validSlices uint16) (uint64, error) { return 0, nil }

// Close lets go of the flow and keeps its files. It may be called again.
func (w *DiscreteWriter) Close() error { return nil }

// Release closes the writer and deletes the flow when no other writer holds it, as the SDK does.
func (w *DiscreteWriter) Release() (deleted bool, err error) { return false, nil }

// Window is a run of samples in a ring: First samples from slot Start, then Second samples from slot 0.
type Window struct{ Start, First, Second uint64 }

type sampleRing struct{ flow }

// Channels returns the whole mapped ring: channel c, slot s at byte (c*BufferLength+s)*WordSize.
func (r *sampleRing) Channels() []byte { return nil }

// ChannelCount returns the channels.
func (r *sampleRing) ChannelCount() int { return 0 }

// BufferLength returns the samples per channel in the ring.
func (r *sampleRing) BufferLength() uint64 { return 0 }

// MaxCount returns the longest window, half the ring.
func (r *sampleRing) MaxCount() uint64 { return 0 }

// WordSize returns the bytes of a sample, 4 or 8.
func (r *sampleRing) WordSize() int { return 0 }

// Window returns where the count samples that end just before sample number index live.
func (r *sampleRing) Window(index, count uint64) Window { return Window{} }

// ContinuousReader reads samples. One goroutine at a time.
type ContinuousReader struct{ sampleRing }

// Samples returns the window of count samples ending just before index. Errors as DiscreteReader.Grain.
func (r *ContinuousReader) Samples(index, count uint64) (Window, error) { return Window{}, nil }

// WaitSamples is Samples that waits while it is too early, at most timeout.
func (r *ContinuousReader) WaitSamples(index, count uint64, timeout time.Duration) (Window, error) {
	return Window{}, nil
}

// Read copies a window into dst, channel after channel (count*WordSize bytes each), and makes sure that it was not
// overwritten meanwhile.
func (r *ContinuousReader) Read(dst []byte, index, count uint64) error { return nil }

// Close unmaps the flow. It may be called again.
func (r *ContinuousReader) Close() error { return nil }

// ContinuousWriter writes samples. One goroutine at a time.
type ContinuousWriter struct{ sampleRing }

// OpenSamples returns where to put the count samples that end just before index; count is at most MaxCount.
func (w *ContinuousWriter) OpenSamples(index, count uint64) (Window, error) { return Window{}, nil }

// Commit publishes the samples before index and wakes readers when the sync batch rule says so. It needs no OpenSamples.
func (w *ContinuousWriter) Commit(index, count uint64) error { return nil }

// Close lets go of the flow and keeps its files. It may be called again.
func (w *ContinuousWriter) Close() error { return nil }

// Release closes the writer and deletes the flow when no other writer holds it, as the SDK does.
func (w *ContinuousWriter) Release() (deleted bool, err error) { return false, nil }

// Guard runs fn, which may touch mappings of foreign files, and turns a memory fault in it into an error that wraps
// ErrFlowInvalid. Only Go code is guarded.
func Guard(fn func() error) error { return fn() }
