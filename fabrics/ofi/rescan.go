package ofi

/*
#include "ofi.h"
*/
import "C"

// rescanFlag is FI_RESCAN of fi_getinfo(3), which headers before 2.2 do not have.
const rescanFlag = 1 << 35

// rescanSince is the first libfabric with FI_RESCAN; earlier ones refuse, or
// misread, a flag that they do not know.
const rescanSince = 2<<16 | 2

// CanRescan tells whether the libfabric in use can look for interfaces again.
// Others keep what their first look found for as long as the process lives.
func CanRescan() bool {
	C.ofi_setup()
	return canRescan(uint32(C.fi_version()))
}

// canRescan judges a version as fi_version gives it: major in the upper half.
func canRescan(version uint32) bool { return version >= rescanSince }
