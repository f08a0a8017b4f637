package measured

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// CPUTime is the agent's user and system time.
func (a *Agent) CPUTime() (time.Duration, error) { return processTime(a.command.Process.Pid) }

// OwnTimes is that of the agent and of this program.
func (a *Agent) OwnTimes() (time.Duration, error) {
	agent, err := a.CPUTime()
	if err != nil {
		return 0, err
	}
	own, err := processTime(os.Getpid())
	return agent + own, err
}

func processTime(pid int) (time.Duration, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	// The name in parentheses may hold blanks; utime and stime are the 12th and
	// 13th field after it, in ticks of 10 ms (proc(5)).
	_, rest, _ := strings.Cut(string(text), ") ")
	fields := strings.Fields(rest)
	if len(fields) < 13 {
		return 0, fmt.Errorf("unexpected stat line %q", text)
	}
	var ticks int64
	for _, f := range fields[11:13] {
		n, err := strconv.ParseInt(f, 10, 64)
		if err != nil {
			return 0, err
		}
		ticks += n
	}
	return time.Duration(ticks) * 10 * time.Millisecond, nil
}

// ProcessorTimes are seconds that all processors together were busy, and had.
type ProcessorTimes struct{ Busy, All float64 }

// MachineTimes are those since the start of the machine.
func MachineTimes() (t ProcessorTimes, err error) {
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		return t, err
	}
	line, _, _ := strings.Cut(string(text), "\n")
	for i, field := range strings.Fields(strings.TrimPrefix(line, "cpu ")) {
		ticks, err := strconv.ParseFloat(field, 64)
		if err != nil {
			return t, err
		}
		if i > 7 {
			break // guest time is part of user time
		}
		t.All += ticks / 100
		if i != 3 && i != 4 { // idle and waiting for I/O
			t.Busy += ticks / 100
		}
	}
	return t, nil
}

// ResidentMiB is the resident memory but for the shared memory: the mapped flows.
func (a *Agent) ResidentMiB() (float64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", a.command.Process.Pid))
	if err != nil {
		return 0, err
	}
	kib := 0.0
	for line := range strings.Lines(string(text)) {
		for _, name := range []string{"RssAnon:", "RssFile:"} {
			if value, ok := strings.CutPrefix(line, name); ok {
				n, err := strconv.ParseFloat(strings.Fields(value)[0], 64)
				if err != nil {
					return 0, err
				}
				kib += n
			}
		}
	}
	return kib / 1024, nil
}
