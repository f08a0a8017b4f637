package fabrics

import (
	"fmt"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mxl-stack/mxl-fabrics-agent/mxl"
)

// pair is a connected source and target of one discrete flow.
type pair struct {
	*testFlow
	w      *mxl.DiscreteWriter // origin
	mirror *mxl.DiscreteWriter
	r      *mxl.DiscreteReader // mirror
	target *Target
	source *Source
}

func newPair(t *testing.T, def string, origin, mirror time.Duration) *pair {
	t.Helper()
	p := &pair{testFlow: newFlow(t, def, origin, mirror)}
	p.w = p.grainWriter(t, p.origin)
	p.mirror = p.grainWriter(t, p.testFlow.mirror)
	p.target = openTarget(t, TargetConfig{Discrete: p.mirror, FlowID: p.id})
	p.source = openSource(t, p.testFlow)
	var err error
	if p.r, err = p.testFlow.mirror.OpenDiscreteReader(p.id); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.r.Close() })
	return p
}

func (p *pair) describe() string {
	s := p.source.Stats()
	return fmt.Sprintf("source state %v %q head %d gaps %d; target of it %+v; target %v %q head %d grains %d",
		s.State, s.LastError, s.Head, s.OriginGaps, targetOf(p.source, "b").LastError,
		p.target.Stats().State, p.target.Stats().LastError, p.target.Stats().Head, p.target.Stats().Grains)
}

// arrives waits for a grain at the mirror and checks its bytes up to what is valid.
func (p *pair) arrives(t *testing.T, index uint64, slices int) mxl.Grain {
	t.Helper()
	g, err := p.r.WaitGrain(index, slices, patience)
	if err != nil {
		t.Fatalf("grain %d: %v; %s", index, err, p.describe())
	}
	if slices == mxl.AllSlices {
		checkPattern(t, g.Payload, index)
	}
	return g
}

const smallVideo, smallKeyed = 192, 108

// Test12Slices: a grain that is committed slice by slice reaches the mirror slice by
// slice, both planes of v210a included (MXL Fabrics reference §13.12).
func Test12Slices(t *testing.T) {
	for _, media := range []string{"video/v210", "video/v210a"} {
		t.Run(media, func(t *testing.T) {
			p := newPair(t, videoDef(media, smallVideo, smallKeyed, rate50), 200*time.Millisecond, 300*time.Millisecond)
			writeGrain(t, p.w, 500, 0, p.w.TotalSlices())
			connect(t, p.source, "b", p.target)
			p.arrives(t, 500, mxl.AllSlices)
			total := p.w.TotalSlices()
			for index := uint64(501); index < 530; index++ {
				payload, err := p.w.OpenGrain(index)
				if err != nil {
					t.Fatal(err)
				}
				pattern(payload, index)
				for n := 1; n <= 8; n++ {
					if err := p.w.Commit(index, n*total/8, 0); err != nil {
						t.Fatal(err)
					}
					if index%3 > 0 { // every third grain comes in a burst
						p.arrives(t, index, n*total/8)
					}
				}
				p.arrives(t, index, mxl.AllSlices)
			}
			eventually(t, time.Second, func() string {
				return fmt.Sprintf("%d bytes for 30 grains of %d", p.target.Stats().Bytes, p.w.PayloadSize())
			}, func() bool { return p.target.Stats().Bytes == 30*uint64(p.w.PayloadSize()) })
			if st := p.target.Stats(); st.Errors != 0 {
				t.Errorf("%s", p.describe())
			}
		})
	}
}

// Test24FirstTransferStartsAtZero: a connection that comes up in the middle of a
// grain sends it from the header on (MXL Fabrics reference §13.24).
func Test24FirstTransferStartsAtZero(t *testing.T) {
	p := newPair(t, videoDef("video/v210", smallVideo, smallKeyed, rate50), 200*time.Millisecond, 200*time.Millisecond)
	payload, err := p.w.OpenGrain(900)
	if err != nil {
		t.Fatal(err)
	}
	pattern(payload, 900)
	commit := func(n int) {
		t.Helper()
		if err := p.w.Commit(900, n, 0); err != nil {
			t.Fatal(err)
		}
	}
	commit(50)
	connect(t, p.source, "b", p.target)
	if g := p.arrives(t, 900, 50); g.ValidSlices != 50 {
		t.Errorf("%d slices, want 50", g.ValidSlices)
	}
	p.source.RemoveTarget("b")
	eventually(t, time.Second, p.describe, func() bool { return !p.target.Stats().Connected })
	commit(80)
	connect(t, p.source, "b", p.target)
	p.arrives(t, 900, 80)
	commit(108)
	p.arrives(t, 900, mxl.AllSlices)
	if st := p.target.Stats(); st.BadImmediates != 0 {
		t.Errorf("%+v", st)
	}
}

