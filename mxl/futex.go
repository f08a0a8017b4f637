package mxl

import (
	"math"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Futex operations without FUTEX_PRIVATE_FLAG: the word is shared between processes (MXL format reference §9).
const (
	futexOpWait = 0
	futexOpWake = 1
)

// futexWait sleeps while the word holds expected, at most timeout.
func futexWait(word *uint32, expected uint32, timeout time.Duration) syscall.Errno {
	ts := unix.NsecToTimespec(int64(timeout))
	_, _, errno := unix.Syscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(word)), futexOpWait, uintptr(expected),
		uintptr(unsafe.Pointer(&ts)), 0, 0)
	return errno
}

// futexWake wakes every waiter. It never blocks.
func futexWake(word *uint32) {
	unix.RawSyscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(word)), futexOpWake, math.MaxInt32, 0, 0, 0)
}
