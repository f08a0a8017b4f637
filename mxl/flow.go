package mxl

import (
	"fmt"
	"math"
	"path/filepath"
	"runtime/debug"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"github.com/google/uuid"
	"golang.org/x/sys/unix"
)

// flow is what readers and writers of both kinds share: the mapped data file and its identity.
type flow struct {
	dir      string
	dataPath []byte // path of data, NUL-terminated, for a stat without allocation
	info     FlowInfo
	data     []byte
	head     *uint64
	lastW    *uint64
	lastR    *uint64
	sync     *uint32
	fence    uint32 // orders plain loads and stores around the header on weakly ordered machines
	lost     atomic.Bool
	slice    time.Duration // longest single wait
}

// mapData maps the header of a flow.
func (f *flow) mapData(files *flowFiles) error {
	mem, err := mapFile(files.dataFD, dataFileSize, files.write)
	if err != nil {
		return fmt.Errorf("mxl: %s: %w", filepath.Join(files.dir, nameData), err)
	}
	f.dir, f.info, f.data = files.dir, files.info, mem
	f.dataPath = append([]byte(filepath.Join(files.dir, nameData)), 0)
	f.head = word64(mem, offHeadIndex)
	f.lastW = word64(mem, offLastWrite)
	f.lastR = word64(mem, offLastRead)
	f.sync = word32(mem, offSyncCounter)
	f.slice = waitSlice(files.info)
	return nil
}

// waitSlice bounds a single futex wait to about one batch: wakes get lost (MXL format reference §8, §9).
func waitSlice(info FlowInfo) time.Duration {
	const shortest, longest = time.Millisecond, 20 * time.Millisecond
	batch := int64(1)
	if info.Format.Continuous() {
		batch = int64(max(info.MaxSyncBatchSizeHint, 1))
	}
	seconds := float64(batch) / info.Rate.Float()
	return max(shortest, time.Duration(math.Min(seconds*nanosPerSecond, float64(longest))))
}

func word64(mem []byte, off int) *uint64 { return (*uint64)(unsafe.Pointer(&mem[off])) }
func word32(mem []byte, off int) *uint32 { return (*uint32)(unsafe.Pointer(&mem[off])) }

func (f *flow) closed() bool { return f.data == nil }

func (f *flow) unmapData() {
	unmap(&f.data)
	f.head, f.lastW, f.lastR, f.sync = nil, nil, nil, nil
}

// recoverValue is deferred by methods that return no error. Under a Guard the fault goes on to the guard; otherwise the
// method returns its zero value and Check reports the loss.
func (f *flow) recoverValue(before bool) {
	debug.SetPanicOnFault(before)
	if r := recover(); r != nil {
		err := faultOf(r)
		f.lost.Store(true)
		if before {
			panic(r)
		}
		_ = err // Check reports it
	}
}

// barrier is a full fence: an atomic read-modify-write orders the plain accesses around it.
func (f *flow) barrier() { atomic.AddUint32(&f.fence, 1) }

// ID returns the id of the flow.
func (f *flow) ID() uuid.UUID { return f.info.ID }

// Dir returns the path of the flow directory.
func (f *flow) Dir() string { return f.dir }

// Inode returns the inode of the data file that was opened.
func (f *flow) Inode() uint64 { return f.info.Inode }

// Device returns the device of the data file that was opened.
func (f *flow) Device() uint64 { return f.info.Device }

// Rate returns the rate of grains (fields when interlaced) or samples.
func (f *flow) Rate() Rational { return f.info.Rate }

// Info returns the header with the runtime fields of this moment.
func (f *flow) Info() (info FlowInfo) {
	info = f.info
	if f.closed() {
		return info
	}
	defer f.recoverValue(debug.SetPanicOnFault(true))
	info.HeadIndex = atomic.LoadUint64(f.head)
	info.LastWriteTime = atomic.LoadUint64(f.lastW)
	info.LastReadTime = atomic.LoadUint64(f.lastR)
	info.SyncCounter = atomic.LoadUint32(f.sync)
	return info
}

// Head returns the head index; 0 after Close and when the mapping lost its file (Check tells).
func (f *flow) Head() (head uint64) {
	if f.closed() {
		return 0
	}
	defer f.recoverValue(debug.SetPanicOnFault(true))
	return atomic.LoadUint64(f.head)
}

