//go:build race

package mirrors

// raceFlags builds the programs with the race detector when the tests have it.
var raceFlags = []string{"-race"}
