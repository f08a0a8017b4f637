package timerslack

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestEveryThreadHasSlack: also those that the Go runtime makes before main, its
// monitor among them.
func TestEveryThreadHasSlack(t *testing.T) {
	tasks, err := filepath.Glob("/proc/self/task/*")
	if err != nil || len(tasks) < 2 {
		t.Fatal(tasks, err)
	}
	for _, task := range tasks {
		path := fmt.Sprintf("/proc/%s/timerslack_ns", filepath.Base(task))
		text, err := os.ReadFile(path)
		switch {
		case os.IsNotExist(err): // the thread ended
		case os.IsPermission(err):
			t.Skipf("%s: other threads' slack takes CAP_SYS_NICE to read", path)
		case err != nil:
			t.Error(err)
		case strings.TrimSpace(string(text)) != "1000000":
			t.Errorf("%s is %s", path, text)
		}
	}
}
