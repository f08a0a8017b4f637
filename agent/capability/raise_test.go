package capability_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	_ "github.com/mxl-stack/mxl-fabrics-agent/agent/capability"
)

const child = "CAPABILITY_TEST_CHILD"

func TestMain(m *testing.M) {
	if os.Getenv(child) != "" {
		printThreads()
		return
	}
	os.Exit(m.Run())
}

// printThreads prints the effective set of every thread, with a few threads
// made for it.
func printThreads() {
	var started sync.WaitGroup
	hold := make(chan struct{})
	for range 4 {
		started.Add(1)
		go func() {
			runtime.LockOSThread()
			started.Done()
			<-hold
		}()
	}
	started.Wait()
	files, _ := filepath.Glob("/proc/self/task/*/status")
	for _, f := range files {
		text, _ := os.ReadFile(f)
		fmt.Printf("%s\n", regexp.MustCompile(`CapEff:\s*\w+`).Find(text))
	}
	close(hold)
}

// fileCapabilities is the value of security.capability: revision 2, without
// the effective bit (capabilities(7)).
func fileCapabilities(caps ...int) []byte {
	const revision2 = 0x02000000
	var permitted uint32
	for _, c := range caps {
		permitted |= 1 << c
	}
	var out bytes.Buffer
	for _, word := range []uint32{revision2, permitted, 0, 0, 0} {
		_ = binary.Write(&out, binary.LittleEndian, word)
	}
	return out.Bytes()
}

func TestPermittedFileCapabilitiesAreEffectiveInEveryThread(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("file capabilities can only be set by root")
	}
	for name, test := range map[string]struct {
		caps []int
		want string
	}{
		"all three": {[]int{unix.CAP_IPC_LOCK, unix.CAP_SYS_NICE, unix.CAP_SYS_PTRACE}, "0000000000884000"},
		"one":       {[]int{unix.CAP_SYS_NICE}, "0000000000800000"},
		"another":   {[]int{unix.CAP_NET_ADMIN}, "0000000000000000"},
		"none":      {nil, "0000000000000000"},
	} {
		t.Run(name, func(t *testing.T) {
			program := copyOfTest(t)
			if len(test.caps) > 0 {
				if err := unix.Setxattr(program, "security.capability", fileCapabilities(test.caps...), 0); err != nil {
					t.Fatal(err)
				}
			}
			cmd := exec.Command(program)
			cmd.Dir = "/"
			cmd.Env = []string{child + "=1"}
			cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 1000, Gid: 1000}}
			out, err := cmd.CombinedOutput()
			if err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			lines := strings.Split(strings.TrimSpace(string(out)), "\n")
			if len(lines) < 5 {
				t.Fatalf("%d threads, want at least 5:\n%s", len(lines), out)
			}
			for _, line := range lines {
				if !strings.HasSuffix(line, test.want) {
					t.Errorf("%s, want %s", line, test.want)
				}
			}
		})
	}
}

// copyOfTest is this program where another user may run it.
func copyOfTest(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "capability")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	in, err := os.Open(self)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = in.Close() }()
	out, err := os.OpenFile(filepath.Join(dir, "program"), os.O_CREATE|os.O_WRONLY, 0o755)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(out, in); err != nil {
		t.Fatal(err)
	}
	if err := out.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Name()
}
