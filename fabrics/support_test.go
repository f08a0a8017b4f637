package fabrics

import (
	"errors"
	"strings"
)

func countLines(text, part string) (n int) {
	for line := range strings.Lines(text) {
		if strings.Contains(line, part) {
			n++
		}
	}
	return n
}

func asFieldError(err error, target **FieldError) bool { return errors.As(err, target) }
