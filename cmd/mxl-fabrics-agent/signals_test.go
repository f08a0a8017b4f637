package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// stuckProvider is a provider of libfabric's that never comes back from being loaded.
const stuckProvider = `
#include <unistd.h>
__attribute__((constructor)) static void stuck(void)
{
	if (write(2, "stuck\n", 6) == 6)
		for (;;)
			pause();
}
`

// stuckProviderDir gives a directory for FI_PROVIDER_PATH with the provider in it.
func stuckProviderDir(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	source := filepath.Join(dir, "stuck.c")
	if err := os.WriteFile(source, []byte(stuckProvider), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), "cc", "-shared", "-fPIC", "-o", filepath.Join(dir, "libstuck-fi.so"), source).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return dir
}

// TestEndOfAStartThatHangs: libfabric does not come back from its look for providers.
// The budget of the shutdown ends the process all the same, and so does a second
// signal, also where nobody reads the log.
func TestEndOfAStartThatHangs(t *testing.T) {
	dir := stuckProviderDir(t)
	for _, c := range []struct {
		name, budget string
		twice, full  bool
	}{
		{"budget", "1", false, false},
		{"budget, nobody reads the log", "1", false, true},
		{"second signal", "3600", true, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := newProgram(t, self(t), settings(t, freePorts(t, testPorts), "FI_PROVIDER_PATH="+dir, "SHUTDOWN_TIMEOUT_S="+c.budget))
			said := &watchedOutput{to: &p.stderr}
			p.command.Stderr = said
			if c.full {
				p.command.Stdout = fullPipe(t)
			}
			if err := p.command.Start(); err != nil {
				t.Fatal(err)
			}
			waitFor(t, said, "stuck")
			began := time.Now()
			if err := p.command.Process.Signal(syscall.SIGTERM); err != nil {
				t.Fatal(err)
			}
			ended := make(chan int, 1)
			go func() { ended <- p.wait(t) }()
			again := time.NewTicker(50 * time.Millisecond)
			defer again.Stop()
			for code := -1; code < 0; {
				select {
				case code = <-ended:
					if code != exitSignal {
						t.Errorf("exit code %d\n%s%s", code, p.stdout.String(), p.stderr.String())
					}
				case <-again.C:
					if c.twice {
						_ = p.command.Process.Signal(syscall.SIGTERM) // it may have ended
					}
				}
			}
			took := time.Since(began)
			if said := strings.Contains(p.stdout.String(), `"event":"shutdown_timeout"`); said != (!c.twice && !c.full) {
				t.Errorf("after %v: shutdown_timeout said %v\n%s", took, said, p.stdout.String())
			}
			if !c.twice && took < time.Second {
				t.Errorf("cut off after %v", took)
			}
		})
	}
}

// fullPipe is the writing end of a pipe that takes nothing any more.
func fullPipe(t *testing.T) *os.File {
	t.Helper()
	var ends [2]int
	if err := unix.Pipe2(ends[:], unix.O_CLOEXEC); err != nil {
		t.Fatal(err)
	}
	read, write := os.NewFile(uintptr(ends[0]), "read"), os.NewFile(uintptr(ends[1]), "write")
	t.Cleanup(func() {
		read.Close()
		write.Close()
	})
	if err := unix.SetNonblock(ends[1], true); err != nil {
		t.Fatal(err)
	}
	for {
		if _, err := unix.Write(ends[1], make([]byte, 4096)); err != nil {
			break
		}
	}
	if err := unix.SetNonblock(ends[1], false); err != nil {
		t.Fatal(err)
	}
	return write
}
