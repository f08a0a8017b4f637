package studio

import (
	"os"
	"strconv"
	"strings"
	"time"
)

// Pressure is for how long so far some program of this machine waited for a
// processor (the kernel's Documentation/accounting/psi.rst, "some"); 0 where the
// kernel does not tell. What a test measures while everybody waits is the machine's.
func Pressure() time.Duration {
	text, err := os.ReadFile("/proc/pressure/cpu")
	if err != nil {
		return 0
	}
	return pressureOf(string(text))
}

func pressureOf(text string) time.Duration {
	line, _, _ := strings.Cut(text, "\n")
	_, total, _ := strings.Cut(line, "total=")
	microseconds, err := strconv.ParseInt(total, 10, 64)
	if err != nil || !strings.HasPrefix(line, "some ") {
		return 0
	}
	return time.Duration(microseconds) * time.Microsecond
}
