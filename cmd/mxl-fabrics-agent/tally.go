package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// tally is "3 active, 1 pending"; "none" for nothing.
func tally(counts map[string]int) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		parts = append(parts, fmt.Sprintf("%d %s", counts[name], name))
	}
	if len(parts) == 0 {
		return "none"
	}
	return strings.Join(parts, ", ")
}
