package mirror

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestParseMapsLine(t *testing.T) {
	dev := func(major, minor uint32) uint64 { return unix.Mkdev(major, minor) }
	cases := []struct {
		line string
		want FileID
		ok   bool
	}{
		{"7f1c2a000000-7f1c2a001000 r--s 00000000 00:1a 4711 /dev/shm/mirror/data", FileID{dev(0, 0x1a), 4711}, true},
		{"55d0c0a00000-55d0c0a22000 r-xp 00002000 fd:01 1311 /usr/bin/a b c", FileID{dev(0xfd, 1), 1311}, true},
		{"7ffd0000-7ffe0000 rw-p 00000000 00:00 0          [stack]", FileID{}, true},
		{"7ffd0000-7ffe0000 rw-p 00000000 00:00 0", FileID{}, true},
		{"1-2 rw-s 0 103:12345 18446744073709551615 /x", FileID{dev(0x103, 0x12345), 1<<64 - 1}, true},
		{"7f-80 r--s 00000000 00:1a 4711 /mnt/gone (deleted)", FileID{dev(0, 0x1a), 4711}, true},
		{"1-2 rw-s 0 00:1a 18446744073709551616 /x", FileID{}, false},
		{"1-2 rw-s 0 00:1a 47a1 /x", FileID{}, false},
		{"1-2 rw-s 0 00:1a  /x", FileID{}, false},
		{"1-2 rw-s 0 00 4711 /x", FileID{}, false},
		{"1-2 rw-s 0 100000000:1 1 /x", FileID{}, false},
		{"1-2 rw-s 0 ", FileID{}, false},
		{"1-2 rw-s", FileID{}, false},
		{"", FileID{}, false},
	}
	for _, c := range cases {
		got, ok := parseMapsLine([]byte(c.line))
		if got != c.want || ok != c.ok {
			t.Errorf("%q: %+v %v, want %+v %v", c.line, got, ok, c.want, c.ok)
		}
	}
}

// feedAll parses a text in pieces of n bytes.
func feedAll(text []byte, n int) (ids []FileID, bad int) {
	var p mapsParser
	found := func(id FileID) { ids = append(ids, id) }
	for len(text) > 0 {
		piece := min(n, len(text))
		p.feed(text[:piece], found)
		text = text[piece:]
	}
	return ids, p.end(found)
}

func TestMapsInPieces(t *testing.T) {
	var b bytes.Buffer
	for i := range 200 {
		fmt.Fprintf(&b, "7f%010x-7f%010x r--s 00000000 00:1a %d /dev/shm/%s\n", i<<12, (i+1)<<12, i+1, strings.Repeat("x", i*7))
	}
	want, bad := feedAll(b.Bytes(), b.Len())
	if len(want) != 200 || bad != 0 {
		t.Fatalf("%d files, %d bad lines", len(want), bad)
	}
	for n := 1; n < 300; n++ {
		if got, bad := feedAll(b.Bytes(), n); !slices.Equal(got, want) || bad != 0 {
			t.Fatalf("pieces of %d bytes: %d files, %d bad", n, len(got), bad)
		}
	}
}

func TestMapsParserAllocatesNothing(t *testing.T) {
	text := []byte(strings.Repeat("7f1c2a000000-7f1c2a001000 r--s 00000000 00:1a 4711 /dev/shm/mirror/data\n", 100))
	var p mapsParser
	n := 0
	found := func(FileID) { n++ }
	if a := testing.AllocsPerRun(100, func() { p.feed(text, found); p.end(found) }); a != 0 {
		t.Errorf("%v allocations", a)
	}
}

func TestDeviceNumberIsThatOfStat(t *testing.T) {
	for _, d := range [][2]uint32{{0, 0}, {0, 0x1a}, {8, 1}, {0xfd, 0x12345}, {0xfffff, 0xfffff}, {0x1000, 0x100}} {
		if got, want := deviceNumber(d[0], d[1]), unix.Mkdev(d[0], d[1]); got != want {
			t.Errorf("%x:%x is %x, want %x", d[0], d[1], got, want)
		}
	}
}

func FuzzMaps(f *testing.F) {
	own, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(own, 7)
	f.Add([]byte("1-2 rw-s 0 00:1a 4711 /x\n1-2 rw-s 0 00:1a 47"), 3)
	f.Add([]byte("\n\n \n- - - : \n"), 1)
	f.Fuzz(func(t *testing.T, text []byte, piece int) {
		if piece < 1 || piece > 1<<16 {
			piece = 1 << 16
		}
		whole, bad := feedAll(text, len(text)+1)
		for _, id := range whole {
			if id.Ino == 0 {
				t.Fatal("memory without a file was reported")
			}
		}
		// A line that is cut by the bound loses nothing but its path, unless it
		// is no maps line at all.
		for line := range bytes.SplitSeq(text, []byte("\n")) {
			if len(line) > longestMapsLine {
				return
			}
		}
		pieces, badPieces := feedAll(text, piece)
		if !slices.Equal(whole, pieces) || bad != badPieces {
			t.Fatalf("whole: %v, %d bad; in pieces of %d: %v, %d bad", whole, bad, piece, pieces, badPieces)
		}
	})
}

func FuzzMarker(f *testing.F) {
	ours, err := definition(testDomain, testSource, testHost)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(ours)
	f.Add([]byte(`{"id":"x","x-mxl-fabrics-agent":{"mirror":true}}`))
	f.Add([]byte(`{"id":"x","x-mxl-fabrics-agent":null}`))
	f.Add([]byte(`{"id":1,"x-mxl-fabrics-agent":[]}`))
	f.Add([]byte(`[]`))
	f.Fuzz(func(t *testing.T, text []byte) {
		m, err := parseMarker(text)
		if err != nil {
			return
		}
		if m.claim("/x", testDomain, testHost) == nil && (m.DomainID != testDomain || m.OwnerHost != testHost || !m.Mirror) {
			t.Fatalf("claimed: %+v", m)
		}
		if CheckDomainID(m.DomainID) == nil && bytes.ContainsRune([]byte(domainDir(m.DomainID)), '/') {
			t.Fatalf("%q leaves the root", m.DomainID)
		}
	})
}

func FuzzFlowDirectory(f *testing.F) {
	f.Add(flowDir(origin("data", 1).FlowID))
	f.Add("..mxl-flow")
	f.Add("00000000-0000-4000-8000-00000000000A.mxl-flow")
	f.Fuzz(func(t *testing.T, name string) {
		if id, ok := parseFlowDir(name); ok && flowDir(id) != name {
			t.Fatalf("%q is taken for %q", name, flowDir(id))
		}
	})
}

func FuzzOptions(f *testing.F) {
	f.Add([]byte(`{"urn:x-mxl:option:history_duration/v1.0": 200000000}`))
	f.Add([]byte(`{"urn:x-mxl:option:history_duration/v1.0": 1e300}`))
	f.Add([]byte(`{"urn:x-mxl:option:history_duration/v1.0": -1}`))
	f.Add([]byte(`{"urn:x-mxl:option:history_duration/v1.0": "1"}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		o := origin("video", 1)
		o.Options = text
		if need, err := o.NeedBytes(); err != nil || need > absurdBytes {
			t.Fatalf("%d, %v", need, err)
		}
	})
}
