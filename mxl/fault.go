package mxl

import (
	"fmt"
	"runtime/debug"
)

// faultError is a memory fault in a mapping: the file behind it was truncated.
type faultError struct{ address uintptr }

func (e *faultError) Error() string {
	return fmt.Sprintf("mxl: memory fault at %#x: a mapped file was truncated", e.address)
}

// Unwrap returns ErrFlowInvalid.
func (e *faultError) Unwrap() error { return ErrFlowInvalid }

// Guard runs fn, which may touch mappings of foreign files, and turns a memory fault in it into an error that wraps
// ErrFlowInvalid. Only Go code is guarded, and only on the calling goroutine.
func Guard(fn func() error) (err error) {
	defer recoverFault(debug.SetPanicOnFault(true), &err)
	return fn()
}

// recoverFault is deferred by functions that touch a mapping:
//
//	defer recoverFault(debug.SetPanicOnFault(true), &err)
func recoverFault(before bool, err *error) {
	debug.SetPanicOnFault(before)
	if r := recover(); r != nil {
		*err = faultOf(r)
	}
}

// faultOf returns the error of a recovered memory fault and panics again on anything else.
func faultOf(r any) error {
	// runtime.Error values of faults at an address have this method (runtime/debug.SetPanicOnFault).
	if f, ok := r.(interface{ Addr() uintptr }); ok {
		return &faultError{f.Addr()}
	}
	panic(r)
}
