package config

import (
	"slices"
	"strings"
)

// List is a comma list. Blanks, tabs and line ends are dropped wherever they
// stand, and so are empty items.
type List []string

// Has reports whether the list holds item.
func (l List) Has(item string) bool { return slices.Contains(l, item) }

// UnmarshalText implements encoding.TextUnmarshaler.
func (l *List) UnmarshalText(text []byte) error {
	bare := strings.Map(func(r rune) rune {
		switch r {
		case ' ', '\t', '\n', '\r':
			return -1
		}
		return r
	}, string(text))
	*l = nil
	for item := range strings.SplitSeq(bare, ",") {
		if item != "" {
			*l = append(*l, item)
		}
	}
	return nil
}
