package mesh

import (
	"bytes"
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// Usage is what a running process holds and has used, from /proc (proc(5)).
type Usage struct {
	CPUSeconds  float64 // user and system, all threads
	RSSMiB      float64
	Threads     int
	Descriptors int
}

// Usage reads the process's resources.
func (p *Process) Usage() (u Usage, err error) {
	dir := fmt.Sprintf("/proc/%d/", p.PID())
	stat, err := os.ReadFile(dir + "stat")
	if err != nil {
		return u, err
	}
	// The name may hold anything; what follows its last parenthesis are numbers.
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	if len(fields) < 22 {
		return u, fmt.Errorf("%sstat: %d fields", dir, len(fields))
	}
	number := func(place int) float64 {
		v, failed := strconv.ParseFloat(string(fields[place-3]), 64)
		if failed != nil && err == nil {
			err = fmt.Errorf("%sstat: field %d: %w", dir, place, failed)
		}
		return v
	}
	const userHertz = 100 // of every architecture Go runs on
	u.CPUSeconds = (number(14) + number(15)) / userHertz
	u.Threads = int(number(20))
	u.RSSMiB = number(24) * float64(unix.Getpagesize()) / (1 << 20)
	if err != nil {
		return u, err
	}
	open, err := os.ReadDir(dir + "fd")
	u.Descriptors = len(open)
	return u, err
}
