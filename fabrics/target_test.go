package fabrics

import (
	"fmt"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/mxl-stack/mxl-fabrics-agent/fabrics/ofi"
	"github.com/mxl-stack/mxl-fabrics-agent/mxl"
)

// grainTarget is a target of a small v210 flow and the writer behind it.
func grainTarget(t *testing.T) (*Target, *mxl.DiscreteWriter) {
	t.Helper()
	return targetFor(t, videoDef("video/v210", 192, 108, rate50))
}

func targetFor(t *testing.T, def string) (*Target, *mxl.DiscreteWriter) {
	t.Helper()
	f := newFlow(t, def, 200*time.Millisecond, 200*time.Millisecond)
	w := f.grainWriter(t, f.mirror)
	return openTarget(t, TargetConfig{Discrete: w, FlowID: f.id}), w
}

// sendGrain sends one whole grain through a raw peer.
func sendGrain(p *rawPeer, target *Target, w *mxl.DiscreteWriter, index uint64) {
	p.t.Helper()
	slot := int(index % w.Depth())
	putGrainHeader(p.mem, w.Slot(slot), index)
	p.write(target.Info().Regions[slot], uint64(len(w.Slot(slot))), uint32(newGrainImmediate(slot, w.TotalSlices())))
}

// Test05TargetInfoOfATarget: tcp regions have address 0, one region a slot or
// entry, of the documented length (MXL Fabrics reference §13.5, §13.11).
func Test05TargetInfoOfATarget(t *testing.T) {
	target, w := grainTarget(t)
	info := target.Info()
	if uint64(len(info.Regions)) != w.Depth() || info.Provider != "tcp" || info.AddressFormat != 2 || len(info.Address) != 16 {
		t.Errorf("target info %v", info)
	}
	for i, r := range info.Regions {
		if r.Addr != 0 || r.Len != uint64(8192+w.PayloadSize()) {
			t.Errorf("region %d: %+v", i, r)
		}
	}
	f := newFlow(t, audioDef(2), 200*time.Millisecond, 200*time.Millisecond)
	audio := openTarget(t, TargetConfig{Continuous: f.sampleWriter(t, f.mirror), FlowID: f.id}).Info()
	if audio.Bounce == nil || audio.Bounce.EntrySize != 3856 || audio.Bounce.EntryCount != 41 || len(audio.Regions) != 41 {
		t.Errorf("bounce buffer %+v with %d regions", audio.Bounce, len(audio.Regions))
	}
	for i, r := range audio.Regions {
		if r.Addr != 0 || r.Len != 3856 {
			t.Errorf("entry %d: %+v", i, r)
		}
	}
	again, err := ParseTargetInfo(audio.String())
	if err != nil || again.String() != audio.String() {
		t.Errorf("%v reads back as %v, %v", audio, again, err)
	}
}

// Test15BothQueueForms: one queue for both directions, or one for each, work over
// tcp in both roles (MXL Fabrics reference §13.15).
func Test15BothQueueForms(t *testing.T) {
	for _, separate := range []bool{false, true} {
		target, w := grainTarget(t)
		p := newRawPeer(t, "127.0.0.1", 8192+w.PayloadSize(), separate)
		p.connect(target.Info())
		for i := range uint64(25) {
			sendGrain(p, target, w, 5000+i)
			p.completed(1, 2*time.Second)
		}
		eventually(t, time.Second, func() string { return fmt.Sprintf("separate queues %v: %+v", separate, target.Stats()) }, func() bool {
			st := target.Stats()
			return st.Head == 5024 && st.Errors == 0
		})
		p.close()
	}
}

// Test16SameTargetInfoAfterReconnect: an initiator that goes and comes back reaches
// the target with the TargetInfo it has (MXL Fabrics reference §13.16).
func Test16SameTargetInfoAfterReconnect(t *testing.T) {
	target, w := grainTarget(t)
	p := newRawPeer(t, "127.0.0.1", 8192+w.PayloadSize(), false)
	for i := range uint64(20) {
		p.connect(target.Info())
		sendGrain(p, target, w, 7000+i)
		p.completed(1, 2*time.Second)
		p.hangUp()
		eventually(t, 2*time.Second, func() string { return fmt.Sprintf("%+v", target.Stats()) }, func() bool {
			st := target.Stats()
			return st.Grains == i+1 && !st.Connected
		})
	}
	if st := target.Stats(); st.Errors != 0 || st.Connections != 20 {
		t.Errorf("%+v", st)
	}
}

// Test17SecondInitiatorRefused: within a second, and the first goes on (MXL Fabrics
// reference §13.17).
func Test17SecondInitiatorRefused(t *testing.T) {
	target, w := grainTarget(t)
	first := newRawPeer(t, "127.0.0.1", 8192+w.PayloadSize(), false)
	first.connect(target.Info())
	sendGrain(first, target, w, 100)
	first.completed(1, time.Second)
	second := newRawPeer(t, "127.0.0.1", 8192+w.PayloadSize(), false)
	start := time.Now()
	second.dial(target.Info())
	kind, err := second.wait(2 * time.Second)
	if kind != ofi.EventError || time.Since(start) > time.Second {
		t.Errorf("event %v, %v after %v; want a refusal within 1 s", kind, err, time.Since(start))
	}
	for i := range uint64(5) {
		sendGrain(first, target, w, 101+i)
	}
	first.completed(5, time.Second)
	eventually(t, time.Second, func() string { return fmt.Sprintf("%+v", target.Stats()) }, func() bool {
		st := target.Stats()
		return st.Head == 105 && st.Refused == 1 && st.Errors == 0
	})
}

