package ofi

import (
	"encoding/binary"
	"testing"
)

// hello is a handshake message with n bytes of connection data.
func hello(n int) []byte {
	b := make([]byte, 32+n)
	b[0], b[1], b[24] = 3, 1, 1
	binary.BigEndian.PutUint16(b[2:], uint16(n))
	return b
}

// frame is the header of a frame with room for what its size says.
func frame(op byte, flags uint16, data, regions, header byte, size uint64) []byte {
	b := make([]byte, max(16, int(header)))
	b[0], b[1], b[4], b[5], b[6] = 3, op, data, regions, header
	binary.LittleEndian.PutUint16(b[2:], flags)
	binary.LittleEndian.PutUint64(b[8:], size)
	return b
}

// write is a whole write of n bytes, with an immediate or without.
func write(n uint64, immediate bool) []byte {
	header, flags := byte(40), uint16(4)
	if immediate {
		header, flags = 48, 5
	}
	b := frame(4, flags, 0, 1, header, uint64(header)+n)
	binary.LittleEndian.PutUint64(b[header-16:], n)
	return append(b, make([]byte, n)...)
}

func ack() []byte { return frame(0, 0, 2, 0, 16, 16) }

func joined(parts ...[]byte) (b []byte) {
	for _, p := range parts {
		b = append(b, p...)
	}
	return b
}

func with(b []byte, change func([]byte)) []byte {
	change(b)
	return b
}

// TestFramesOfAnInitiator: what may arrive at a target, in one piece and byte by byte.
func TestFramesOfAnInitiator(t *testing.T) {
	for name, c := range map[string]struct {
		frames []byte
		fault  string
	}{
		"writes":                        {joined(write(5000, true), write(0, true), write(17, false), write(1, true)), ""},
		"an acknowledgement":            {joined(write(10, true), ack()), "what is no write"},
		"a message":                     {frame(0, 0, 0, 0, 16, 16), "what is no write"},
		"a tagged message":              {frame(1, 0x80, 0, 0, 24, 24), "what is no write"},
		"a read":                        {frame(2, 0, 0, 1, 40, 40), "what is no write"},
		"a read's answer":               {frame(3, 0, 0, 0, 16, 16), "what is no write"},
		"of no region":                  {frame(4, 4, 0, 0, 16, 16), "a write into other than one region"},
		"of many regions":               {frame(4, 4, 0, 255, 40, 40), "a write into other than one region"},
		"of a commit":                   {frame(4, 8, 0, 1, 40, 40), "a write with unknown flags"},
		"of a short header":             {frame(4, 4, 0, 1, 3, 40), "a write of impossible size"},
		"of a header without its data":  {frame(4, 5, 0, 1, 40, 40), "a write of impossible size"},
		"smaller than its header":       {frame(4, 4, 0, 1, 40, 39), "a write of impossible size"},
		"of less than its region":       {with(write(10, true), func(b []byte) { b[32]++ }), "a write whose region is not its payload"},
		"of more than its region":       {with(write(10, true), func(b []byte) { b[32]-- }), "a write whose region is not its payload"},
		"into the end of addresses":     {with(write(10, true), func(b []byte) { binary.LittleEndian.PutUint64(b[24:], 1<<64-5) }), "a write whose region is not its payload"},
		"of another version":            {with(write(10, true), func(b []byte) { b[0] = 4 }), "frames of another version"},
		"nothing but part of a header ": {write(10, true)[:20], ""},
	} {
		for _, step := range []int{1, 7, 1 << 20} {
			f := newFrameCheck(false)
			got := ""
			for rest := joined(hello(30), c.frames); len(rest) > 0 && got == ""; {
				n := min(step, len(rest))
				got = f.received(rest[:n])
				rest = rest[n:]
			}
			if got != c.fault {
				t.Errorf("%s, %d bytes at a time: %q, want %q", name, step, got, c.fault)
			}
			f.close()
		}
	}
}

// TestFramesOfATarget: only acknowledgements, and no more than there are whole writes.
func TestFramesOfATarget(t *testing.T) {
	f := newFrameCheck(true)
	defer f.close()
	f.sent(hello(30))
	if got := f.received(hello(1)); got != "" {
		t.Fatal(got)
	}
	for _, w := range [][]byte{write(100, true), write(0, true)} {
		f.sent(w[:len(w)-1])
		f.sent(w[len(w)-1:])
		if got := f.received(ack()); got != "" {
			t.Fatal(got)
		}
	}
	f.sent(joined(write(3, true), write(4, false), write(0, true)))
	if got := f.received(joined(ack(), ack(), ack())); got != "" {
		t.Fatal(got)
	}
	f.sent(write(100, true)[:100])
	if got := f.received(ack()); got != "an acknowledgement of nothing" {
		t.Errorf("before the write was sent whole: %q", got)
	}
	for name, bad := range map[string][]byte{"write": write(1, true), "message": frame(0, 0, 0, 0, 16, 16), "tagged": frame(1, 0, 0, 0, 24, 24), "read": frame(2, 0, 0, 1, 40, 40), "long": frame(0, 0, 2, 0, 16, 17)} {
		g := newFrameCheck(true)
		g.sent(joined(hello(0), write(10, true)))
		g.received(hello(0))
		if got := g.received(bad); got != "what is no acknowledgement" {
			t.Errorf("%s: %q", name, got)
		}
		g.close()
	}
}

func TestFramesAfterTheHandshake(t *testing.T) {
	long, swapped := hello(257), hello(0)
	swapped[24], swapped[31] = 0, 1
	for want, stream := range map[string][]byte{"too much connection data": long, "frames of another byte order": joined(swapped, write(1, true))} {
		f := newFrameCheck(false)
		if got := f.received(stream); got != want {
			t.Errorf("%q, want %q", got, want)
		}
		f.close()
	}
}

// FuzzFrames: the verdict does not depend on how the stream is cut, and a stream that
// was ended stays so.
func FuzzFrames(f *testing.F) {
	f.Add(joined(hello(3), write(20, true), ack()), uint8(5), false)
	f.Add(joined(hello(0), ack()), uint8(1), true)
	f.Add(joined(hello(257), write(1, false)), uint8(30), false)
	f.Fuzz(func(t *testing.T, stream []byte, step uint8, active bool) {
		whole, cut := newFrameCheck(active), newFrameCheck(active)
		defer whole.close()
		defer cut.close()
		sent := joined(hello(0), write(9, true), write(0, false))
		whole.sent(sent)
		for i := range sent {
			cut.sent(sent[i : i+1])
		}
		want := whole.received(stream)
		got := ""
		for rest := stream; len(rest) > 0; {
			n := min(int(step)+1, len(rest))
			got = cut.received(rest[:n])
			rest = rest[n:]
		}
		if got != want {
			t.Errorf("%q in one piece, %q in pieces of %d", want, got, int(step)+1)
		}
		if want != "" && whole.received(write(1, true)) != want {
			t.Error("it goes on after a fault")
		}
	})
}

func TestFramesChecked(t *testing.T) {
	if !FramesChecked() {
		t.Error("libfabric does not receive through this package")
	}
}
