package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"
)

// asProgram makes the test binary be mxl-fabrics-agent, for what only a process
// has: exit codes, signals, limits, another user.
const asProgram = "MXL_FABRICS_AGENT_TEST_AS_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
	}
	os.Exit(m.Run())
}

// publicDir is a directory that every user may enter, with the program in it.
func publicDir(t *testing.T) (dir, program string) {
	t.Helper()
	dir, err := os.MkdirTemp("", "mxl-agent-*")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	program = filepath.Join(dir, "mxl-fabrics-agent")
	if os.Link(self, program) == nil {
		return dir, program
	}
	from, err := os.Open(self)
	if err != nil {
		t.Fatal(err)
	}
	defer from.Close()
	to, err := os.OpenFile(program, os.O_CREATE|os.O_WRONLY, 0o755)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(to, from); err != nil {
		t.Fatal(err)
	}
	if err := to.Close(); err != nil {
		t.Fatal(err)
	}
	return dir, program
}

// program runs mxl-fabrics-agent to its end.
type program struct {
	command        *exec.Cmd
	stdout, stderr bytes.Buffer
}

func newProgram(t *testing.T, path string, environment []string, args ...string) *program {
	t.Helper()
	// Whatever does not end by itself is killed, and fails its test by its code.
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	t.Cleanup(cancel)
	p := &program{command: exec.CommandContext(ctx, path, args...)}
	p.command.Env = append([]string{asProgram + "=1", "PATH=" + os.Getenv("PATH"), "LD_LIBRARY_PATH=" + os.Getenv("LD_LIBRARY_PATH")}, environment...)
	p.command.Stdout, p.command.Stderr = &p.stdout, &p.stderr
	p.command.WaitDelay = time.Second
	p.command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	return p
}

// run gives the exit code, 128 + n for signal n.
func (p *program) run(t *testing.T) int {
	t.Helper()
	if err := p.command.Start(); err != nil {
		t.Fatal(err)
	}
	return p.wait(t)
}

func (p *program) wait(t *testing.T) int {
	t.Helper()
	err := p.command.Wait()
	var exit *exec.ExitError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &exit):
		if status, ok := exit.Sys().(syscall.WaitStatus); ok && status.Signaled() {
			return 128 + int(status.Signal())
		}
		return exit.ExitCode()
	}
	t.Fatal(err)
	return -1
}

// unprivileged makes the program run as nobody when the test runs as root, so
// that it has no capability.
func (p *program) unprivileged() {
	if os.Geteuid() == 0 {
		const nobody = 65534
		p.command.SysProcAttr.Credential = &syscall.Credential{Uid: nobody, Gid: nobody, Groups: []uint32{}}
	}
}

// withLimits runs the program below a shell that lowers a limit.
func withLimits(p *program, limit string, value int) {
	p.command.Args = append([]string{"sh", "-c", "ulimit " + limit + " " + strconv.Itoa(value) + ` && exec "$0" "$@"`, p.command.Path}, p.command.Args[1:]...)
	p.command.Path = "/bin/sh"
}
