//go:build !race

package fabrics

const raceEnabled = false
