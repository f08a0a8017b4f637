// Package namespace runs tests in a network namespace of their own, where devices may
// be made, pulled and given addresses.
package namespace

import (
	"errors"
	"os"
	"os/exec"
	"regexp"
	"syscall"
	"testing"
)

const variable = "MXL_TEST_NAMESPACE"

// Within says whether the test runs in a network and a mount namespace of its own.
// Where it does not, it is run there by a process of this test's program, and has its
// outcome; the caller returns. It is skipped where no namespace can be had.
func Within(t *testing.T) bool {
	t.Helper()
	if os.Getenv(variable) == t.Name() {
		return true
	}
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), program, "-test.run=^"+regexp.QuoteMeta(t.Name())+"$", "-test.v")
	cmd.Env = append(os.Environ(), variable+"="+t.Name())
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET | syscall.CLONE_NEWNS}
	if os.Getuid() != 0 {
		cmd.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}}
	}
	out, err := cmd.CombinedOutput()
	var ended *exec.ExitError
	switch {
	case errors.As(err, &ended):
		t.Errorf("%v\n%s", err, out)
	case err != nil:
		t.Skipf("no network namespace to be had here: %v", err)
	default:
		t.Logf("%s", out)
	}
	return false
}
