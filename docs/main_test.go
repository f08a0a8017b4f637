package docs

import (
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	// An agent keeps the writers of its mirrors, and so the watch for their
	// readers, until its process ends.
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/mxl-stack/mxl-fabrics-agent/mxl.(*accessRun).read"))
}
