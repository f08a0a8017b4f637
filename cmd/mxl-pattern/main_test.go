package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"
	"go.uber.org/goleak"
)

// asProgram makes the test binary be mxl-pattern, for tests of signals and exit codes.
const asProgram = "MXL_PATTERN_TEST_AS_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
	}
	goleak.VerifyTestMain(m)
}

// output is a buffer two goroutines may use.
type output struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.String()
}

// testRoot is a directory on tmpfs that goes away with the test.
func testRoot(t *testing.T) string {
	t.Helper()
	root, err := os.MkdirTemp("/dev/shm", "mxl-pattern-*")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(root) })
	return root
}

// call runs one command to its end.
func call(t *testing.T, ctx context.Context, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, err output
	code = run(ctx, args, terminal{&out, &err})
	return code, out.String(), err.String()
}

// writing runs write beside the test until stop or its own end; stop returns the totals.
func writing(t *testing.T, args ...string) (stop func() writeTotals) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var (
		out, err output
		done     = make(chan int, 1)
		once     sync.Once
		totals   writeTotals
	)
	go func() { done <- run(ctx, append([]string{"write", "--json"}, args...), terminal{&out, &err}) }()
	stop = func() writeTotals {
		once.Do(func() {
			cancel()
			if code := <-done; code != exitOK {
				t.Errorf("write %v: exit %d: %s", args, code, err.String())
				return
			}
			if err := json.Unmarshal([]byte(out.String()), &totals); err != nil {
				t.Errorf("write printed %q: %v", out.String(), err)
			}
		})
		return totals
	}
	t.Cleanup(func() { stop() })
	return stop
}

// reading runs read and returns its totals.
func reading(t *testing.T, wantCode int, args ...string) readTotals {
	t.Helper()
	code, out, stderr := call(t, context.Background(), append([]string{"read", "--json"}, args...)...)
	if code != wantCode {
		t.Errorf("read %v: exit %d, want %d: %s%s", args, code, wantCode, out, stderr)
	}
	var totals readTotals
	if err := json.Unmarshal([]byte(out), &totals); err != nil {
		t.Fatalf("read %v printed %q (%s): %v", args, out, stderr, err)
	}
	return totals
}

// small is a picture that costs nothing in a ring that forgives a busy machine.
var small = []string{"--width", "96", "--height", "54", "--ring-history", "4s"}

func TestUsage(t *testing.T) {
	ctx := context.Background()
	for _, args := range [][]string{
		{}, {"paint"}, {"write"}, {"write", "a", "b"}, {"write", "--rate", "0", "d"}, {"write", "--rate", "x/y", "d"}, {"write", "--rate", "5/0", "d"},
		{"write", "--flow-id", "no", "d"}, {"write", "--format", "mpeg", "d"}, {"write", "--width", "1", "d"}, {"write", "--interlace", "yes", "d"},
		{"write", "--format", "audio", "--invalid-every", "3", "d"}, {"write", "--format", "audio", "--batch", "0", "d"},
		{"write", "--format", "audio", "--slices", "3", "d"}, {"write", "--slices", "0", "d"}, {"write", "--skip-every", "3", "--skip-length", "0", "d"},
		{"read", "d"}, {"read", "d", "not-an-id"}, {"read", "--nonsense"}, {"rate", "d"}, {"info"}, {"hold", "d", "x"},
	} {
		if code, out, err := call(t, ctx, args...); code != exitUsage || err == "" || out != "" {
			t.Errorf("%q: exit %d, stdout %q, stderr %q", args, code, out, err)
		}
	}
	for _, args := range [][]string{{"help"}, {"--help"}, {"write", "--help"}, {"read", "-h"}, {"rate", "-h"}, {"info", "-h"}, {"hold", "-h"}} {
		if code, _, err := call(t, ctx, args...); code != exitOK || !strings.Contains(err, "mxl-pattern") {
			t.Errorf("%q: exit %d, stderr %q", args, code, err)
		}
	}
	if code, _, _ := call(t, ctx, "read", "--wait", "10ms", "/nonexistent", uuid.NewString()); code != exitFailed {
		t.Errorf("a flow that is not there: exit %d", code)
	}
}

func program(t *testing.T, args ...string) (*exec.Cmd, *bufio.Reader) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self, args...)
	cmd.Env = append(os.Environ(), asProgram+"=1")
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() }) // of our own child; an error means that it has ended
	return cmd, bufio.NewReader(out)
}

func TestHoldMapsTheFlowUntilASignal(t *testing.T) {
	domain, id := testRoot(t), uuid.NewString()
	writing(t, append(small, "--flow-id", id, domain)...)
	cmd, out := program(t, "hold", domain, id)
	line, err := out.ReadString('\n')
	if err != nil || !strings.HasPrefix(line, "pid ") {
		t.Fatalf("%q, %v", line, err)
	}
	if line, err = out.ReadString('\n'); err != nil || line != "holding "+id+"\n" {
		t.Fatalf("%q, %v", line, err)
	}
	maps, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(cmd.Process.Pid), "maps"))
	if err != nil || !strings.Contains(string(maps), id+".mxl-flow/data") || !strings.Contains(string(maps), "grains/data.0") {
		t.Errorf("the flow is not mapped: %v", err)
	}
	endBySignal(t, cmd, out, "released")
}

func TestSignalEndsWriteWithTotalsAndDeletesTheFlow(t *testing.T) {
	domain, id := testRoot(t), uuid.NewString()
	cmd, out := program(t, append([]string{"write", "--flow-id", id, domain}, small...)...)
	flow := filepath.Join(domain, id+".mxl-flow")
	awaitPath(t, flow)
	endBySignal(t, cmd, out, "deleted on exit true")
	if _, err := os.Stat(flow); err == nil {
		t.Error("the flow is still there")
	}
}

func endBySignal(t *testing.T, cmd *exec.Cmd, out *bufio.Reader, want string) {
	t.Helper()
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	var rest strings.Builder
	if _, err := out.WriteTo(&rest); err != nil {
		t.Error(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("after SIGTERM: %v", err)
	}
	if !strings.Contains(rest.String(), want) {
		t.Errorf("printed %q, want %q", rest.String(), want)
	}
}

func awaitPath(t *testing.T, path string) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
		if _, err := os.Stat(path); err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s did not appear", path)
		}
	}
}
