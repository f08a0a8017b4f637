//go:build !race

package mirrors

var raceFlags []string
