//go:build race

package fabrics

const raceEnabled = true
