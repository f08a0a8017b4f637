package fabrics

import (
	"encoding/json"
	"errors"
	"net/netip"
	"os"
	"strings"
	"testing"
)

const fixtures = "../tests/fixtures/mxl/"

// referenceExample is the constructed example of MXL Fabrics reference §2.
const referenceExample = `{"addressFormat":2,
 "fabricAddress":"AgASt8AAAgoAAAAAAAAAAA==",
 "id":"11400714819323198485",
 "provider":"tcp",
 "regions":[{"addr":"0","len":"5537792","rkey":"9817364512033417211"},
            {"addr":"0","len":"5537792","rkey":"1202231190477135204"}]}`

// Test01ReferenceExample: parses, is the same when written and read again, and takes
// an escaped slash (MXL Fabrics reference §13.1).
func Test01ReferenceExample(t *testing.T) {
	info, err := ParseTargetInfo(referenceExample)
	if err != nil {
		t.Fatal(err)
	}
	ap, err := info.AddrPort()
	if err != nil || ap != netip.MustParseAddrPort("192.0.2.10:4791") {
		t.Errorf("address %v, %v", ap, err)
	}
	if len(info.Regions) != 2 || info.Regions[1].Len != 5537792 {
		t.Errorf("regions %+v", info.Regions)
	}
	again, err := ParseTargetInfo(info.String())
	if err != nil || again.String() != info.String() {
		t.Errorf("reads back as %v, %v", again, err)
	}
	slash := TargetInfo{AddressFormat: 2, Address: []byte{0xff, 0xff, 0xff}, Provider: "tcp"}
	if text := slash.String(); !strings.Contains(text, `"\/\/\/\/"`) {
		t.Errorf("slashes are not escaped: %s", text)
	}
	for _, text := range []string{slash.String(), strings.ReplaceAll(slash.String(), `\/`, "/")} {
		if back, err := ParseTargetInfo(text); err != nil || string(back.Address) != "\xff\xff\xff" {
			t.Errorf("%s: %x, %v", text, back.Address, err)
		}
	}
}

// Test02NumbersOf64Bits survive (MXL Fabrics reference §13.2).
func Test02NumbersOf64Bits(t *testing.T) {
	const big = 1<<64 - 1
	in := TargetInfo{
		AddressFormat: 2, Address: []byte{1}, ID: big, Provider: "verbs",
		Regions: []Region{{big, big - 1, 1<<53 + 1}},
		Bounce:  &Bounce{big, 1<<63 + 1},
	}
	out, err := ParseTargetInfo(in.String())
	if err != nil {
		t.Fatal(err)
	}
	if out.ID != in.ID || out.Regions[0] != in.Regions[0] || *out.Bounce != *in.Bounce {
		t.Errorf("%+v became %+v", in, out)
	}
}

// Test03BadFieldsAreNamed (MXL Fabrics reference §13.3).
func Test03BadFieldsAreNamed(t *testing.T) {
	for field, change := range map[string][2]string{
		"addressFormat":               {`"addressFormat":2,`, ``},
		"fabricAddress":               {`"AgASt8AAAgoAAAAAAAAAAA=="`, `"AgASt8AAAgoAAAAAAAAAAA"`},
		"id":                          {`"11400714819323198485"`, `12345`},
		"provider":                    {`"tcp"`, `7`},
		"regions":                     {`"regions"`, `"region"`},
		"regions[1].len":              {`"len":"5537792","rkey":"1202`, `"len":5537792,"rkey":"1202`},
		"regions[0].addr":             {`[{"addr":"0"`, `[{"addr":"-1"`},
		"regions[0].rkey":             {`"9817364512033417211"`, `"98173645120334172110"`},
		"bounceBufferInfo.entryCount": {`"addressFormat"`, `"bounceBufferInfo":{"entrySize":"1"},"addressFormat"`},
		"bounceBufferInfo.entrySize":  {`"addressFormat"`, `"bounceBufferInfo":{"entryCount":"1","entrySize":3856},"addressFormat"`},
		"bounceBufferInfo":            {`"addressFormat"`, `"bounceBufferInfo":[],"addressFormat"`},
	} {
		text := strings.Replace(referenceExample, change[0], change[1], 1)
		_, err := ParseTargetInfo(text)
		var fe *FieldError
		if !errors.As(err, &fe) || fe.Field != field || !strings.Contains(err.Error(), field) {
			t.Errorf("%s: %v", field, err)
		}
	}
	for _, text := range []string{"", "hello", "[]", "null", `"a"`, referenceExample[:100]} {
		if _, err := ParseTargetInfo(text); err == nil || !strings.Contains(err.Error(), "not a JSON object") {
			t.Errorf("%q: %v", text, err)
		}
	}
	extra := strings.Replace(referenceExample, "{", `{"zz":{"a":[1]},`, 1)
	if _, err := ParseTargetInfo(extra); err != nil {
		t.Errorf("unknown keys: %v", err)
	}
}

