package mirror

import (
	"os"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if mapper := os.Getenv("MIRROR_TEST_MAP"); mapper != "" {
		os.Exit(mapAndWait(mapper))
	}
	// Known and open: under the race detector TestNothingHappensOutsideTheRoot leaves the
	// access watch of one writer behind in some runs; which path forgets it is not found.
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/mxl-stack/mxl-fabrics-agent/mxl.(*accessRun).read"))
}
