package agent

import (
	"bytes"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/mxl-stack/mxl-fabrics-agent/agent/logging"
)

func TestIgnoredCPUs(t *testing.T) {
	var mine unix.CPUSet
	if err := unix.SchedGetaffinity(0, &mine); err != nil {
		t.Fatal(err)
	}
	own := 0
	for !mine.IsSet(own) {
		own++
	}
	for _, c := range []struct{ list, want []int }{
		{nil, nil},
		{[]int{own}, nil},
		{[]int{own, 1024}, []int{1024}},
		{[]int{1022, own, 1023}, []int{1022, 1023}},
		{[]int{1024}, nil}, // every lane says that none can be used
	} {
		if got := ignoredCPUs(c.list); !slices.Equal(got, c.want) {
			t.Errorf("%v: %v, want %v", c.list, got, c.want)
		}
	}
	var after unix.CPUSet
	if err := unix.SchedGetaffinity(0, &after); err != nil || after != mine {
		t.Errorf("the caller may run elsewhere now: %v", err)
	}

	var out bytes.Buffer
	log := slog.New(logging.NewHandler(&out, slog.LevelInfo))
	logIgnoredCPUs([]int{own}, log)
	if out.Len() != 0 {
		t.Errorf("%s", out.String())
	}
	logIgnoredCPUs([]int{own, 1024}, log)
	if !strings.Contains(out.String(), `"event":"cpu_affinity_ignored"`) || !strings.Contains(out.String(), `"cpus":"[1024]"`) {
		t.Errorf("%s", out.String())
	}
}
