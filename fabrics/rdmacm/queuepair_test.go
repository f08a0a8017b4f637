package rdmacm

import (
	"syscall"
	"testing"
	"time"
)

func TestAckTime(t *testing.T) {
	for exponent, want := range map[int]time.Duration{0: 0, 4: 65536 * time.Nanosecond, 14: 67108864 * time.Nanosecond, 17: 536870912 * time.Nanosecond} {
		if got := AckTime(exponent); got != want {
			t.Errorf("%d: %v, want %v", exponent, got, want)
		}
	}
}

func TestVerdict(t *testing.T) {
	both := Settings{ACKTimeout: 14, RetryCount: 7}
	refused := syscall.EINVAL
	for name, c := range map[string]struct {
		pair                      QueuePair
		checked, differs, applied bool
	}{
		"as set":                    {QueuePair{Wanted: both, ACKTimeout: 14, RetryCount: 7}, true, false, true},
		"another timeout":           {QueuePair{Wanted: both, ACKTimeout: 17, RetryCount: 7}, true, true, false},
		"another retry count":       {QueuePair{Wanted: both, ACKTimeout: 14, RetryCount: 6}, true, true, false},
		"no timeout reported":       {QueuePair{Wanted: both, RetryCount: 7}, false, false, false},
		"no timeout, other retries": {QueuePair{Wanted: both, RetryCount: 6}, false, true, false},
		"left to rdma_cm":           {QueuePair{Wanted: Settings{RetryCount: 7}, ACKTimeout: 19, RetryCount: 7}, false, false, true},
		"the source's retry count":  {QueuePair{Role: Destination, Wanted: Settings{ACKTimeout: 14}, ACKTimeout: 14, RetryCount: 3}, true, false, true},
		"option refused":            {QueuePair{Wanted: both, OptionError: refused, ACKTimeout: 17, RetryCount: 7}, true, true, false},
		"option refused, unseen":    {QueuePair{Wanted: both, OptionError: refused, RetryCount: 7}, false, false, false},
		"query failed":              {QueuePair{Wanted: both, QueryError: refused}, false, false, false},
	} {
		if c.pair.Checked() != c.checked || c.pair.Differs() != c.differs || c.pair.Applied() != c.applied {
			t.Errorf("%s: checked %v, differs %v, applied %v", name, c.pair.Checked(), c.pair.Differs(), c.pair.Applied())
		}
	}
}
