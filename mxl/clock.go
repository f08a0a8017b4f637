package mxl

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// Now returns the time of CLOCK_TAI in nanoseconds since 1970-01-01 TAI.
func Now() uint64 {
	var ts unix.Timespec
	if unix.ClockGettime(unix.CLOCK_TAI, &ts) != nil {
		return 0
	}
	return uint64(ts.Nano())
}

// TAIOffset returns the kernel's TAI-UTC offset in seconds (37 in 2026). At 0 the clock was never told, and every index
// is 37 s early (MXL format reference §5).
func TAIOffset() (seconds int, err error) {
	var t unix.Timex
	if _, err := unix.Adjtimex(&t); err != nil {
		return 0, fmt.Errorf("mxl: read TAI offset: %w", err)
	}
	return int(t.Tai), nil
}
