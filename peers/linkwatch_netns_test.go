package peers

import (
	"context"
	"io"
	"log/slog"
	"net"
	"syscall"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"github.com/mxl-stack/mxl-fabrics-agent/tests/namespace"
)

// TestLinkWatchEvents pulls and plugs a veth pair and takes its address away:
// each change is seen long before the next rescan.
func TestLinkWatchEvents(t *testing.T) {
	if !namespace.Within(t) {
		return
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(netlink.LinkAdd(&netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "e1"}, PeerName: "e2"}))
	e1, err := netlink.LinkByName("e1")
	must(err)
	e2, err := netlink.LinkByName("e2")
	must(err)
	address := &netlink.Addr{IPNet: &net.IPNet{IP: net.IPv4(192, 0, 2, 1), Mask: net.CIDRMask(24, 32)}}
	must(netlink.AddrAdd(e1, address))
	must(netlink.LinkSetUp(e1))
	must(netlink.LinkSetUp(e2))

	// sysfs shows the namespace it was mounted in, so it takes one of its own.
	sys := t.TempDir()
	must(syscall.Mount("none", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""))
	must(syscall.Mount("sysfs", sys, "sysfs", 0, ""))
	defer func() { must(syscall.Unmount(sys, 0)) }()
	w := NewLinkWatch(sys, slog.New(slog.NewTextHandler(io.Discard, nil)))
	changed := w.Subscribe()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		w.Run(ctx)
	}()
	defer func() {
		cancel()
		<-done
	}()
	w.Use("e1")
	until := func(what string, want bool) {
		t.Helper()
		begun := time.Now()
		deadline := time.After(5 * time.Second)
		for LinkOf("192.0.2.1", w.Interfaces()).Up != want {
			select {
			case <-changed:
				w.Use("e1")
			case <-deadline:
				t.Fatalf("%s is not seen: %+v", what, w.Interfaces())
			}
		}
		took := time.Since(begun)
		t.Logf("%s: seen after %v", what, took)
		// About 120 ms for a lost carrier and 20 ms for the rest on an idle
		// machine; a rescan alone takes up to a second.
		if took > linkRescan/2 {
			t.Errorf("%s: seen after %v", what, took)
		}
	}
	deadline := time.Now().Add(5 * time.Second)
	for !LinkOf("192.0.2.1", w.Interfaces()).Up && time.Now().Before(deadline) {
		<-changed
		w.Use("e1")
	}
	must(netlink.LinkSetDown(e2))
	until("far end down", false)
	must(netlink.LinkSetUp(e2))
	until("far end up", true)
	must(netlink.AddrDel(e1, address))
	until("address gone", false)
	must(netlink.AddrAdd(e1, address))
	until("address back", true)
}
