package config

import (
	"net"
	"os"
	"os/exec"
	"syscall"
	"testing"

	"github.com/vishvananda/netlink"
)

const inNamespace = "CONFIG_TEST_NETNS"

// TestHostAddressNamespace runs TestHostAddress in a network namespace of its own.
func TestHostAddressNamespace(t *testing.T) {
	if os.Getenv(inNamespace) != "" {
		t.Skip("already inside")
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestHostAddress$", "-test.v")
	cmd.Env = append(os.Environ(), inNamespace+"=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET}
	if os.Getuid() != 0 {
		cmd.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}}
	}
	out, err := cmd.CombinedOutput()
	if _, ran := err.(*exec.ExitError); err != nil && !ran {
		t.Skipf("no network namespace to be had here: %v", err)
	}
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestHostAddress: of two interfaces, both with an address, the first is down.
func TestHostAddress(t *testing.T) {
	if os.Getenv(inNamespace) == "" {
		t.Skip("runs inside TestHostAddressNamespace")
	}
	add := func(name, peer string, ip net.IP) netlink.Link {
		t.Helper()
		if err := netlink.LinkAdd(&netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: name}, PeerName: peer}); err != nil {
			t.Fatal(err)
		}
		link, err := netlink.LinkByName(name)
		if err != nil {
			t.Fatal(err)
		}
		if err := netlink.AddrAdd(link, &netlink.Addr{IPNet: &net.IPNet{IP: ip, Mask: net.CIDRMask(24, 32)}}); err != nil {
			t.Fatal(err)
		}
		return link
	}
	address := func() string {
		t.Helper()
		s, err := Load(Machine{Environ: []string{"STATE_DIR=" + t.TempDir(), "HOST_ID=x"}})
		if err != nil {
			t.Fatal(err)
		}
		return s.Config().NMOSHostAddress
	}
	first := add("e1", "e2", net.IPv4(192, 0, 2, 1))
	if got := address(); got != "192.0.2.1" {
		t.Errorf("%q, want the only one, down or not", got)
	}
	if err := netlink.LinkSetUp(add("e3", "e4", net.IPv4(198, 51, 100, 1))); err != nil {
		t.Fatal(err)
	}
	if got := address(); got != "198.51.100.1" {
		t.Errorf("%q, want the one that is up", got)
	}
	if err := netlink.LinkSetUp(first); err != nil {
		t.Fatal(err)
	}
	if got := address(); got != "192.0.2.1" {
		t.Errorf("%q, want the first of two", got)
	}
}
