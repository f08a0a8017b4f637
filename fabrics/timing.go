package fabrics

import "time"

// Histogram is a snapshot of observations in seconds.
type Histogram struct {
	Bounds []float64 // upper bounds, seconds, ascending; +Inf is implied
	Counts []uint64  // one per bound plus one for +Inf, not cumulative
	Sum    float64
	Count  uint64
	Max    time.Duration // largest of the last 10 s
}

// Timing is what a lane counted about time. Series that do not apply to a lane
// stay empty.
type Timing struct {
	Transfer       Histogram // one transfer from its post to its completion
	TransferStalls uint64    // transfers over 25 ms (audio) or 40 ms (grains)
	AgeOrigin      Histogram // age of a batch's oldest sample when the source reads it
	AgeSent        Histogram // the same when the source posts it
	AgeDelivered   Histogram // the same when the target commits it; of grains, their own
	DeliveryGap    Histogram // time between two commits of an audio flow
	LateDeliveries uint64
	ThreadStall    map[string]Histogram // by task: the call that held the thread
}
