package agent

import (
	"net/netip"
	"testing"
	"time"
)

var t0 = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// wantedFacts is a pull that is wanted and could run.
func wantedFacts() pullFacts {
	return pullFacts{Wanted: true, PeerUp: true, BootID: "boot-1", LinkUp: true, OriginActive: true, MirrorReady: true, MirrorGeneration: 1, Way: way{Provider: "tcp", Address: "192.0.2.1"}}
}

// runningView is a pull that was set up 100 s ago and got a grain just now.
func runningView() pullView {
	return pullView{
		HasTarget: true, TargetConnected: true, SetUpAt: t0.Add(-100 * time.Second), SetUpBootID: "boot-1", SetUpGeneration: 1, SetUpWay: way{Provider: "tcp", Address: "192.0.2.1"},
		LastGrainAt: t0.Add(-20 * time.Millisecond), LastPostAt: t0.Add(-500 * time.Millisecond), SourceState: stateActive,
		OriginHead: 100, OriginHeadKnown: true, OriginMovedAt: t0.Add(-500 * time.Millisecond), RetryReady: true, SourceHoldsRoute: true,
	}
}

func TestNextPullStep(t *testing.T) {
	for _, c := range []struct {
		name  string
		facts func(*pullFacts)
		view  func(*pullView)
		want  pullStep
	}{
		{"running: nothing to do", nil, nil, stepWait},
		{"no longer wanted", func(f *pullFacts) { f.Wanted = false }, nil, stepRelease},
		{"no longer wanted, whatever else is wrong", func(f *pullFacts) { *f = pullFacts{} }, nil, stepRelease},
		{"peer has another boot id", func(f *pullFacts) { f.BootID = "boot-2" }, nil, stepDropForRestart},
		{"peer restarted while the link is down", func(f *pullFacts) { f.BootID, f.LinkUp = "boot-2", false }, nil, stepDropForRestart},
		{"boot id not known yet", func(f *pullFacts) { f.BootID = "" }, nil, stepWait},
		{"link down, first time", func(f *pullFacts) { f.LinkUp = false }, nil, stepDropForLink},
		{"link down, dealt with", func(f *pullFacts) { f.LinkUp = false }, func(v *pullView) { v.LinkDownHandled, v.HasTarget = true, false }, stepWait},
		{"mirror is being rebuilt", func(f *pullFacts) { f.MirrorReady = false }, nil, stepDropForMirror},
		{"mirror was rebuilt", func(f *pullFacts) { f.MirrorGeneration = 2 }, nil, stepDropForMirror},
		{"another address or provider in PEERS", func(f *pullFacts) { f.Way = way{Provider: "tcp", Address: "192.0.2.2"} }, nil, stepDropForWay},
		{"another remote address in PEERS", func(f *pullFacts) { f.Way.Remote = netip.MustParseAddr("192.0.2.9") }, nil, stepDropForWay},
		{"another address, whose link is down", func(f *pullFacts) { f.Way, f.LinkUp = way{Provider: "tcp", Address: "192.0.2.2"}, false }, nil, stepDropForLink},
		{"another address, no target", func(f *pullFacts) { f.Way = way{Provider: "tcp", Address: "192.0.2.2"} }, func(v *pullView) { *v = pullView{RetryReady: true} }, stepSetUp},
		{"no mirror and no target", func(f *pullFacts) { f.MirrorReady = false }, func(v *pullView) { *v = pullView{RetryReady: true} }, stepWait},
		{"start", nil, func(v *pullView) { *v = pullView{RetryReady: true} }, stepSetUp},
		{"start, backing off", nil, func(v *pullView) { *v = pullView{} }, stepWait},
		{"start, peer down", func(f *pullFacts) { f.PeerUp = false }, func(v *pullView) { *v = pullView{RetryReady: true} }, stepWait},
		{"peer down while grains flow", func(f *pullFacts) { f.PeerUp = false }, nil, stepWait},
		{"after set-up", nil, func(v *pullView) { v.LastPostAt = time.Time{} }, stepPost},
		{"connection lost", nil, func(v *pullView) { v.PostDue = true }, stepPost},
		{"connection lost, the source says so", nil, func(v *pullView) {
			v.TargetConnected, v.ConnectionLost, v.SourceState, v.LastPostAt = false, true, stateError, t0
		}, stepRebuild},
		{"connection lost, the source has no target left", nil, func(v *pullView) {
			v.TargetConnected, v.ConnectionLost, v.SourceState, v.LastPostAt = false, true, stateIdle, t0
		}, stepRebuild},
		{"connection lost, this end knows why", nil, func(v *pullView) {
			v.TargetConnected, v.ConnectionLost, v.TargetFailed, v.LastPostAt = false, true, true, t0
		}, stepRebuild},
		{"connection gone, the source opens its origin again", nil, func(v *pullView) {
			v.TargetConnected, v.ConnectionLost, v.SourceState, v.LastPostAt = false, true, statePending, t0
		}, stepWait},
		{"connection lost, the source does not answer", func(f *pullFacts) { f.PeerUp = false }, func(v *pullView) {
			v.TargetConnected, v.ConnectionLost, v.TargetFailed, v.PostDue = false, true, true, true
		}, stepWait},
		{"connection lost again, without a grain in between", nil, func(v *pullView) {
			v.TargetConnected, v.ConnectionLost, v.SourceState, v.LastPostAt, v.RebuildsInARow = false, true, stateError, t0, 1
		}, stepWait},
		{"running, lease due", nil, func(v *pullView) { v.LastPostAt = t0.Add(-repeatActive) }, stepPost},
		{"pending repeats each pass", nil, func(v *pullView) {
			v.SourceState, v.LastPostAt, v.SetUpAt, v.LastGrainAt = statePending, t0.Add(-repeatPending), t0.Add(-time.Second), time.Time{}
		}, stepPost},
		{"own target failed, too early", nil, func(v *pullView) { v.TargetFailed, v.LastGrainAt = true, t0.Add(-4*time.Second) }, stepWait},
		{"own target failed, after 5 s", nil, func(v *pullView) { v.TargetFailed, v.LastGrainAt = true, t0.Add(-6*time.Second) }, stepRebuild},
		{"source error, 0.5 s", nil, func(v *pullView) {
			v.SourceState, v.LastGrainAt, v.LastPostAt = stateError, t0.Add(-500*time.Millisecond), t0
		}, stepWait},
		{"source error, 1.5 s", nil, func(v *pullView) { v.SourceState, v.LastGrainAt = stateError, t0.Add(-1500*time.Millisecond) }, stepRebuild},
		{"many rebuilds, 39 s", nil, func(v *pullView) {
			v.TargetFailed, v.RebuildsInARow, v.LastGrainAt, v.LastPostAt = true, 9, t0.Add(-39*time.Second), t0
		}, stepWait},
		{"many rebuilds, 41 s", nil, func(v *pullView) { v.TargetFailed, v.RebuildsInARow, v.LastGrainAt = true, 9, t0.Add(-41*time.Second) }, stepRebuild},
		{"origin idle for a minute", nil, func(v *pullView) {
			v.LastGrainAt, v.OriginMovedAt, v.LastPostAt = t0.Add(-time.Minute), t0.Add(-time.Minute), t0
		}, stepWait},
		{"origin moved, mirror did not", nil, func(v *pullView) { v.LastGrainAt, v.OriginMovedAt = t0.Add(-6*time.Second), t0.Add(-time.Second) }, stepRebuild},
		{"origin moved within a second of the last grain", nil, func(v *pullView) {
			v.LastGrainAt, v.OriginMovedAt, v.LastPostAt = t0.Add(-6*time.Second), t0.Add(-5500*time.Millisecond), t0
		}, stepWait},
		{"source without origin_head, writer there", nil, func(v *pullView) { v.OriginHeadKnown, v.LastGrainAt = false, t0.Add(-6*time.Second) }, stepRebuild},
		{"source without origin_head, no writer", func(f *pullFacts) { f.OriginActive = false }, func(v *pullView) {
			v.OriginHeadKnown, v.LastGrainAt, v.LastPostAt = false, t0.Add(-6*time.Second), t0
		}, stepWait},
	} {
		t.Run(c.name, func(t *testing.T) {
			f, v := wantedFacts(), runningView()
			if c.facts != nil {
				c.facts(&f)
			}
			if c.view != nil {
				c.view(&v)
			}
			if got := nextPullStep(f, v, t0); got != c.want {
				t.Errorf("step %v, want %v", got, c.want)
			}
		})
	}
}

