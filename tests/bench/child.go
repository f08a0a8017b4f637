package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// child is a process of this run that answers in lines of JSON.
type child struct {
	command *exec.Cmd
	input   io.WriteCloser
	lines   *bufio.Reader
}

func startChild(ctx context.Context, program string, args ...string) (*child, error) {
	c := &child{command: exec.CommandContext(ctx, program, args...)}
	c.command.Stderr = os.Stderr
	c.command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	var err error
	if c.input, err = c.command.StdinPipe(); err != nil {
		return nil, err
	}
	output, err := c.command.StdoutPipe()
	if err != nil {
		return nil, err
	}
	c.lines = bufio.NewReader(output)
	if err := c.command.Start(); err != nil {
		return nil, err
	}
	return c, nil
}

// lanesSlack is the timer slack of a process with lanes, the one that the agent
// gives itself (fabrics/timerslack), and usualSlack everybody else's.
const (
	lanesSlack = time.Millisecond
	usualSlack = 50 * time.Microsecond
)

// startLaneChild starts a process with the slack that the agent has. Importing that
// package would give it to this process as well, whose timers pace the origin.
func startLaneChild(ctx context.Context, program string, args ...string) (c *child, err error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := unix.Prctl(unix.PR_SET_TIMERSLACK, uintptr(lanesSlack), 0, 0, 0); err != nil {
		return nil, err
	}
	c, err = startChild(ctx, program, args...)
	return c, errors.Join(err, unix.Prctl(unix.PR_SET_TIMERSLACK, uintptr(usualSlack), 0, 0, 0))
}

// read decodes the child's next line.
func (c *child) read(into any) error {
	line, err := c.lines.ReadBytes('\n')
	if err != nil {
		return fmt.Errorf("%s ended without an answer: %w", c.command.Path, err)
	}
	return json.Unmarshal(line, into)
}

// ask sends a line and decodes the answer.
func (c *child) ask(what string, into any) error {
	if _, err := io.WriteString(c.input, what+"\n"); err != nil {
		return err
	}
	return c.read(into)
}

// end lets the child finish by itself.
func (c *child) end() error {
	_ = c.input.Close()
	return c.command.Wait()
}

// kill is for a child whose peer failed.
func (c *child) kill() {
	if c == nil || c.command.ProcessState != nil {
		return
	}
	_ = c.command.Process.Kill()
	_ = c.command.Wait()
}
