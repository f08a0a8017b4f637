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
	goleak.VerifyTestMain(m)
}