func TestBackoffDoublesFromHalfASecondToThirty(t *testing.T) {
	var b backoff
	if !b.ready(t0) {
		t.Fatal("a fresh back-off is not ready")
	}
	want := []time.Duration{500 * time.Millisecond, time.Second, 2 * time.Second, 4 * time.Second, 8 * time.Second, 16 * time.Second, 30 * time.Second, 30 * time.Second}
	for i, w := range want {
		b.failed(t0)
		if got := b.next.Sub(t0); got != w {
			t.Errorf("failure %d waits %v, want %v", i+1, got, w)
		}
		if b.ready(t0.Add(w - time.Nanosecond)) {
			t.Errorf("failure %d: ready before the wait is over", i+1)
		}
	}
	b.reset()
	if !b.ready(t0) {
		t.Error("not ready after reset")
	}
}

func TestDestinationState(t *testing.T) {
	up := wantedFacts()
	down := wantedFacts()
	down.LinkUp = false
	silent := wantedFacts()
	silent.PeerUp = false
	for _, c := range []struct {
		name   string
		facts  pullFacts
		view   pullView
		failed bool
		grain  bool
		want   string
	}{
		{"link down before everything", down, pullView{TargetFailed: true, SourceState: stateError}, true, true, stateLinkDown},
		{"lane failed", up, pullView{TargetFailed: true, SourceState: stateActive}, false, true, stateError},
		{"set-up failed", up, pullView{}, true, false, stateError},
		{"source says error", up, pullView{SourceState: stateError}, false, true, stateError},
		{"source's link is down", up, pullView{SourceState: stateLinkDown}, false, true, stateLinkDown},
		{"source pending", up, pullView{SourceState: statePending}, false, true, statePending},
		{"source active, no grain yet", up, pullView{SourceState: stateActive}, false, false, statePending},
		{"broken off, asked again", up, pullView{SourceState: stateActive, ConnectionLost: true}, false, true, stateActive},
		{"broken off, source down", silent, pullView{SourceState: stateActive, ConnectionLost: true}, false, true, stateError},
		{"source down, connection stands", silent, pullView{SourceState: stateActive, TargetConnected: true}, false, true, stateActive},
		{"source active, grains", up, pullView{SourceState: stateActive}, false, true, stateActive},
	} {
		if got := destinationState(c.facts, c.view, c.failed, c.grain); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}
