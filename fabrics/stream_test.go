package fabrics

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/mxl-stack/mxl-fabrics-agent/fabrics/ofi"
	"github.com/mxl-stack/mxl-fabrics-agent/mxl"
)

// TestStreamsKeepThePace: batches that are sent outside Go are due when those are that
// Go sends.
func TestStreamsKeepThePace(t *testing.T) {
	for range 10000 {
		pass := time.Duration(1+rand.IntN(4)) * time.Millisecond
		posted := rand.Int64N(1 << 50)
		completed := posted + rand.Int64N(int64(12*time.Millisecond))
		want := nextSamplePost(posted, completed, pass)
		if got := ofi.NextPost(posted, completed, pass, max(pass, minSampleGap)); got != want {
			t.Fatalf("posted %d, completed %d, pass %v: next at %d, want %d", posted, completed, pass, got, want)
		}
	}
}

// TestStreamCounts: what runs outside Go move is in the numbers of both ends while it
// runs, every sample once, in the mirror as in the origin, and readers of the mirror
// are woken once in a sync batch.
func TestStreamCounts(t *testing.T) {
	f := newFlow(t, audioDef(16), 200*time.Millisecond, 200*time.Millisecond)
	w := f.sampleWriter(t, f.origin)
	mirror := f.sampleWriter(t, f.mirror)
	target := openTarget(t, TargetConfig{Continuous: mirror, FlowID: f.id})
	s := openSource(t, f)
	head := w.Rate().IndexAt(mxl.Now()) / 48 * 48
	writeSamples(t, w, head, 48)
	connect(t, s, "b", target)
	woken := mirror.Sync()
	first, last, _ := paceSamples(t, w, 900*time.Millisecond)
	what := func() string {
		src, dst := targetOf(s, "b"), target.Stats()
		return fmt.Sprintf("last %d, source %+v, target head %d, %d batches, %d samples, %d bytes, age %d, gaps %d, sent %d",
			last, src, dst.Head, dst.Grains, dst.Samples, dst.Bytes, dst.Timing.AgeDelivered.Count, dst.Timing.DeliveryGap.Count,
			s.Stats().Timing.Transfer.Count)
	}
	// The numbers, at once; the histograms, when the run is over.
	eventually(t, patience, what, func() bool { return target.Stats().Head == last && targetOf(s, "b").Head == last })
	eventually(t, patience, what, func() bool {
		src, dst := targetOf(s, "b"), target.Stats()
		return src.Transfers == dst.Grains && src.Grains == src.Transfers && src.Bytes == dst.Bytes && dst.Commits == dst.Grains &&
			dst.Timing.AgeDelivered.Count == dst.Grains && dst.Timing.DeliveryGap.Count == dst.Grains-1 &&
			s.Stats().Timing.Transfer.Count == src.Transfers && s.Stats().Timing.AgeSent.Count == src.Transfers
	})
	src, dst := targetOf(s, "b"), target.Stats()
	if src.LastAt == 0 || dst.LastGrainAt < src.LastAt-uint64(time.Second) || dst.Bytes != dst.Samples*16*4 {
		t.Error(what())
	}
	batch := uint64(mirror.Info().MaxSyncBatchSizeHint)
	wakes, due := uint64(mirror.Sync()-woken), (last-first)/batch
	if wakes > due+2 || src.Skipped == 0 && wakes+2 < due {
		t.Errorf("%d wake-ups in %d sync batches of %d samples", wakes, due, batch)
	}
	if dst.Errors != 0 || dst.BadImmediates != 0 || dst.Connections != 1 {
		t.Error(what())
	}
	sent, got := s.targets[0].numbers.moved.Batches.Load(), target.lane.numbers.moved.Batches.Load()
	if sent < src.Transfers/2 || got < dst.Grains/2 {
		t.Errorf("%d of %d batches sent by runs, %d received", sent, src.Transfers, got)
	}
	r, err := f.mirror.OpenContinuousReader(f.id)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	readSamples(t, r, last, 48, what)
}