// Test18KilledInTheHandshake: initiators that vanish at any point of the handshake
// leave the target accepting, and asleep (MXL Fabrics reference §13.18).
func Test18KilledInTheHandshake(t *testing.T) {
	target, w := grainTarget(t)
	ap, err := target.Info().AddrPort()
	if err != nil {
		t.Fatal(err)
	}
	request := make([]byte, 32) // handshake message, MXL Fabrics reference §10.2
	request[0], request[24] = 3, 1
	for i := range 200 {
		c, err := net.DialTCP("tcp", nil, net.TCPAddrFromAddrPort(netip.AddrPortFrom(ap.Addr(), ap.Port())))
		if err != nil {
			t.Fatal(err)
		}
		if i%2 == 0 {
			_ = c.SetLinger(0) // a reset instead of an orderly end
		}
		_, _ = c.Write(request[:[]int{0, 16, 32, 32, 32}[i%5]])
		if i%5 == 3 {
			// Long enough to be accepted: the answer is read, then the end comes.
			_ = c.SetReadDeadline(time.Now().Add(200 * time.Millisecond))
			_, _ = c.Read(make([]byte, 64))
		}
		c.Close()
	}
	p := newRawPeer(t, "127.0.0.1", 8192+w.PayloadSize(), false)
	eventually(t, 5*time.Second, func() string { return fmt.Sprintf("%+v", target.Stats()) }, func() bool {
		p.dial(target.Info())
		kind, _ := p.wait(time.Second)
		if kind != ofi.EventConnected {
			p.hangUp()
		}
		return kind == ofi.EventConnected
	})
	sendGrain(p, target, w, 42)
	p.completed(1, 2*time.Second)
	before := cpuTime(t)
	time.Sleep(300 * time.Millisecond)
	if used := cpuTime(t) - before; used > 100*time.Millisecond {
		t.Errorf("the target used %v of processor time in 300 ms", used)
	}
}

// Test18SilentHandshake: an initiator that never sends its request, and one that
// stops before reading the answer, do not keep others out for longer than the
// handshake's deadline.
func Test18SilentHandshake(t *testing.T) {
	target, w := grainTarget(t)
	ap, err := target.Info().AddrPort()
	if err != nil {
		t.Fatal(err)
	}
	c, err := net.Dial("tcp", ap.String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	p := newRawPeer(t, "127.0.0.1", 8192+w.PayloadSize(), false)
	p.connect(target.Info())
	sendGrain(p, target, w, 43)
	p.completed(1, 2*time.Second)
}

// Test19DrainedOnShutdown: what had arrived when the connection ended is committed
// (MXL Fabrics reference §13.19).
func Test19DrainedOnShutdown(t *testing.T) {
	target, w := targetFor(t, dataDef) // small enough for the sockets to hold all of it
	p := newRawPeer(t, "127.0.0.1", 8*(8192+w.PayloadSize()), false)
	p.connect(target.Info())
	eventually(t, time.Second, func() string { return "connected" }, func() bool { return target.Stats().Connected })
	held, release := make(chan struct{}), make(chan struct{})
	target.lane.do(func() { close(held); <-release })
	<-held
	size := uint64(8192 + w.PayloadSize())
	for i := range uint64(5) {
		slot := int(i % w.Depth())
		putGrainHeader(p.mem[i*size:], w.Slot(slot), 600+i)
		p.writes.Reset()
		p.writes.Add(p.ep, 1, 0, target.Info().Regions[slot].RKey)
		p.writes.Segment(p.region, i*size, size)
		p.writes.Immediate(uint32(newGrainImmediate(slot, w.TotalSlices())))
		if p.writes.Post() != 1 {
			t.Fatal(p.writes.Result(0))
		}
		_, _ = p.poller.Poll(20 * time.Millisecond)
	}
	p.hangUp()
	close(release)
	eventually(t, 2*time.Second, func() string { return fmt.Sprintf("%+v", target.Stats()) }, func() bool {
		st := target.Stats()
		return st.Grains == 5 && st.Head == 604 && !st.Connected
	})
}

// Test22BadImmediates: each is counted, ends its connection, and leaves the target
// alive (MXL Fabrics reference §13.22).
func Test22BadImmediates(t *testing.T) {
	target, w := grainTarget(t)
	depth := int(w.Depth())
	for i, c := range []struct {
		name   string
		first  uint64 // index sent before, if any
		index  uint64
		slot   int
		slices int
		region int
	}{
		{"slot of no grain", 0, 1000, depth, w.TotalSlices(), 0},
		{"highest slot", 0, 1000, 0xffff, w.TotalSlices(), 0},
		{"too many slices", 0, 1000, 0, w.TotalSlices() + 1, 0},
		{"all slices of 16 bits", 0, 1000, 0, 0xffff, 0},
		{"index of another slot", 0, 1001, 0, w.TotalSlices(), 0},
		{"undefined index", 0, mxl.UndefinedIndex, int(mxl.UndefinedIndex % uint64(depth)), w.TotalSlices(), int(mxl.UndefinedIndex % uint64(depth))},
		{"index going backwards", 1100, 1000, 0, w.TotalSlices(), 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := newRawPeer(t, "127.0.0.1", 8192+w.PayloadSize(), false)
			p.connect(target.Info())
			if c.first > 0 {
				sendGrain(p, target, w, c.first)
				p.completed(1, time.Second)
			}
			putGrainHeader(p.mem, w.Slot(0), c.index)
			p.write(target.Info().Regions[c.region], uint64(len(w.Slot(0))), uint32(newGrainImmediate(c.slot, c.slices)))
			for end := time.Now().Add(3 * time.Second); ; {
				if kind, _ := p.wait(100 * time.Millisecond); kind == ofi.EventShutdown || kind == ofi.EventError {
					break
				}
				if time.Now().After(end) {
					t.Fatalf("the connection stays; %+v", target.Stats())
				}
			}
			if st := target.Stats(); st.BadImmediates != uint64(i+1) || st.State != StateError {
				t.Errorf("%+v", st)
			}
			p.close()
			good := newRawPeer(t, "127.0.0.1", 8192+w.PayloadSize(), false)
			good.connect(target.Info())
			sendGrain(good, target, w, 2000+uint64(i))
			good.completed(1, time.Second)
			eventually(t, time.Second, func() string { return fmt.Sprintf("%+v", target.Stats()) }, func() bool {
				st := target.Stats()
				return st.Head == 2000+uint64(i) && st.State == StateActive
			})
			good.close()
			eventually(t, time.Second, func() string { return "disconnected" }, func() bool { return !target.Stats().Connected })
		})
	}
}

