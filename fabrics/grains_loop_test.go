package fabrics

import (
	"fmt"
	"testing"
	"time"

	"github.com/mxl-stack/mxl-fabrics-agent/mxl"
)

// TestGrainsOverTCP moves every kind of grain over loopback, both address families
// and different ring depths (MXL Fabrics reference §13, 9, 12, 14 "our pair").
func TestGrainsOverTCP(t *testing.T) {
	for _, c := range []struct {
		name    string
		def     string
		address string
		origin  time.Duration
		mirror  time.Duration
	}{
		{"v210", videoDef("video/v210", 192, 108, rate50), "127.0.0.1", 200 * time.Millisecond, 200 * time.Millisecond},
		{"v210 ipv6", videoDef("video/v210", 192, 108, rate50), "::1", 200 * time.Millisecond, 200 * time.Millisecond},
		{"v210 shallow mirror", videoDef("video/v210", 192, 108, rate50), "127.0.0.1", 400 * time.Millisecond, 140 * time.Millisecond},
		{"v210 shallow origin", videoDef("video/v210", 192, 108, rate5994), "127.0.0.1", 140 * time.Millisecond, 400 * time.Millisecond},
		{"v210a", videoDef("video/v210a", 192, 108, rate50), "127.0.0.1", 200 * time.Millisecond, 200 * time.Millisecond},
		{"smpte291", dataDef, "127.0.0.1", 200 * time.Millisecond, 200 * time.Millisecond},
		{"v210 full", videoDef("video/v210", 1920, 1080, rate50), "127.0.0.1", 200 * time.Millisecond, 200 * time.Millisecond},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newFlow(t, c.def, c.origin, c.mirror)
			w := f.grainWriter(t, f.origin)
			target := openTarget(t, TargetConfig{Discrete: f.grainWriter(t, f.mirror), FlowID: f.id, Address: c.address})
			s := openSource(t, f, func(cfg *SourceConfig) { cfg.Address = c.address })
			r, err := f.mirror.OpenDiscreteReader(f.id)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { r.Close() })
			const base = 1_000_000
			writeGrain(t, w, base, 0, w.TotalSlices())
			connect(t, s, "b", target)
			for i := range uint64(40) {
				index := base + i
				if i > 0 {
					writeGrain(t, w, index, 0, w.TotalSlices())
				}
				g, err := r.WaitGrain(index, mxl.AllSlices, patience)
				if err != nil {
					t.Fatalf("grain %d: %v; source %+v, target %+v", i, err, targetOf(s, "b"), target.Stats().LastError)
				}
				if g.Invalid() || int(g.ValidSlices) != w.TotalSlices() {
					t.Fatalf("grain %d: header %+v", i, g.GrainHeader)
				}
				checkPattern(t, g.Payload, index)
			}
			// Readers are woken before the lane counts.
			eventually(t, time.Second, func() string { return fmt.Sprintf("%+v", target.Stats()) }, func() bool {
				st := target.Stats()
				return st.Grains == 40 && st.Errors == 0 && st.State == StateActive && st.Native && st.Head == base+39
			})
			eventually(t, time.Second, func() string { return fmt.Sprintf("%+v", targetOf(s, "b")) }, func() bool {
				st := targetOf(s, "b")
				return st.Grains == 40 && st.Bytes == 40*uint64(w.PayloadSize()) && st.Errors == 0 && st.Head == base+39
			})
		})
	}
}
