package main

import (
	"net"
	"strings"
	"syscall"
	"testing"

	"github.com/vishvananda/netlink"

	"github.com/mxl-stack/mxl-fabrics-agent/tests/namespace"
)

// TestStartBeforeDHCP: on a host without any address the agent waits, obeys a signal,
// and announces the address that comes.
func TestStartBeforeDHCP(t *testing.T) {
	if !namespace.Within(t) {
		return
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
