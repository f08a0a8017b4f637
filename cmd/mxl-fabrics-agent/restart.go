package main

import (
	"os"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/mxl-stack/mxl-fabrics-agent/agent"
)

// restart becomes a process that begins: the same program, arguments, settings
// and process id. It returns only when it cannot.
func restart(r agent.Restart) error {
	_, settings := agent.TakeRestart(os.Environ())
	environ, err := r.Give(settings)
	if err != nil {
		return err
	}
	closeOnExec()
	// The program that runs, also when its file has been replaced meanwhile.
	return unix.Exec("/proc/self/exe", os.Args, environ)
}

// closeOnExec keeps every descriptor but the standard ones from the next process:
// libraries open some without the flag.
func closeOnExec() {
	const firstOwn = 3
	if unix.CloseRange(firstOwn, ^uint(0), unix.CLOSE_RANGE_CLOEXEC) == nil {
		return
	}
	// A kernel before 5.11.
	entries, _ := os.ReadDir("/proc/self/fd")
	for _, e := range entries {
		if fd, err := strconv.Atoi(e.Name()); err == nil && fd >= firstOwn {
			unix.CloseOnExec(fd)
		}
	}
}