// TestInvalidGrainTravelsAsItsHeader: flag and index arrive, the payload stays.
func TestInvalidGrainTravelsAsItsHeader(t *testing.T) {
	for _, media := range []string{"video/v210", "video/v210a"} {
		p := newPair(t, videoDef(media, smallVideo, smallKeyed, rate50), 200*time.Millisecond, 200*time.Millisecond)
		writeGrain(t, p.w, 100, 0, p.w.TotalSlices())
		connect(t, p.source, "b", p.target)
		p.arrives(t, 100, mxl.AllSlices)
		for index := uint64(101); index < 130; index++ {
			if index%3 == 0 {
				writeGrain(t, p.w, index, mxl.GrainInvalid, 0)
				g, err := p.r.WaitGrain(index, mxl.AllSlices, 5*time.Second)
				if err != nil || !g.Invalid() || g.Index != index {
					t.Fatalf("grain %d: %+v, %v", index, g.GrainHeader, err)
				}
				continue
			}
			writeGrain(t, p.w, index, 0, p.w.TotalSlices())
			if g := p.arrives(t, index, mxl.AllSlices); g.Invalid() {
				t.Fatalf("grain %d is invalid", index)
			}
		}
		if gaps := p.source.Stats().OriginGaps; gaps != 0 {
			t.Errorf("%d origin gaps", gaps)
		}
	}
}

// Test21InterruptedLanes: signals on the lanes' threads change nothing (MXL Fabrics
// reference §13.21).
func Test21InterruptedLanes(t *testing.T) {
	p := newPair(t, videoDef("video/v210", smallVideo, smallKeyed, rate50), 200*time.Millisecond, 200*time.Millisecond)
	writeGrain(t, p.w, 100, 0, p.w.TotalSlices())
	connect(t, p.source, "b", p.target)
	threads := make(chan int, 2)
	p.source.lane.do(func() { threads <- unix.Gettid() })
	p.target.lane.do(func() { threads <- unix.Gettid() })
	tids := []int{<-threads, <-threads}
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-stop:
				return
			case <-tick.C:
				for _, tid := range tids {
					_ = unix.Tgkill(unix.Getpid(), tid, unix.SIGURG)
				}
			}
		}
	}()
	for index := uint64(101); index < 400; index++ {
		writeGrain(t, p.w, index, 0, p.w.TotalSlices())
		p.arrives(t, index, mxl.AllSlices)
	}
	close(stop)
	<-done
	if st := p.target.Stats(); st.Connections != 1 || st.Errors != 0 || st.Interrupted == 0 {
		t.Errorf("%d connections, %d errors, %d interruptions", st.Connections, st.Errors, st.Interrupted)
	}
}

// Test25RemoveTarget: a removed target is disconnected within a second and nothing
// arrives afterwards; the next one starts at the head (MXL Fabrics reference §13.25).
func Test25RemoveTarget(t *testing.T) {
	p := newPair(t, videoDef("video/v210", smallVideo, smallKeyed, rate50), 200*time.Millisecond, 200*time.Millisecond)
	writeGrain(t, p.w, 100, 0, p.w.TotalSlices())
	connect(t, p.source, "b", p.target)
	p.arrives(t, 100, mxl.AllSlices)
	start := time.Now()
	p.source.RemoveTarget("b")
	p.source.RemoveTarget("unknown")
	eventually(t, time.Second, p.describe, func() bool { return !p.target.Stats().Connected })
	took := time.Since(start)
	t.Logf("gone after %v", took)
	held := len(p.source.Stats().Timing.ThreadStall) + len(p.target.Stats().Timing.ThreadStall)
	if took > time.Second && held == 0 {
		t.Errorf("gone after %v, though the lanes had their time", took)
	}
	before := p.target.Stats().Commits
	for index := uint64(101); index < 120; index++ {
		writeGrain(t, p.w, index, 0, p.w.TotalSlices())
	}
	if after := p.target.Stats().Commits; after != before {
		t.Errorf("%d commits after the end", after-before)
	}
	connect(t, p.source, "b", p.target)
	p.arrives(t, 119, mxl.AllSlices)
	if st := targetOf(p.source, "b"); st.Grains > 1 {
		t.Errorf("%d grains, want the head alone", st.Grains)
	}
}

