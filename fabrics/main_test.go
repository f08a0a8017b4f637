package fabrics

import (
	"fmt"
	"io"
	"os"
	"testing"

	"github.com/google/uuid"
	"go.uber.org/goleak"

	"github.com/mxl-stack/mxl-fabrics-agent/mxl"
)

// targetProcess makes the test binary a process with one target, so that a test can
// stop it: the domain's path, the flow's id and, where they are not tcp and
// loopback, the provider and the address, separated by spaces.
const targetProcess = "FABRICS_TEST_TARGET_PROCESS"

func TestMain(m *testing.M) {
	if what := os.Getenv(targetProcess); what != "" {
		if err := runTargetProcess(what); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	goleak.VerifyTestMain(m)
}

// runTargetProcess prints the TargetInfo and serves until its input ends.
func runTargetProcess(what string) error {
	var path, id string
	provider, address := TCP, "127.0.0.1"
	if n, err := fmt.Sscan(what, &path, &id, &provider, &address); n != 2 && n != 4 {
		return err
	}
	d, err := mxl.OpenDomain(path)
	if err != nil {
		return err
	}
	w, err := d.OpenDiscreteWriter(uuid.MustParse(id))
	if err != nil {
		return err
	}
	t, err := OpenTarget(TargetConfig{Discrete: w, FlowID: uuid.MustParse(id), Provider: provider, Address: address})
	if err != nil {
		return err
	}
	fmt.Println(t.Info())
	_, _ = io.Copy(io.Discard, os.Stdin)
	return t.Close()
}
