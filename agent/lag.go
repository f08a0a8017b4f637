package agent

import (
	"math"
	"time"

	"github.com/mxl-stack/mxl-fabrics-agent/mxl"
)

// lagQuietAfter: an origin whose head has not changed for this long is not
// being written, and a mirror of it has no lag (agent API reference §16.9).
const lagQuietAfter = 2 * time.Second

// lagFacts is what the lag of one mirror flow follows from.
type lagFacts struct {
	Rate         mxl.Rational
	Continuous   bool
	BatchSamples uint64 // samples of the last batch, continuous flows
	MirrorHead   uint64
	HasGrain     bool
	OriginActive bool
	HeadMovedAt  time.Time // when the mirror's head last rose, wall clock
	OriginSilent bool      // the origin's head has not moved for lagQuietAfter
}

// lag is how far the mirror's head is behind the current TAI index: in grains
// (transfer batches for continuous flows) and in milliseconds. Both are 0 when
// the head is not behind, before the first grain and while the origin is not
// written.
func lag(f lagFacts, tai uint64) (grains, ms float64) {
	if !f.HasGrain || !f.OriginActive || f.OriginSilent {
		return 0, 0
	}
	current := f.Rate.IndexAt(tai)
	if current == mxl.UndefinedIndex || current <= f.MirrorHead {
		return 0, 0
	}
	behind := float64(current - f.MirrorHead)
	ms = behind * float64(f.Rate.Denominator) * 1000 / float64(f.Rate.Numerator)
	if f.Continuous {
		return behind / math.Max(1, float64(f.BatchSamples)), ms
	}
	return behind, ms
}
