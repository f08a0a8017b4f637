package rdmacm

import (
	"net/netip"
	"time"
)

// Settings are what queue pairs are made with.
type Settings struct {
	ACKTimeout int // exponent: 4.096 µs × 2^n; 0 leaves it to rdma_cm
	RetryCount int // retransmissions before a queue pair fails, 1 to 7; 0 leaves it
}

// AckTime is the duration behind an exponent, 0 for 0.
func AckTime(exponent int) time.Duration {
	if exponent <= 0 {
		return 0
	}
	return 4096 * time.Nanosecond << exponent
}

// Role is the side of a connection that a queue pair is on.
type Role int

// The side that connects is the source of a flow, the one that accepts its
// destination.
const (
	Source Role = iota + 1
	Destination
)

// String is the word used in logs and metrics.
func (r Role) String() string {
	switch r {
	case Source:
		return "source"
	case Destination:
		return "destination"
	}
	return "unknown"
}

// QueuePair is an established queue pair as it was read back.
type QueuePair struct {
	Role          Role
	Local, Remote netip.AddrPort
	Device        string
	Number        uint32

	// Wanted are the settings at the time. On a destination RetryCount is 0: the
	// source's value applies to both ends of a connection.
	Wanted Settings

	ACKTimeout int // 0: the driver reports none, as irdma
	RetryCount int
	RNRRetry   int

	OptionError error // why the timeout could not be set
	QueryError  error // why nothing could be read back
}

// Checked tells whether the queue pair reported a timeout that can be compared with
// the setting.
func (q QueuePair) Checked() bool {
	return q.QueryError == nil && q.ACKTimeout != 0 && q.Wanted.ACKTimeout != 0
}

// Differs tells whether a value that was read back is not the setting.
func (q QueuePair) Differs() bool {
	return q.Checked() && q.ACKTimeout != q.Wanted.ACKTimeout ||
		q.QueryError == nil && q.Wanted.RetryCount != 0 && q.RetryCount != q.Wanted.RetryCount
}

// Applied tells whether the settings are known to be in force. A setting that is
// left alone always is.
func (q QueuePair) Applied() bool {
	return q.QueryError == nil && q.OptionError == nil && !q.Differs() && (q.Wanted.ACKTimeout == 0 || q.Checked())
}
