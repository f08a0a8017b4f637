package main

import (
	"errors"
	"net"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/vishvananda/netlink"
)

const inNamespace = "MXL_FABRICS_AGENT_TEST_NETNS"

// TestStartBeforeDHCPNamespace runs TestStartBeforeDHCP in a network namespace of its
// own.
func TestStartBeforeDHCPNamespace(t *testing.T) {
	if os.Getenv(inNamespace) != "" {
		t.Skip("already inside")
	}
	cmd := exec.CommandContext(t.Context(), self(t), "-test.run=^TestStartBeforeDHCP$", "-test.v")
	cmd.Env = append(os.Environ(), inNamespace+"=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET}
	if os.Getuid() != 0 {
		cmd.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}}
	}
	out, err := cmd.CombinedOutput()
	var ran *exec.ExitError
	if err != nil && !errors.As(err, &ran) {
		t.Skipf("no network namespace to be had here: %v", err)
	}
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestStartBeforeDHCP: on a host without any address the agent waits, obeys a signal,
// and announces the address that comes.
func TestStartBeforeDHCP(t *testing.T) {
	if os.Getenv(inNamespace) == "" {
		t.Skip("runs inside TestStartBeforeDHCPNamespace")
	}
	loopback, err := netlink.LinkByName("lo")
	if err != nil {
		t.Fatal(err)
	}
	if err := netlink.LinkSetUp(loopback); err != nil {
		t.Fatal(err)
	}
	begin := func() (*program, *watchedOutput) {
		p := newProgram(t, self(t), settings(t, freePorts(t, testPorts), "NMOS_HOST_ADDRESS="))
		said := &watchedOutput{to: &p.stdout}
		p.command.Stdout = said
		if err := p.command.Start(); err != nil {
			t.Fatal(err)
		}
		waitFor(t, said, `"event":"host_address_wait"`)
		return p, said
	}
	end := func(p *program) {
		t.Helper()
		if err := p.command.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		if code := p.wait(t); code != exitSignal || p.stderr.Len() != 0 || strings.Count(p.stdout.String(), "host_address_wait") != 1 {
			t.Errorf("exit code %d\n%s%s", code, p.stdout.String(), p.stderr.String())
		}
	}
	p, _ := begin()
	end(p)

	p, said := begin()
	address := &netlink.Addr{IPNet: &net.IPNet{IP: net.IPv4(192, 0, 2, 10), Mask: net.CIDRMask(32, 32)}}
	if err := netlink.AddrAdd(loopback, address); err != nil {
		t.Fatal(err)
	}
	waitFor(t, said, `"host_address":"192.0.2.10"`)
	end(p)
}
