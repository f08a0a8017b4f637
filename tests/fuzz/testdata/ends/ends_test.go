// Package ends has one fuzz target for each way in which a run ends.
package ends

import (
	"testing"
	"time"
)

// kept is what the greedy target cannot let go of.
var kept [][]byte

func FuzzGood(f *testing.F) {
	f.Add("a")
	f.Fuzz(func(*testing.T, string) {})
}

func FuzzFound(f *testing.F) {
	f.Add("a")
	f.Fuzz(func(t *testing.T, s string) {
		if s != "a" {
			t.Fatalf("%q is not a", s)
		}
	})
}

func FuzzHung(f *testing.F) {
	f.Add("a")
	f.Fuzz(func(_ *testing.T, s string) {
		if s != "a" {
			time.Sleep(time.Hour)
		}
	})
}

func FuzzGreedy(f *testing.F) {
	f.Add("a")
	f.Fuzz(func(_ *testing.T, s string) {
		if s != "a" {
			for {
				b := make([]byte, 8<<20)
				for i := 0; i < len(b); i += 4096 {
					b[i] = 1
				}
				kept = append(kept, b)
			}
		}
	})
}
