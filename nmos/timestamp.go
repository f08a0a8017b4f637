package nmos

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// taiOffset is TAI − UTC since 2017 (IERS bulletin C); the kernel's own offset
// may be 0, which would put versions 37 s into the past (NMOS reference §1).
const taiOffset = 37 * time.Second

// Timestamp is an IS-04 version: TAI since 1970-01-01 TAI as two integers,
// "<seconds>:<nanoseconds>" without padding.
type Timestamp struct{ Seconds, Nanoseconds int64 }

// TimestampAt gives the TAI timestamp of a wall clock instant.
func TimestampAt(t time.Time) Timestamp {
	t = t.Add(taiOffset)
	return Timestamp{t.Unix(), int64(t.Nanosecond())}
}

// ParseTimestamp reads "<seconds>:<nanoseconds>"; "10:5" is 10 s and 5 ns.
func ParseTimestamp(s string) (Timestamp, error) {
	sec, nsec, ok := strings.Cut(s, ":")
	if !ok {
		return Timestamp{}, fmt.Errorf("version %q: want <seconds>:<nanoseconds>", clip(s))
	}
	a, errA := strconv.ParseUint(sec, 10, 62)
	b, errB := strconv.ParseUint(nsec, 10, 62)
	if errA != nil || errB != nil {
		return Timestamp{}, fmt.Errorf("version %q: want two decimal integers", clip(s))
	}
	return Timestamp{int64(a), int64(b)}, nil
}

func (t Timestamp) String() string { return fmt.Sprintf("%d:%d", t.Seconds, t.Nanoseconds) }

// Compare orders by seconds, then by nanoseconds; never as text.
func (t Timestamp) Compare(o Timestamp) int {
	return cmp.Or(cmp.Compare(t.Seconds, o.Seconds), cmp.Compare(t.Nanoseconds, o.Nanoseconds))
}

// next is the timestamp one nanosecond later.
func (t Timestamp) next() Timestamp {
	if t.Nanoseconds >= 999_999_999 {
		return Timestamp{t.Seconds + 1, 0}
	}
	return Timestamp{t.Seconds, t.Nanoseconds + 1}
}

// clip shortens foreign text for errors and logs.
func clip(s string) string {
	const most = 80
	if len(s) > most {
		return s[:most] + "…"
	}
	return s
}
