package fabrics

import (
	"fmt"
	"net/netip"
	"os"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// breakConnection shuts down this process's sockets that are connected to an address:
// what both ends see of a connection that the network has ended.
func breakConnection(t *testing.T, to TargetInfo) {
	t.Helper()
	ap, err := to.AddrPort()
	if err != nil {
		t.Fatal(err)
	}
	fds, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	broken := 0
	for _, entry := range fds {
		fd, _ := strconv.Atoi(entry.Name())
		name, err := unix.Getpeername(fd)
		if in, ok := name.(*unix.SockaddrInet4); err == nil && ok && netip.AddrPortFrom(netip.AddrFrom4(in.Addr), uint16(in.Port)) == ap {
			if err := unix.Shutdown(fd, unix.SHUT_RDWR); err != nil {
				t.Fatal(err)
			}
			broken++
		}
	}
	if broken != 1 {
		t.Fatalf("%d connections to %v", broken, ap)
	}
}

// TestLostConnection: a source that has lost a target of ours leaves it to the
// destination to make a new one, to which it connects at once; it connects to the old
// one by itself after lostWait only. Another target of the lane notices nothing.
func TestLostConnection(t *testing.T) {
	p := newPair(t, videoDef("video/v210", 192, 108, rate50), 200*time.Millisecond, 200*time.Millisecond)
	connect(t, p.source, "b", p.target)
	other := newFlow(t, videoDef("video/v210", 192, 108, rate50), 200*time.Millisecond, 200*time.Millisecond)
	bystander := openTarget(t, TargetConfig{Discrete: other.grainWriter(t, other.mirror), FlowID: p.id})
	connect(t, p.source, "c", bystander)
	for range 10 { // events of the connections
		select {
		case <-p.source.Events():
		default:
		}
	}

	breakConnection(t, p.target.Info())
	began := time.Now()
	select {
	case e := <-p.source.Events():
		if e.Name != "source_connection_lost" || e.Key != "b" {
			t.Errorf("event %+v", e)
		}
	case <-time.After(patience):
		t.Fatal("nothing is said of a lost connection")
	}
	if st := targetOf(p.source, "b"); st.State != StateError || st.LastError == "" || st.Errors != 1 {
		t.Errorf("%+v", st)
	}
	if err := p.source.SetTarget("b", p.target.Info()); err != nil { // asked again, and nothing new
		t.Fatal(err)
	}
	eventually(t, time.Second, func() string { return fmt.Sprintf("%+v", targetOf(p.source, "b")) }, func() bool {
		return targetOf(p.source, "b").Connected
	})
	if took := time.Since(began); took < lostWait-100*time.Millisecond {
		t.Errorf("connected to the old target after %v", took)
	}

	breakConnection(t, p.target.Info())
	p.target.Close()
	fresh := openTarget(t, TargetConfig{Discrete: p.mirror, FlowID: p.id})
	began = time.Now()
	connect(t, p.source, "b", fresh)
	if took := time.Since(began); took > lostWait/2 {
		t.Logf("the new target was connected to after %v: a busy machine", took)
	}
	writeGrain(t, p.w, 4243, 0, p.w.TotalSlices())
	p.arrives(t, 4243, p.w.TotalSlices())
	if st := bystander.Stats(); st.Connections != 1 || st.Errors != 0 {
		t.Errorf("the other target: %+v", st)
	}
}

// TestLostForeignTarget: the SDK's target stays what it is, and the original agent
// asks again with the same TargetInfo: then the source connects at once.
func TestLostForeignTarget(t *testing.T) {
	p := newPair(t, videoDef("video/v210", 192, 108, rate50), 200*time.Millisecond, 200*time.Millisecond)
	foreign := p.target.Info()
	foreign.Native, foreign.Secret = 0, secret{}
	set := func() {
		if err := p.source.SetTarget("b", foreign); err != nil {
			t.Fatal(err)
		}
	}
	connections := func(n uint64) {
		eventually(t, time.Second, p.describe, func() bool {
			st := targetOf(p.source, "b")
			return st.Connected && st.Connections == n
		})
	}
	set()
	connections(1)
	for n := range uint64(3) {
		breakConnection(t, foreign)
		eventually(t, time.Second, p.describe, func() bool { return targetOf(p.source, "b").Errors == n+1 })
		set()
		connections(n + 2)
	}
}