// Sync returns the sync counter, the futex word of the flow. Read it before looking at the head, then wait on it.
func (f *flow) Sync() (counter uint32) {
	if f.closed() {
		return 0
	}
	defer f.recoverValue(debug.SetPanicOnFault(true))
	return atomic.LoadUint32(f.sync)
}

// SyncWord returns the sync counter's place in the mapping, for a wait in the kernel by other means than WaitSync. It
// is valid until Close, and reading it may fault; nil after Close.
func (f *flow) SyncWord() *uint32 {
	if f.closed() {
		return nil
	}
	return f.sync
}

// HeadWord returns the place of the low half of the head index in the mapping, as SyncWord: it tells that the head
// moved where a writer wakes nobody.
func (f *flow) HeadWord() *uint32 {
	if f.closed() {
		return nil
	}
	return (*uint32)(unsafe.Pointer(f.head)) // the format is little-endian
}

// WaitSync sleeps until the sync counter differs from seen, at most timeout, and returns the counter. Interruptions are
// retried; a timeout is no error. It fails when the flow is closed or the mapping is broken. It allocates nothing.
// A writer that dies or jumps back does not wake anybody: never wait longer than one would poll
// (MXL format reference §9).
func (f *flow) WaitSync(seen uint32, timeout time.Duration) (counter uint32, err error) {
	if f.closed() {
		return seen, ErrInvalidState
	}
	defer recoverFault(debug.SetPanicOnFault(true), &err)
	var start time.Time
	for left := timeout; ; left = timeout - time.Since(start) {
		counter = atomic.LoadUint32(f.sync)
		if counter != seen || left <= 0 {
			return counter, nil
		}
		if start.IsZero() {
			start = time.Now()
		}
		switch errno := futexWait(f.sync, seen, left); errno {
		case 0, syscall.EINTR, syscall.EAGAIN, syscall.ETIMEDOUT:
		default:
			f.lost.Store(errno == syscall.EFAULT)
			return counter, fmt.Errorf("mxl: wait for flow %v: %w: %w", f.info.ID, ErrFlowInvalid, errno)
		}
	}
}

// Check returns nil while the data file is the one that was opened. It returns ErrFlowInvalid when it was replaced or
// truncated or is a byte copy that carries another inode (MXL format reference §12), and an error that is both
// ErrFlowInvalid and ErrFlowNotFound when it is gone. It costs one stat.
func (f *flow) Check() (err error) {
	if f.closed() {
		return ErrInvalidState
	}
	defer recoverFault(debug.SetPanicOnFault(true), &err)
	if f.lost.Load() {
		return f.invalid("a mapped file was truncated")
	}
	var st unix.Stat_t
	at := unix.AT_FDCWD
	_, _, errno := unix.Syscall6(unix.SYS_NEWFSTATAT, uintptr(at), uintptr(unsafe.Pointer(&f.dataPath[0])),
		uintptr(unsafe.Pointer(&st)), unix.AT_SYMLINK_NOFOLLOW, 0, 0)
	path := f.dataPath[:len(f.dataPath)-1]
	switch {
	case errno == syscall.ENOENT || errno == syscall.ENOTDIR:
		return &goneError{string(path)}
	case errno != 0:
		return fileError("stat", string(path), errno)
	case st.Ino != f.info.Inode || st.Dev != f.info.Device:
		return f.invalid("its data file was replaced")
	case st.Ino != atomic.LoadUint64(word64(f.data, offInode)):
		return f.invalid("its data file notes another inode, it is a copy")
	case st.Size < dataFileSize:
		return f.invalid("its data file was truncated")
	}
	return nil
}

func (f *flow) invalid(why string) error {
	return fmt.Errorf("%w: %s: %s", ErrFlowInvalid, f.dir, why)
}

// await repeats try while it says ErrTooEarly, at most timeout, as MXL format reference §9 describes.
func (f *flow) await(timeout time.Duration, try func() error) error {
	var start time.Time
	for {
		seen := f.Sync() // before the head: a commit in between then ends the wait at once
		err := try()
		if err != ErrTooEarly {
			return err
		}
		if start.IsZero() {
			start = time.Now()
		}
		left := timeout - time.Since(start)
		if left <= 0 {
			return err
		}
		if _, werr := f.WaitSync(seen, min(left, f.slice)); werr != nil {
			return werr
		}
	}
}

// wake publishes a change of the head to sleeping readers.
func (f *flow) wake() {
	atomic.AddUint32(f.sync, 1)
	futexWake(f.sync)
}
