package studio

import (
	"testing"
	"time"
)

func TestPressureOf(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"some avg10=98.66 avg60=98.87 avg300=98.16 total=8870835081\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=7\n": 8870835081 * time.Microsecond,
		"full avg10=0.00 total=7\n": 0,
		"some total=x":              0,
		"":                          0,
	} {
		if got := pressureOf(text); got != want {
			t.Errorf("%q: %v, want %v", text, got, want)
		}
	}
}
