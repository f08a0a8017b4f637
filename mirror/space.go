package mirror

import "fmt"

const mebibyte = 1 << 20

// Fits says whether a mirror of need bytes may be made: the free space must
// exceed the reserve and the whole mebibytes of the mirror, at least one
// (agent API reference §15.2).
func Fits(freeBytes, needBytes, reserveMB uint64) bool {
	free := freeBytes / mebibyte
	need := max(1, needBytes/mebibyte)
	return free >= need && free-need > reserveMB
}

// SpaceError says that a mirror flow does not fit. It wraps [ErrNoSpace].
type SpaceError struct {
	Key       Key
	FreeBytes uint64 // available to us on the MXL file system
	NeedBytes uint64 // blocks of the new flow
	ReserveMB uint64 // TMPFS_RESERVE_MB
	Cause     error  // what the file system said, nil when the reserve refused
}

// Error gives the three sizes.
func (e *SpaceError) Error() string {
	text := fmt.Sprintf("mirror flow %s: %v: needs %d MiB, %d MiB free, reserve %d MiB",
		e.Key, ErrNoSpace, (e.NeedBytes+mebibyte-1)/mebibyte, e.FreeBytes/mebibyte, e.ReserveMB)
	if e.Cause != nil {
		text += ": " + e.Cause.Error()
	}
	return text
}

// Unwrap returns ErrNoSpace and the cause.
func (e *SpaceError) Unwrap() []error { return []error{ErrNoSpace, e.Cause} }