// TestSetTargetKeepsConnection: the same TargetInfo again changes nothing; another
// replaces the connection.
func TestSetTargetKeepsConnection(t *testing.T) {
	p := newPair(t, videoDef("video/v210", smallVideo, smallKeyed, rate50), 200*time.Millisecond, 200*time.Millisecond)
	writeGrain(t, p.w, 100, 0, p.w.TotalSlices())
	connect(t, p.source, "b", p.target)
	p.arrives(t, 100, mxl.AllSlices)
	for range 10 {
		if err := p.source.SetTarget("b", p.target.Info()); err != nil {
			t.Fatal(err)
		}
	}
	writeGrain(t, p.w, 101, 0, p.w.TotalSlices())
	p.arrives(t, 101, mxl.AllSlices)
	if st := p.target.Stats(); st.Connections != 1 {
		t.Errorf("%d connections", st.Connections)
	}
	p.target.Close()
	next := openTarget(t, TargetConfig{Discrete: p.mirror, FlowID: p.id})
	p.target = next
	connect(t, p.source, "b", next)
	writeGrain(t, p.w, 102, 0, p.w.TotalSlices())
	p.arrives(t, 102, mxl.AllSlices)
}

// TestTargetOfAnotherShape: what does not fit is refused with the field's name.
func TestTargetOfAnotherShape(t *testing.T) {
	p := newPair(t, videoDef("video/v210", smallVideo, smallKeyed, rate50), 200*time.Millisecond, 200*time.Millisecond)
	audio := newFlow(t, audioDef(2), 200*time.Millisecond, 200*time.Millisecond)
	audioTarget := openTarget(t, TargetConfig{Continuous: audio.sampleWriter(t, audio.mirror), FlowID: audio.id})
	longer := p.target.Info()
	longer.Regions = append([]Region(nil), longer.Regions...)
	longer.Regions[3].Len++
	verbs := p.target.Info()
	verbs.Provider = "verbs"
	none := p.target.Info()
	none.Regions = nil
	address := p.target.Info()
	address.Address = address.Address[:4]
	for field, info := range map[string]TargetInfo{
		"bounceBufferInfo": audioTarget.Info(), "regions[3].len": longer, "provider": verbs, "regions": none, "fabricAddress": address,
	} {
		err := p.source.SetTarget("x", info)
		var fe *FieldError
		if !asFieldError(err, &fe) || fe.Field != field {
			t.Errorf("%s: %v", field, err)
		}
	}
}

// Test20TargetThatDoesNotPoll: what fits the rings arrives when it polls again, and
// no write completes before (MXL Fabrics reference §13.20).
func Test20TargetThatDoesNotPoll(t *testing.T) {
	p := newPair(t, videoDef("video/v210", 960, 540, rate50), 200*time.Millisecond, 200*time.Millisecond)
	writeGrain(t, p.w, 100, 0, p.w.TotalSlices())
	connect(t, p.source, "b", p.target)
	p.arrives(t, 100, mxl.AllSlices)
	eventually(t, time.Second, p.describe, func() bool { return targetOf(p.source, "b").Transfers == 1 })
	held, release := make(chan struct{}), make(chan struct{})
	p.target.lane.do(func() { close(held); <-release })
	<-held
	for index := uint64(101); index <= 104; index++ {
		writeGrain(t, p.w, index, 0, p.w.TotalSlices())
	}
	time.Sleep(time.Second) // what is tested: nothing happens meanwhile
	if st := targetOf(p.source, "b"); st.Transfers != 1 || st.State != StateActive {
		t.Errorf("%d transfers completed at a target that does not poll; %v %q", st.Transfers-1, st.State, st.LastError)
	}
	close(release)
	for index := uint64(101); index <= 104; index++ {
		p.arrives(t, index, mxl.AllSlices)
	}
	if st := targetOf(p.source, "b"); st.Errors != 0 || st.Connections != 1 || st.Skipped != 0 {
		t.Errorf("%+v", st)
	}
}
