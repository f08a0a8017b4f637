package ofi

import (
	"os"
	"testing"
	"time"
)

// TestRunsNoteStarvation: a run reads its thread's schedstat when the last reading is
// 100 ms old, as a pass does when it begins, and keeps the last one otherwise.
func TestRunsNoteStarvation(t *testing.T) {
	o := open(t)
	defer o.close(t)
	file, err := os.Create(t.TempDir() + "/schedstat")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	sink, err := NewSampleSink(SampleRing{Length: 2, Count: 1, Word: 4}, o.mapped, 64, 1, 64)
	if err != nil {
		t.Fatal(err)
	}
	defer sink.Close()
	const now = int64(10 * time.Second)
	for _, c := range []struct {
		text          string
		noted         int64
		wantNoted, ns int64
	}{
		{"856841 694284 3\n", now - int64(100*time.Millisecond), now, 694284},
		{"856841 694284 3\n", now - int64(99*time.Millisecond), now - int64(99*time.Millisecond), 5},
		{"856841 9223372036854775807 3\n", 0, now, 1<<63 - 1},
		{"what\n", 0, 0, 5},
		{"", 0, 0, 5},
	} {
		if err := os.WriteFile(file.Name(), []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		sink.Run().Watch(int(file.Fd()), c.noted, 5)
		if _, err := o.poller.ReceiveSamples(sink, &SampleCounts{}, &WakeRule{Batch: 1}, now, 0, time.Millisecond); err != nil {
			t.Fatal(err)
		}
		if noted, ns := sink.Run().Starved(); noted != c.wantNoted || ns != c.ns {
			t.Errorf("%q noted at %d: %d at %d, want %d at %d", c.text, c.noted, ns, noted, c.ns, c.wantNoted)
		}
	}
}
