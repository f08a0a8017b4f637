package main

import (
	"fmt"
	"slices"
	"time"

	"github.com/mxl-stack/mxl-fabrics-agent/tests/mesh"
)

const resultFile = "build/results/restart.json"

// recoveryLimit is from the start of the agent's process to the next grain that
// a reader of the mirror can read.
const recoveryLimit = 1500 * time.Millisecond

// outcome is build/results/restart.json.
type outcome struct {
	Restarts        int     `json:"restarts"`
	SIGKILLs        int     `json:"sigkills"`
	SIGTERMs        int     `json:"sigterms"`
	DuringStart     int     `json:"ended_during_start"` // of Restarts: ended before grains came
	Versions        int     `json:"versions"`           // different builds that took part
	Inodes          int     `json:"inodes"`             // of the flow that had most
	VerifiedGrains  uint64  `json:"verified_grains"`
	VerifiedSamples uint64  `json:"verified_samples"`
	BadGrains       uint64  `json:"bad_grains"`
	HeadWentBack    uint64  `json:"head_went_back"`
	RecoveryP50MS   float64 `json:"recovery_p50_ms"`
	RecoveryWorstMS float64 `json:"recovery_worst_ms"`
	FirstBad        string  `json:"first_bad,omitempty"`
}

// recovery fills in the times; there is at least one.
func (o *outcome) recovery(times []time.Duration) {
	sorted := slices.Sorted(slices.Values(times))
	o.RecoveryP50MS = ms(sorted[len(sorted)/2])
	o.RecoveryWorstMS = ms(sorted[len(sorted)-1])
}

// verdict is nil when everything is as it should be.
func (o *outcome) verdict() error {
	switch {
	case o.Inodes != 1:
		return fmt.Errorf("the mirror had %d inodes", o.Inodes)
	case o.BadGrains > 0:
		return fmt.Errorf("%d bad grains, first: %s", o.BadGrains, o.FirstBad)
	case o.HeadWentBack > 0:
		return fmt.Errorf("the head went back %d times", o.HeadWentBack)
	case o.VerifiedGrains == 0 || o.VerifiedSamples == 0:
		return fmt.Errorf("%d grains and %d samples verified", o.VerifiedGrains, o.VerifiedSamples)
	case o.Versions < 2:
		return fmt.Errorf("only one build of the agent was seen")
	case o.RecoveryWorstMS > ms(recoveryLimit):
		return fmt.Errorf("grains came only %.0f ms after a start, the limit is %.0f", o.RecoveryWorstMS, ms(recoveryLimit))
	}
	return nil
}

// write leaves the outcome in build/results.
func (o *outcome) write() error {
	_, err := mesh.Report(resultFile, o)
	return err
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
