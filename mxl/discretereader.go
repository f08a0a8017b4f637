package mxl

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/google/uuid"
	"golang.org/x/sys/unix"
)

// Grain is a grain in the ring. Payload (PayloadSize bytes, of which the first ValidSlices slices of each plane count)
// is a window on live memory: after using it ask Intact, or use CopyGrain.
type Grain struct {
	GrainHeader
	Slot    int
	Payload []byte
}

// DiscreteReader reads grains. It holds no lock and keeps no writer waiting. One goroutine at a time; Close must not run
// while another method does.
type DiscreteReader struct {
	grainRing
	accessFD int
	touch    [2]unix.Timespec
}

// OpenDiscreteReader opens a flow of grains for reading. Errors: ErrFlowNotFound, ErrPermissionDenied, *MalformedError,
// ErrInvalidFlowReader when the flow is continuous, ErrUnsupportedOperation when its payload is not in host memory.
func (d *Domain) OpenDiscreteReader(id uuid.UUID) (*DiscreteReader, error) {
	files, err := d.openFiles(id, false)
	defer files.close()
	if err != nil {
		return nil, err
	}
	if !files.info.Format.Discrete() {
		return nil, fmt.Errorf("%w: flow %v is %v, not discrete", ErrInvalidFlowReader, id, files.info.Format)
	}
	if _, err := files.openGrains(); err != nil {
		return nil, err
	}
	r := &DiscreteReader{accessFD: -1}
	if err := r.mapRing(&files); err != nil {
		return nil, err
	}
	// Only the access time is set (MXL format reference §10). Failure to open it is not an error.
	r.touch = [2]unix.Timespec{{Nsec: unix.UTIME_NOW}, {Nsec: unix.UTIME_OMIT}}
	if fd, _, err := openRegular(files.dirFD, nameAccess, unix.O_RDWR); err == nil {
		r.accessFD = fd
	}
	return r, nil
}

// openFiles opens the header of a flow that can be mapped.
func (d *Domain) openFiles(id uuid.UUID, write bool) (flowFiles, error) {
	parentFD, name, dir := d.at(FlowDirName(id))
	files, err := openFlowFilesFor(parentFD, name, dir, write)
	runtime.KeepAlive(d)
	if err != nil {
		return files, err
	}
	if files.info.PayloadLocation != HostMemory {
		return files, fmt.Errorf("%w: %s: payload location is %d, not host memory", ErrUnsupportedOperation, dir,
			files.info.PayloadLocation)
	}
	return files, nil
}

// Grain returns the grain of an index once minSlices (AllSlices: all of them) are valid, or it is invalid; the caller
// looks at Invalid. Errors: ErrTooEarly, ErrTooLate, ErrSkipped, and ErrFlowInvalid where it would otherwise be too early
// but the flow was replaced (MXL format reference §12). It allocates nothing and touches the reader's access time.
func (r *DiscreteReader) Grain(index uint64, minSlices int) (Grain, error) {
	g, err := r.look(index, minSlices)
	return g, r.early(err)
}

// early asks, where it is too early, whether the flow is still the one on disk.
func (r *grainRing) early(err error) error {
	if err == ErrTooEarly {
		if invalid := r.Check(); invalid != nil {
			return invalid
		}
	}
	return err
}

// look is Grain without the validity check.
func (r *DiscreteReader) look(index uint64, minSlices int) (g Grain, err error) {
	if r.closed() {
		return g, ErrInvalidFlowReader
	}
	if minSlices < 0 {
		return g, ErrInvalidArgument
	}
	defer recoverFault(debug.SetPanicOnFault(true), &err)
	head := atomic.LoadUint64(r.head)
	if index > head {
		return g, ErrTooEarly
	}
	slot := r.SlotOf(index)
	h := r.loadHeader(slot)
	if err := grainStatus(index, head, r.Depth(), r.written(head, h), h, minSlices); err != nil {
		return g, err
	}
	r.Touch()
	return Grain{h, slot, r.slots[slot][PayloadOffset : PayloadOffset+r.payloadSize]}, nil
}

// written tells index 0 of a flow nobody wrote yet from a written one: there was no commit and there are no slices.
func (r *grainRing) written(head uint64, h GrainHeader) bool {
	return head != 0 || h.ValidSlices != 0 || atomic.LoadUint32(r.sync) != 0
}

// WaitGrain is Grain that waits while it is too early, at most timeout; then it returns ErrTooEarly.
func (r *DiscreteReader) WaitGrain(index uint64, minSlices int, timeout time.Duration) (g Grain, err error) {
	err = r.await(timeout, func() error {
		g, err = r.look(index, minSlices)
		return r.early(err)
	})
	return g, err
}

// Intact reports whether a slot still holds the grain that was returned, with at least as many valid slices and the same
// flags. Call it after the payload was used; when it is false the payload may be torn.
func (r *DiscreteReader) Intact(g Grain) bool {
	if r.closed() {
		return false
	}
	r.barrier()
	h := r.Header(g.Slot)
	return h.Index == g.Index && h.Flags == g.Flags && h.ValidSlices >= g.ValidSlices
}

// CopyGrain copies the payload of a grain (PayloadSize bytes, none of an invalid grain) and makes sure that it was not
// overwritten meanwhile: a torn copy gives ErrTooLate. Other errors as Grain; ErrInvalidArgument when dst is too short.
func (r *DiscreteReader) CopyGrain(dst []byte, index uint64, minSlices int) (GrainHeader, error) {
	if len(dst) < r.payloadSize {
		return GrainHeader{}, fmt.Errorf("%w: %d bytes for a grain of %d", ErrInvalidArgument, len(dst), r.payloadSize)
	}
	// A writer of the SDK stores the head before the header, so a header may still change after it was accepted
	// (MXL format reference §15): look again.
	for range 4 {
		g, err := r.Grain(index, minSlices)
		if err != nil {
			return g.GrainHeader, err
		}
		if !g.Invalid() {
			if err := copyGuarded(dst, g.Payload); err != nil {
				r.lost.Store(true)
				return g.GrainHeader, err
			}
		}
		if r.Intact(g) {
			return g.GrainHeader, nil
		}
		if r.Header(g.Slot).Index != index {
			return g.GrainHeader, ErrTooLate
		}
	}
	return GrainHeader{}, ErrTooLate
}

// copyGuarded copies from or to a mapping.
func copyGuarded(dst, src []byte) (err error) {
	defer recoverFault(debug.SetPanicOnFault(true), &err)
	copy(dst, src)
	return nil
}

// Touch sets the access time that tells the writer's side that the flow is read (MXL format reference §10). Grain does
// it by itself. Without write permission nothing happens.
func (r *DiscreteReader) Touch() {
	if r.accessFD < 0 {
		return
	}
	// futimens is utimensat with a null path, which the unix package cannot say.
	unix.Syscall6(unix.SYS_UTIMENSAT, uintptr(r.accessFD), 0, uintptr(unsafe.Pointer(&r.touch[0])), 0, 0, 0)
}

// Close unmaps the flow. It may be called again.
func (r *DiscreteReader) Close() error {
	r.unmapRing()
	closeFD(&r.accessFD)
	return nil
}
