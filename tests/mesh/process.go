package mesh

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"time"
)

// Process is a program that runs beside the test.
type Process struct {
	Name string
	Log  string // file with its standard output and error

	command *exec.Cmd
	output  *output
	done    chan struct{}
	result  error
}

// output keeps what a process wrote to standard output, so that it can be
// watched while it runs.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer
	copy io.Writer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.text.Write(p)
	return o.copy.Write(p)
}

// startProcess runs a program with extra environment; its output goes to
// <logs>/<name>.log and, for standard output, is kept.
func startProcess(logs, name string, environment []string, program string, args ...string) (*Process, error) {
	log, err := os.OpenFile(filepath.Join(logs, name+".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	p := &Process{Name: name, Log: log.Name(), done: make(chan struct{})}
	p.output = &output{copy: log}
	p.command = exec.Command(program, args...)
	p.command.Env = append(os.Environ(), environment...)
	p.command.Stdout, p.command.Stderr = p.output, log
	p.command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	p.command.WaitDelay = time.Second // for a child of the program that keeps the output open
	if err := p.command.Start(); err != nil {
		_ = log.Close()
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	go func() {
		p.result = p.command.Wait()
		_ = log.Close()
		close(p.done)
	}()
	return p, nil
}

// Output is what the process has written to standard output so far.
func (p *Process) Output() []byte {
	p.output.mu.Lock()
	defer p.output.mu.Unlock()
	return bytes.Clone(p.output.text.Bytes())
}

// Done is closed when the process has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// Running reports whether the process has not ended yet.
func (p *Process) Running() bool {
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}

// PID is the process id.
func (p *Process) PID() int { return p.command.Process.Pid }

// ExitCode waits for the end and tells the exit code; a signal n is 128+n.
func (p *Process) ExitCode() int {
	<-p.done
	var failed *exec.ExitError
	if errors.As(p.result, &failed) {
		if status, ok := failed.Sys().(syscall.WaitStatus); ok && status.Signaled() {
			return 128 + int(status.Signal())
		}
		return failed.ExitCode()
	}
	if p.result != nil && !errors.Is(p.result, exec.ErrWaitDelay) {
		return -1
	}
	return 0
}

// Stop asks the process to end with SIGTERM, kills it after patience, and tells
// the exit code.
func (p *Process) Stop(patience time.Duration) int {
	if p.Running() {
		_ = p.command.Process.Signal(syscall.SIGTERM)
	}
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-p.done:
	case <-timer.C:
		_ = syscall.Kill(-p.PID(), syscall.SIGKILL) // its process group
	}
	return p.ExitCode()
}
