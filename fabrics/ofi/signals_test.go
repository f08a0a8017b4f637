package ofi

import (
	"errors"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"
)

// TestSignalDuringTheStart: SIGTERM ends a process that has just begun as SIGTERM
// does. With libinfinipath's handlers it was an exit with 1.
func TestSignalDuringTheStart(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, after := range []time.Duration{5 * time.Millisecond, 20 * time.Millisecond, 100 * time.Millisecond} {
		child := exec.Command(self, "-test.run=^$")
		if err := child.Start(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(after) // the moment of the signal is what is tested, any will do
		if err := child.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
			t.Fatal(err)
		}
		// A fast machine may be done before.
		_ = child.Wait()
		status, ok := child.ProcessState.Sys().(syscall.WaitStatus)
		if !ok || !(status.Signaled() && status.Signal() == syscall.SIGTERM) && status.ExitStatus() != 0 {
			t.Errorf("SIGTERM after %v: %v", after, child.ProcessState)
		}
	}
}
