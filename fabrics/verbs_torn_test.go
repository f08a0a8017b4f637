//go:build verbs

package fabrics

import (
	"fmt"
	"os/exec"
	"testing"
	"time"

	"github.com/mxl-stack/mxl-fabrics-agent/fabrics/rdmacm"
	"github.com/mxl-stack/mxl-fabrics-agent/mxl"
)

// inFlight waits until the source has something in flight to its first target.
func inFlight(t *testing.T, p *pair) {
	t.Helper()
	flying := make(chan int)
	eventually(t, 5*time.Second, p.describe, func() bool {
		p.source.lane.do(func() { flying <- p.source.lane.destinations[0].flying })
		return <-flying > 0
	})
}

// TestVerbsTornGrain: the packets of a grain are lost, and by the time they are sent
// again the writer has come round to its slot: the device sends what is in memory
// then. What was mixed is taken back, and what is whole afterwards arrives whole.
func TestVerbsTornGrain(t *testing.T) {
	rdmacm.Configure(rdmacm.Settings{ACKTimeout: 16, RetryCount: 6})
	t.Cleanup(func() { rdmacm.Configure(rdmacm.Settings{}) })
	p := newVerbsPair(t, videoDef("video/v210", smallVideo, smallKeyed, rate50), "ipv4")
	depth := p.w.Depth()
	const first, torn = 1000, 1001
	writeGrain(t, p.w, first, 0, p.w.TotalSlices())
	connect(t, p.source, "b", p.target)
	p.arrives(t, first, mxl.AllSlices)
	eventually(t, 5*time.Second, p.describe, func() bool { return targetOf(p.source, "b").Transfers == 1 })

	loss(t, "100%")
	writeGrain(t, p.w, torn, 0, p.w.TotalSlices())
	inFlight(t, p)
	for index := uint64(torn + 1); index < torn+depth; index++ {
		writeGrain(t, p.w, index, 0, p.w.TotalSlices())
	}
	payload, err := p.w.OpenGrain(torn + depth)
	if err != nil {
		t.Fatal(err)
	}
	pattern(payload[:len(payload)/2], torn+depth)
	loss(t, "")

	newest := torn + depth - 1
	p.arrives(t, newest, mxl.AllSlices)
	eventually(t, 5*time.Second, p.describe, func() bool { return targetOf(p.source, "b").Retracted == 1 })
	eventually(t, 5*time.Second, p.describe, func() bool { return p.target.Stats().Retracted == 1 })
	for _, index := range []uint64{torn, torn + depth} {
		if g, err := p.r.Grain(index, mxl.AllSlices); err == nil && !g.Invalid() {
			t.Errorf("grain %d of mixed bytes can be read: %+v", index, g.GrainHeader)
		}
	}
	// The writer finishes what it had begun.
	pattern(payload, torn+depth)
	if err := p.w.Commit(torn+depth, p.w.TotalSlices(), 0); err != nil {
		t.Fatal(err)
	}
	p.arrives(t, torn+depth, mxl.AllSlices)
	// The header that was sent was the later grain's, which the round in the immediate
	// tells from the torn one: nothing of it was published.
	src, st := targetOf(p.source, "b"), p.target.Stats()
	if src.Torn != 1 || src.Errors+st.Errors != 0 || st.BadImmediates > nativeGrains-1 || src.Connections != 1 {
		t.Errorf("source: %d torn, %d errors, %d connections; target: %d errors, %q, %d bad immediates",
			src.Torn, src.Errors, src.Connections, st.Errors, st.LastError, st.BadImmediates)
	}
	fmt.Println("RESULT torn_grains_taken_back 1")
}

// TestVerbsBrokenOffGrain: a queue pair fails in the middle of a grain. What had
// arrived of it lies in the mirror's slot; it is made invalid when the connection is
// seen to be over, and the grain arrives whole over the next one.
func TestVerbsBrokenOffGrain(t *testing.T) {
	rdmacm.Configure(rdmacm.Settings{ACKTimeout: 14, RetryCount: 3})
	t.Cleanup(func() { rdmacm.Configure(rdmacm.Settings{}) })
	p := newVerbsPair(t, videoDef("video/v210", 960, 540, rate50), "ipv4")
	const first, broken = 1000, 1001
	writeGrain(t, p.w, first, 0, p.w.TotalSlices())
	connect(t, p.source, "b", p.target)
	p.arrives(t, first, mxl.AllSlices)
	eventually(t, 5*time.Second, p.describe, func() bool { return targetOf(p.source, "b").Transfers == 1 })

	// About 0.7 s for a grain of 1.4 MB; acknowledgements of its parts come before.
	if out, err := exec.Command("tc", "qdisc", "replace", "dev", "h1", "root", "netem", "limit", "10000", "rate", "16mbit").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	writeGrain(t, p.w, broken, 0, p.w.TotalSlices())
	slot := p.mirror.SlotOf(broken)
	eventually(t, 5*time.Second, p.describe, func() bool { return p.mirror.Header(slot).Index == broken })
	loss(t, "100%")
	eventually(t, 10*time.Second, p.describe, func() bool { return targetOf(p.source, "b").Errors > 0 })
	if st := p.target.Stats(); st.Head != first {
		t.Errorf("the target's head is %d", st.Head)
	}
	loss(t, "")
	p.arrives(t, broken, mxl.AllSlices)
	if st := p.target.Stats(); st.Discarded != 1 || st.BadImmediates != 0 {
		t.Errorf("%d discarded, %d bad immediates", st.Discarded, st.BadImmediates)
	}
	fmt.Println("RESULT broken_grains_discarded 1")
}
