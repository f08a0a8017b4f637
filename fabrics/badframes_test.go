package fabrics

import (
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"
)

// handshake is a message of the tcp provider's handshake (MXL Fabrics reference §10.2).
func handshake(kind byte, data []byte) []byte {
	b := make([]byte, 32, 32+len(data))
	b[0], b[1], b[24] = 3, kind, 1
	binary.BigEndian.PutUint16(b[2:], uint16(len(data)))
	return append(b, data...)
}

// badFrames would each end the process inside libfabric, or leave it reading for ever.
var badFrames = map[string][]byte{
	"an acknowledgement of nothing": ackFrame,
	"a tagged message":              {3, 1, 0x80, 0, 0, 0, 24, 0, 24, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0},
	"a message":                     {3, 0, 0, 0, 0, 0, 16, 0, 16, 0, 0, 0, 0, 0, 0, 0},
	"a read's answer":               {3, 3, 0, 0, 0, 0, 16, 0, 16, 0, 0, 0, 0, 0, 0, 0},
}

// TestBadFramesToATarget: whoever completes the handshake and then sends what no
// initiator may loses the connection; the process lives and the next one is served.
func TestBadFramesToATarget(t *testing.T) {
	target, w := grainTarget(t)
	ap, err := target.Info().AddrPort()
	if err != nil {
		t.Fatal(err)
	}
	count := uint64(0)
	for name, frame := range badFrames {
		c, err := net.DialTCP("tcp", nil, net.TCPAddrFromAddrPort(netip.AddrPortFrom(ap.Addr(), ap.Port())))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Write(handshake(0, nil)); err != nil {
			t.Fatal(err)
		}
		_ = c.SetReadDeadline(time.Now().Add(patience))
		if _, err := io.ReadFull(c, make([]byte, 32+signatureSecret)); err != nil {
			t.Fatalf("%s: answer: %v", name, err)
		}
		if _, err := c.Write(frame); err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(io.Discard, c); err != nil && !strings.Contains(err.Error(), "reset") {
			t.Errorf("%s: the connection goes on: %v", name, err)
		}
		c.Close()
		count++
		eventually(t, time.Second, func() string { return fmt.Sprintf("%s: %+v", name, target.Stats()) }, func() bool {
			st := target.Stats()
			return !st.Connected && st.Errors == count && strings.Contains(st.LastError, "the peer sent what is no write")
		})
	}
	p := newRawPeer(t, "127.0.0.1", 8192+w.PayloadSize(), false)
	p.connect(target.Info())
	sendGrain(p, target, w, 77)
	p.completed(1, 2*time.Second)
	eventually(t, time.Second, func() string { return fmt.Sprintf("%+v", target.Stats()) }, func() bool { return target.Stats().Head == 77 })
}

// TestBadFramesToASource: a listener that a TargetInfo names can do no more than lose
// its connection; another target of the lane is served all the time.
func TestBadFramesToASource(t *testing.T) {
	p := newPair(t, videoDef("video/v210", 192, 108, rate50), 200*time.Millisecond, 200*time.Millisecond)
	connect(t, p.source, "b", p.target)
	before := p.target.Stats().Connections
	for name, frame := range badFrames {
		listener, err := net.ListenTCP("tcp4", net.TCPAddrFromAddrPort(netip.MustParseAddrPort("127.0.0.1:0")))
		if err != nil {
			t.Fatal(err)
		}
		served := make(chan error, 1)
		go func() {
			served <- func() error {
				c, err := listener.Accept()
				if err != nil {
					return err
				}
				defer c.Close()
				if _, err := io.ReadFull(c, make([]byte, 32+signatureSecret)); err != nil {
					return err
				}
				if _, err := c.Write(handshake(1, nil)); err != nil {
					return err
				}
				if _, err := c.Write(frame); err != nil {
					return err
				}
				_ = c.SetReadDeadline(time.Now().Add(patience))
				if _, err := io.Copy(io.Discard, c); err != nil && !strings.Contains(err.Error(), "reset") {
					return err
				}
				return nil
			}()
		}()
		rogue := p.target.Info()
		rogue.AddressFormat, rogue.Address = encodeSockaddr(listener.Addr().(*net.TCPAddr).AddrPort())
		if err := p.source.SetTarget("rogue", rogue); err != nil {
			t.Fatal(err)
		}
		if err := <-served; err != nil {
			t.Errorf("%s: %v", name, err)
		}
		eventually(t, time.Second, func() string { return fmt.Sprintf("%s: %+v", name, targetOf(p.source, "rogue")) }, func() bool {
			st := targetOf(p.source, "rogue")
			return st.State == StateError && strings.Contains(st.LastError, "the peer sent ")
		})
		listener.Close()
		p.source.RemoveTarget("rogue")
	}
	writeGrain(t, p.w, 4242, 0, p.w.TotalSlices())
	p.arrives(t, 4242, p.w.TotalSlices())
	if st := p.target.Stats(); st.Connections != before || st.Errors != 0 {
		t.Errorf("%+v", st)
	}
}