// Test04Addresses (MXL Fabrics reference §13.4).
func Test04Addresses(t *testing.T) {
	format, raw := encodeSockaddr(netip.MustParseAddrPort("127.0.0.1:5000"))
	text := TargetInfo{AddressFormat: format, Address: raw}.String()
	if format != 2 || !strings.Contains(text, `"AgATiH8AAAEAAAAAAAAAAA=="`) {
		t.Errorf("%s", text)
	}
	for _, s := range []string{"[::1]:65535", "[2001:db8::5]:1", "10.1.2.3:80"} {
		ap := netip.MustParseAddrPort(s)
		format, raw := encodeSockaddr(ap)
		if ap.Addr().Is6() && (format != 3 || len(raw) != 28) {
			t.Errorf("%v: format %d, %d bytes", ap, format, len(raw))
		}
		if back, err := decodeSockaddr(raw); err != nil || back != ap {
			t.Errorf("%v became %v, %v", ap, back, err)
		}
	}
	for _, raw := range [][]byte{nil, {2}, {2, 0}, make([]byte, 16), append([]byte{2, 0}, make([]byte, 26)...), {10, 0, 1, 1}} {
		if ap, err := decodeSockaddr(raw); err == nil {
			t.Errorf("%x is taken for %v", raw, ap)
		}
	}
}

// TestTargetInfoFixtures: what the SDK wrote is read and written alike.
func TestTargetInfoFixtures(t *testing.T) {
	for name, want := range map[string]string{
		"targetinfo-audio-tcp.json":       "127.0.0.1:12345",
		"targetinfo-video-tcp.json":       "127.0.0.1:12345",
		"targetinfo-video-v210a-tcp.json": "127.0.0.1:12345",
		"targetinfo-video-tcp-ipv6.json":  "[::1]:12399",
	} {
		text, err := os.ReadFile(fixtures + name)
		if err != nil {
			t.Fatal(err)
		}
		info, err := ParseTargetInfo(string(text))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if got := info.String(); got != strings.TrimSpace(string(text)) {
			t.Errorf("%s is written as\n%s", name, got)
		}
		if ap, err := info.AddrPort(); err != nil || ap.String() != want {
			t.Errorf("%s: address %v, %v; want %s", name, ap, err, want)
		}
		if info.Native != 0 {
			t.Errorf("%s is taken for a target of this package", name)
		}
	}
}

// TestTargetInfoCases: what the SDK refuses is refused, what it takes is taken and
// written as the SDK does. Three slips of its number parser are refused too.
func TestTargetInfoCases(t *testing.T) {
	stricter := map[string]bool{"id negative": true, "id trailing garbage": true, "trailing garbage": true}
	raw, err := os.ReadFile(fixtures + "targetinfo-cases.json")
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Cases []struct{ Case, Input, Status, Reserialised string }
	}
	if err := json.Unmarshal(raw, &file); err != nil {
		t.Fatal(err)
	}
	if len(file.Cases) < 40 {
		t.Fatalf("%d cases", len(file.Cases))
	}
	for _, c := range file.Cases {
		info, err := ParseTargetInfo(c.Input)
		switch {
		case c.Status != "MXL_STATUS_OK" || stricter[c.Case]:
			if err == nil {
				t.Errorf("%s is taken: %+v", c.Case, info)
			}
		case err != nil:
			t.Errorf("%s: %v", c.Case, err)
		case info.String() != c.Reserialised:
			t.Errorf("%s is written as\n%s\nwant\n%s", c.Case, info, c.Reserialised)
		}
	}
}

// TestNativeKeyIsOurs: it survives, and nonsense in it means a foreign target.
func TestNativeKeyIsOurs(t *testing.T) {
	in := TargetInfo{AddressFormat: 2, Address: []byte{1}, Provider: "tcp", Native: 64}
	if out, err := ParseTargetInfo(in.String()); err != nil || out.Native != 64 {
		t.Errorf("%+v, %v", out, err)
	}
	for _, value := range []string{`1`, `{"receives":-1}`, `{"receives":"64"}`, `null`, `{}`} {
		text := strings.Replace(in.String(), `{"receives":64}`, value, 1)
		if out, err := ParseTargetInfo(text); err != nil || out.Native != 0 {
			t.Errorf("%s: %+v, %v", value, out, err)
		}
	}
}

func FuzzParseTargetInfo(f *testing.F) {
	f.Add(referenceExample)
	for _, name := range []string{"targetinfo-audio-tcp.json", "targetinfo-video-tcp-ipv6.json"} {
		text, err := os.ReadFile(fixtures + name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(text))
	}
	f.Fuzz(func(t *testing.T, text string) {
		info, err := ParseTargetInfo(text)
		if err != nil {
			if err.Error() == "" {
				t.Error("an error without a word")
			}
			return
		}
		_, _ = info.AddrPort()
		again, err := ParseTargetInfo(info.String())
		if err != nil || again.String() != info.String() {
			t.Errorf("%q reads back as %q, %v", info, again, err)
		}
	})
}
