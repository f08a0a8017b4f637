package fabrics

import (
	"bytes"
	"net/netip"
	"testing"
)

// FuzzSignature: connection data of a stranger is read as what it says and no more,
// and admits nobody who does not know the secret.
func FuzzSignature(f *testing.F) {
	f.Add(signature{receives: 64, instance: 7}.bytes(), false)
	f.Add(signature{receives: 64, instance: 7}.bytes()[:signatureLen], true)
	f.Add([]byte{}, true)
	f.Add([]byte("MXFA"), true)
	known := secret{1, 2, 3}
	f.Add(signature{secret: known}.bytes(), true)
	f.Add(signature{secret: known, rounds: true}.bytes(), true)
	f.Fuzz(func(t *testing.T, data []byte, secretOnly bool) {
		s, ok := readSignature(data)
		if !ok && s != (signature{}) {
			t.Fatalf("%+v of data without a signature", s)
		}
		if ok {
			if again, ok := readSignature(s.bytes()); !ok || again != s {
				t.Fatalf("%+v reads back as %+v, %v", s, again, ok)
			}
			if n := min(len(data), signatureSecret); !bytes.Equal(s.bytes()[:signatureLen], data[:signatureLen]) || n == signatureSecret && !bytes.Equal(s.bytes()[:n], data[:n]) {
				t.Fatalf("%x is written as %x", data, s.bytes())
			}
		}
		a := admission{secret: known, secretOnly: secretOnly, peers: []netip.Addr{netip.MustParseAddr("192.0.2.1")}}
		has := len(data) >= signatureSecret && bytes.Equal(data[signatureLen:signatureSecret], known[:])
		for _, from := range []string{"192.0.2.1", "192.0.2.2", "::ffff:192.0.2.1"} {
			why := a.refusal(netip.MustParseAddr(from), s.secret)
			if why == "" && !has && (secretOnly || from == "192.0.2.2" || s.secret.given()) {
				t.Fatalf("%s with %x is admitted", from, data)
			}
			if why != "" && ok && has {
				t.Fatalf("%s with the secret is refused: %s", from, why)
			}
		}
	})
}
