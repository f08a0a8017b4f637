package ofi

/*
#cgo pkg-config: libfabric
#cgo CFLAGS: -O2 -std=gnu11 -Wall
#cgo noescape ofi_poll
#cgo nocallback ofi_poll
#cgo noescape ofi_post
#cgo nocallback ofi_post
#cgo noescape ofi_exchange
#cgo nocallback ofi_exchange
#cgo noescape ofi_receive_samples
#cgo nocallback ofi_receive_samples
#cgo noescape ofi_send_samples
#cgo nocallback ofi_send_samples
#cgo noescape ofi_mapping_faults
#cgo nocallback ofi_mapping_faults
#include "mappings.h"
#include "ofi.h"
#include "samples.h"
*/
import "C"

import "fmt"

// Version is the version of the libfabric in use, as "major.minor".
func Version() string {
	C.ofi_setup()
	v := uint32(C.fi_version())
	return fmt.Sprintf("%d.%d", v>>16, v&0xffff)
}

// BuildVersion is the version of the headers this package was built with.
func BuildVersion() string {
	return fmt.Sprintf("%d.%d", int(C.FI_MAJOR_VERSION), int(C.FI_MINOR_VERSION))
}
