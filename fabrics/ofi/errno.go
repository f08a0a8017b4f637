package ofi

/*
#include "ofi.h"
*/
import "C"

import (
	"errors"
	"fmt"
	"syscall"
)

// ErrClosed is returned by every method of a handle after its Close.
var ErrClosed = errors.New("fabric object is closed")

// Errno is a libfabric error number, positive. Those below 256 are the system's
// and satisfy errors.Is with the syscall.Errno of the same value.
type Errno int

// Error numbers that callers decide by.
const (
	ErrAgain          = Errno(C.FI_EAGAIN)
	ErrNoData         = Errno(C.FI_ENODATA)
	ErrCanceled       = Errno(C.FI_ECANCELED)
	ErrAddressInUse   = Errno(C.FI_EADDRINUSE)
	ErrRefused        = Errno(C.FI_ECONNREFUSED)
	ErrNoMemory       = Errno(C.FI_ENOMEM)
	ErrNoSuchFunction = Errno(C.FI_ENOSYS)
)

// Error is libfabric's own text for the number.
func (e Errno) Error() string {
	return fmt.Sprintf("%s (%d)", C.GoString(C.fi_strerror(C.int(e))), int(e))
}

// Is makes errors.Is work with syscall.Errno.
func (e Errno) Is(target error) bool {
	sys, ok := target.(syscall.Errno)
	return ok && e < 256 && int(sys) == int(e)
}

func check(ret C.int, what string) error {
	if ret == 0 {
		return nil
	}
	if ret < 0 {
		ret = -ret
	}
	return fmt.Errorf("%s: %w", what, Errno(ret))
}
