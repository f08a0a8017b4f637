package mesh

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"syscall"
	"time"
)

// Set gives the agent another setting for its next start; an empty value takes
// the setting away.
func (a *Agent) Set(key, value string) {
	if value == "" {
		delete(a.environment, key)
		return
	}
	a.environment[key] = value
}

// Launch runs the agent, or another build of it when program is not empty, and
// does not wait for anything.
func (a *Agent) Launch(program string) error {
	if program == "" {
		program = a.mesh.program("mxl-fabrics-agent")
	}
	var environment []string
	for _, key := range slices.Sorted(maps.Keys(a.environment)) {
		environment = append(environment, key+"="+a.environment[key])
	}
	command := append(slices.Clone(a.Through), program)
	p, err := startProcess(a.mesh.Logs, a.HostID, environment, command[0], command[1:]...)
	if err != nil {
		return err
	}
	a.Process = p
	a.mesh.processes = append(a.mesh.processes, p)
	return nil
}

// Start runs the agent and waits until it answers /readyz.
func (a *Agent) Start(ctx context.Context) error {
	if err := a.Launch(""); err != nil {
		return err
	}
	return a.Ready(ctx, 30*time.Second)
}

// Ready waits until the agent answers /readyz.
func (a *Agent) Ready(ctx context.Context, limit time.Duration) error {
	return Eventually(ctx, limit, a.HostID+" is ready", func() error {
		if !a.Running() {
			return fmt.Errorf("exited with code %d, see %s", a.ExitCode(), a.Log)
		}
		return a.Get(ctx, "/readyz", nil)
	})
}

// Signal sends a signal; a process that has ended gets none.
func (p *Process) Signal(s syscall.Signal) {
	if p.Running() {
		_ = p.command.Process.Signal(s)
	}
}
