// Package programs builds the real programs for the tests of a package.
package programs

import (
	"fmt"
	"os"
	"os/exec"
	"slices"
	"testing"

	"go.uber.org/goleak"
)

// Main builds the agent and mxl-pattern into a directory, which directory is set to,
// runs the tests and removes it. Flags are those of go build besides. It gives the exit
// code for TestMain: that of the tests, or 1 when a goroutine outlives them.
func Main(m *testing.M, directory *string, flags ...string) int {
	code, err := run(m, directory, flags)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}

func run(m *testing.M, directory *string, flags []string) (code int, err error) {
	if *directory, err = os.MkdirTemp("", "mxl-programs-"); err != nil {
		return 1, err
	}
	defer os.RemoveAll(*directory)
	build := exec.Command("go", slices.Concat([]string{"build", "-o", *directory + "/"}, flags, []string{"../../cmd/mxl-fabrics-agent", "../../cmd/mxl-pattern"})...)
	if out, err := build.CombinedOutput(); err != nil {
		return 1, fmt.Errorf("build: %w: %s", err, out)
	}
	if code = m.Run(); code != 0 {
		return code, nil
	}
	return 0, goleak.Find()
}