// Test22BadEntries: the same for audio.
func Test22BadEntries(t *testing.T) {
	f := newFlow(t, audioDef(2), 200*time.Millisecond, 200*time.Millisecond)
	target := openTarget(t, TargetConfig{Continuous: f.sampleWriter(t, f.mirror), FlowID: f.id})
	info := target.Info()
	for i, c := range []struct {
		name        string
		entry       uint32
		head, count uint64
	}{
		{"entry of none", uint32(info.Bounce.EntryCount), 1000, 10},
		{"highest immediate", 0xffffffff, 1000, 10},
		{"more than an entry holds", 0, 1000, 481},
		{"count of 64 bits", 0, 1000, ^uint64(0)},
		{"no samples", 0, 1000, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := newRawPeer(t, "127.0.0.1", int(info.Bounce.EntrySize), false)
			p.connect(info)
			putSampleHeader(p.mem, c.head, c.count)
			p.write(info.Regions[0], info.Bounce.EntrySize, c.entry)
			eventually(t, 2*time.Second, func() string { return fmt.Sprintf("%+v", target.Stats()) }, func() bool {
				st := target.Stats()
				return st.BadImmediates == uint64(i+1) && !st.Connected
			})
			p.close()
			good := newRawPeer(t, "127.0.0.1", int(info.Bounce.EntrySize), false)
			good.connect(info)
			putSampleHeader(good.mem, 480, 480) // the hint exactly (§13.11)
			good.write(info.Regions[0], info.Bounce.EntrySize, 0)
			good.completed(1, time.Second)
			good.close()
			eventually(t, time.Second, func() string { return fmt.Sprintf("%+v", target.Stats()) }, func() bool {
				st := target.Stats()
				return st.Samples == uint64(i+1)*480 && !st.Connected
			})
		})
	}
}

// Test27PortInUseAndFixed: a fixed port is listened on as told, the set-up query
// works while it is open, and a second target on it is a clear error (MXL Fabrics
// reference §13.27).
func Test27PortInUseAndFixed(t *testing.T) {
	target, _ := grainTarget(t)
	ap, err := target.Info().AddrPort()
	if err != nil {
		t.Fatal(err)
	}
	f := newFlow(t, dataDef, 200*time.Millisecond, 200*time.Millisecond)
	w := f.grainWriter(t, f.mirror)
	cfg := TargetConfig{Discrete: w, FlowID: f.id, Provider: TCP, Address: "127.0.0.1", Port: int(ap.Port())}
	if second, err := OpenTarget(cfg); err == nil {
		second.Close()
		t.Fatalf("two targets listen on %v", ap)
	} else {
		t.Log(err)
	}
	if err := target.Close(); err != nil {
		t.Fatal(err)
	}
	third, err := OpenTarget(cfg)
	if err != nil {
		t.Fatalf("the port is not free again: %v", err)
	}
	defer third.Close()
	if got, err := third.Info().AddrPort(); err != nil || got != ap {
		t.Errorf("listens on %v, %v; want %v", got, err, ap)
	}
}
