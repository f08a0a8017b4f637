package mxl

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"
)

// scanTestMany makes 500 flows in 50 domains, all with a writer's lock released.
func scanTestMany(b testing.TB) string {
	b.Helper()
	root := scanTestRoot(b)
	for i := range 50 {
		dir := fmt.Sprintf("dom-%02d", i)
		d := scanTestDomain(b, root, dir, `{"id":"`+dir+`"}`)
		for range 10 {
			w, _, err := d.CreateDiscreteWriter(scanTestDataDef(uuid.New()), FlowOptions{})
			if err != nil {
				b.Fatal(err)
			}
			scanTestGrain(b, w, Rational{50, 1}.IndexAt(Now()))
			w.Close()
		}
	}
	return root
}

func BenchmarkHeadIndexes500(b *testing.B) {
	path := scanTestMany(b)
	s, _ := scanTestRun(b, path, time.Hour)
	b.ReportAllocs()
	for b.Loop() {
		if n := len(s.HeadIndexes(Now())); n != 500 {
			b.Fatalf("%d heads", n)
		}
	}
}

// BenchmarkRescan500 is what a root of 500 flows costs every SCAN_INTERVAL_MS.
func BenchmarkRescan500(b *testing.B) {
	st, err := newScanState(scanTestMany(b), "here", Now)
	if err != nil {
		b.Fatal(err)
	}
	defer st.close()
	st.all()
	b.ReportAllocs()
	for b.Loop() {
		st.all()
		if snap := st.snapshot(); len(snap.Domains) != 50 {
			b.Fatalf("%d domains", len(snap.Domains))
		}
	}
}

// BenchmarkFirstScan500 reads and checks everything.
func BenchmarkFirstScan500(b *testing.B) {
	path := scanTestMany(b)
	for b.Loop() {
		if _, err := ScanRoot(path, "here"); err != nil {
			b.Fatal(err)
		}
	}
}

// TestHeadsOf500FlowsCostLittle holds the promise of Scanner.HeadIndexes: well under 5 ms for 500 flows. The best of
// many calls counts, since the others say how busy the machine is.
func TestHeadsOf500FlowsCostLittle(t *testing.T) {
	s, _ := scanTestRun(t, scanTestMany(t), time.Hour)
	best := time.Hour
	for range 50 {
		began := time.Now()
		if n := len(s.HeadIndexes(Now())); n != 500 {
			t.Fatalf("%d heads", n)
		}
		best = min(best, time.Since(began))
	}
	t.Logf("500 heads in %v", best)
	if best > 5*time.Millisecond {
		t.Errorf("500 heads take %v at best, want under 5 ms", best)
	}
}
