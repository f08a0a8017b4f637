package main

import (
	"strings"
	"testing"
	"time"
)

func TestVerdict(t *testing.T) {
	good := outcome{Restarts: 2, Versions: 2, Inodes: 1, VerifiedGrains: 9, VerifiedSamples: 9, RecoveryWorstMS: 1500}
	for name, tc := range map[string]struct {
		change func(*outcome)
		want   string // part of the error, empty: none
	}{
		"good":               {func(*outcome) {}, ""},
		"another file":       {func(o *outcome) { o.Inodes = 2 }, "2 inodes"},
		"bad grain":          {func(o *outcome) { o.BadGrains, o.FirstBad = 1, "index 7" }, "index 7"},
		"head fell":          {func(o *outcome) { o.HeadWentBack = 1 }, "head went back"},
		"no video":           {func(o *outcome) { o.VerifiedGrains = 0 }, "0 grains"},
		"no audio":           {func(o *outcome) { o.VerifiedSamples = 0 }, "0 samples"},
		"the upgrade failed": {func(o *outcome) { o.Versions = 1 }, "one build"},
		"slow":               {func(o *outcome) { o.RecoveryWorstMS = 1501 }, "1501 ms"},
	} {
		o := good
		tc.change(&o)
		err := o.verdict()
		if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestRecovery(t *testing.T) {
	var o outcome
	o.recovery([]time.Duration{9 * time.Millisecond, time.Millisecond, 5 * time.Millisecond})
	if o.RecoveryP50MS != 5 || o.RecoveryWorstMS != 9 {
		t.Errorf("%+v", o)
	}
}
