package mxl

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"
	"go.uber.org/goleak"
	"golang.org/x/sys/unix"
)

// Some statements are about two processes. The test binary then runs itself with a role.
const childRole, childDomain, childDef, childID = "MXL_TEST_ROLE", "MXL_TEST_DOMAIN", "MXL_TEST_DEF", "MXL_TEST_ID"

func TestMain(m *testing.M) {
	if role := os.Getenv(childRole); role != "" {
		if err := runChild(role); err != nil {
			fmt.Println("error:", err)
			os.Exit(1)
		}
		return
	}
	goleak.VerifyTestMain(m)
}

func runChild(role string) error {
	if role == "fill" {
		return childOnFullFileSystem()
	}
	d, err := OpenDomain(os.Getenv(childDomain))
	if err != nil {
		return err
	}
	switch role {
	case "hold": // hold a flow for writing until stdin ends, then go without a word, as an agent that exits
		if id := os.Getenv(childID); id != "" {
			_, err = d.OpenDiscreteWriter(uuid.MustParse(id))
		} else {
			_, _, err = d.CreateDiscreteWriter([]byte(os.Getenv(childDef)), FlowOptions{})
		}
		if err != nil {
			return err
		}
		fmt.Println("ready")
		_, err = io.Copy(io.Discard, os.Stdin)
		return err
	case "active": // say whether the flow has a writer
		active, err := d.IsActive(uuid.MustParse(os.Getenv(childID)))
		if err != nil {
			return err
		}
		removed, err := d.CollectGarbage()
		fmt.Println(active, len(removed))
		return err
	case "other": // another user: reads, cannot write, collects nothing
		id := uuid.MustParse(os.Getenv(childID))
		r, err := d.OpenDiscreteReader(id)
		if err != nil {
			return err
		}
		_, readErr := r.Grain(5, AllSlices)
		_, writeErr := d.OpenDiscreteWriter(id)
		removed, err := d.CollectGarbage()
		fmt.Printf("read %v, collected %d %v, write denied %v: %v\n", readErr, len(removed), err,
			errors.Is(writeErr, ErrPermissionDenied), writeErr)
		return nil
	case "wait": // sleep on the futex word of a flow through a read-only mapping
		r, err := d.OpenDiscreteReader(uuid.MustParse(os.Getenv(childID)))
		if err != nil {
			return err
		}
		seen := r.Sync()
		fmt.Println("ready")
		start := time.Now()
		now, err := r.WaitSync(seen, 30*time.Second)
		fmt.Println(now != seen, time.Since(start) < 20*time.Second)
		return err
	}
	return fmt.Errorf("no role %q", role)
}

// childOnFullFileSystem runs in a mount namespace of its own.
func childOnFullFileSystem() error {
	dir := os.Getenv(childDomain)
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=2m"); err != nil {
		return err
	}
	d, err := OpenDomain(dir)
	if err != nil {
		return err
	}
	_, _, err = d.CreateDiscreteWriter([]byte(os.Getenv(childDef)), FlowOptions{})
	entries, listErr := os.ReadDir(dir)
	if listErr != nil {
		return listErr
	}
	fmt.Printf("%d left, enospc %v: %v\n", len(entries), strings.Contains(fmt.Sprint(err), unix.ENOSPC.Error()), err)
	return nil
}

// child is a running copy of the test binary.
type child struct {
	cmd   *exec.Cmd
	stdin io.WriteCloser
	out   *bufio.Scanner
}

func startChild(t testing.TB, role string, attr *syscall.SysProcAttr, env ...string) *child {
	t.Helper()
	// Through /proc the binary can be run by another user, whoever may look into the directory it was built in.
	cmd := exec.Command("/proc/self/exe", "-test.run=^$")
	cmd.Env = append(os.Environ(), append(env, childRole+"="+role)...)
	cmd.SysProcAttr = attr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	c := &child{cmd, stdin, bufio.NewScanner(stdout)}
	t.Cleanup(func() {
		stdin.Close()
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return c
}

// line returns the next line of output.
func (c *child) line(t testing.TB) string {
	t.Helper()
	if !c.out.Scan() {
		t.Fatalf("child ended: %v", c.out.Err())
	}
	return c.out.Text()
}
