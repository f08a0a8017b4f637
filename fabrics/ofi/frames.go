package ofi

/*
#cgo LDFLAGS: -rdynamic -ldl
#include <stdlib.h>
#include "frames.h"
*/
import "C"

import (
	"errors"
	"unsafe"
)

// FramesChecked tells whether the functions of this package are the ones by which
// libfabric receives. They are not where the executable does not export them; a peer
// can then end the process with one frame.
func FramesChecked() bool { return C.frames_hooked() != 0 }

// Fault is what a peer of the calling thread sent that its connection was ended for,
// since the last call; nil when there was none. To libfabric it is a connection that
// was shut down.
func Fault() error {
	f := C.frames_fault()
	if f == nil {
		return nil
	}
	return errors.New("the peer sent " + C.GoString(f))
}

// frameCheck is the check of one connection without a connection, for its tests.
type frameCheck struct{ c *C.struct_frames_connection }

func newFrameCheck(active bool) frameCheck {
	c := (*C.struct_frames_connection)(C.calloc(1, C.sizeof_struct_frames_connection))
	side := C.int(0)
	if active {
		side = 1
	}
	C.frames_begin(c, side)
	return frameCheck{c}
}

func (f frameCheck) close() { C.free(unsafe.Pointer(f.c)) }

func (f frameCheck) received(b []byte) string {
	p, n := bytesOf(b)
	return C.GoString(C.frames_received(f.c, (*C.uint8_t)(p), n))
}

func (f frameCheck) sent(b []byte) {
	p, n := bytesOf(b)
	C.frames_sent(f.c, (*C.uint8_t)(p), n)
}
