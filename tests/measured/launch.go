package measured

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"
)

// Pause waits for d, or until ctx ends.
func Pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// Agent is the real binary, in a process of its own.
type Agent struct {
	URL     string
	command *exec.Cmd
	log     *os.File
}

// Launch starts a program over an MXL root, with the peers in PEERS. Its log and
// state go below dir.
func Launch(program, root, dir string, mesh *Peers) (*Agent, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	log, err := os.Create(filepath.Join(dir, "agent.log"))
	if err != nil {
		return nil, err
	}
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	a := &Agent{URL: fmt.Sprintf("http://127.0.0.1:%d", port), log: log}
	a.command = exec.Command(program)
	a.command.Env = append(os.Environ(), "HOST_ID=measured", "NMOS_ENABLE=false", "DEFAULT_PROVIDER=tcp", "FABRIC_INTERFACE=127.0.0.1", "TMPFS_RESERVE_MB=0",
		"MXL_ROOT="+root, "STATE_DIR="+filepath.Join(dir, "state"), fmt.Sprintf("WEB_PORT=%d", port), "MXL_CLEANUP_ON_EXIT=true", "PEERS="+mesh.Setting())
	a.command.Stdout, a.command.Stderr = log, log
	a.command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := a.command.Start(); err != nil {
		return nil, err
	}
	return a, nil
}

// PID is the process.
func (a *Agent) PID() int { return a.command.Process.Pid }

// Stop ends the agent in order, or by force after 15 s.
func (a *Agent) Stop() {
	_ = a.command.Process.Signal(syscall.SIGTERM)
	done := make(chan struct{})
	go func() { _ = a.command.Wait(); close(done) }()
	select {
	case <-done:
	case <-time.After(15 * time.Second):
		_ = a.command.Process.Kill()
		<-done
	}
	_ = a.log.Close()
}

func freePort() (int, error) {
	l, err := net.Listen("tcp", ":0")
	if err != nil {
		return 0, err
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}
