package peers

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"time"

	"github.com/vishvananda/netlink"
)

const (
	// linkSettle gathers the burst of messages that one change causes.
	linkSettle = 20 * time.Millisecond
	// linkRescan is how long a change can go unseen where netlink says
	// nothing, or is not to be had.
	linkRescan = time.Second
)

// LinkWatch knows the network interfaces of this host and looks again when
// the kernel reports a change, and once a second in any case. It needs no
// privileges.
type LinkWatch struct {
	// Scan lists the interfaces; ScanInterfaces unless set otherwise.
	Scan    func() ([]Interface, error)
	Log     *slog.Logger
	changed chan struct{}
	current atomic.Pointer[[]Interface]
}

// NewLinkWatch scans the interfaces once. sysRoot is "/sys".
func NewLinkWatch(sysRoot string, log *slog.Logger) *LinkWatch {
	w := &LinkWatch{
		Scan:    func() ([]Interface, error) { return ScanInterfaces(sysRoot) },
		Log:     log,
		changed: make(chan struct{}, 1),
	}
	w.current.Store(new([]Interface))
	w.look()
	return w
}

// Interfaces is the last scan.
func (w *LinkWatch) Interfaces() []Interface { return *w.current.Load() }

// Changed receives a value after a scan differed from the one before. Its
// capacity is 1, for one reader.
func (w *LinkWatch) Changed() <-chan struct{} { return w.changed }

// look scans and reports whether anything is different.
func (w *LinkWatch) look() {
	now, err := w.Scan()
	if err != nil {
		// The next scan is a second away, and judging on half a list would
		// take links down.
		w.Log.Debug("link_scan_failed", "error", err)
		return
	}
	if slices.EqualFunc(now, w.Interfaces(), sameInterface) {
		return
	}
	w.current.Store(&now)
	wake(w.changed)
}

func sameInterface(a, b Interface) bool {
	return a.Name == b.Name && a.Carrier == b.Carrier && a.OperState == b.OperState && slices.Equal(a.Addrs, b.Addrs)
}

// Run watches until ctx is done.
func (w *LinkWatch) Run(ctx context.Context) {
	done := make(chan struct{})
	defer close(done)
	links := make(chan netlink.LinkUpdate, 64)
	addrs := make(chan netlink.AddrUpdate, 64)
	failed := func(err error) { w.Log.Debug("link_watch_failed", "error", err) }
	if err := netlink.LinkSubscribeWithOptions(links, done, netlink.LinkSubscribeOptions{ErrorCallback: failed}); err != nil {
		w.Log.Warn("link_watch_unavailable", "error", err, "detail", "links are looked at once a second")
		links = nil
	}
	if err := netlink.AddrSubscribeWithOptions(addrs, done, netlink.AddrSubscribeOptions{ErrorCallback: failed}); err != nil {
		w.Log.Warn("link_watch_unavailable", "error", err, "detail", "addresses are looked at once a second")
		addrs = nil
	}
	rescan := time.NewTicker(linkRescan)
	defer rescan.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-rescan.C:
		case _, ok := <-links:
			if !ok {
				links = nil // the rescan goes on
				continue
			}
			pause(ctx, linkSettle, nil)
		case _, ok := <-addrs:
			if !ok {
				addrs = nil
				continue
			}
			pause(ctx, linkSettle, nil)
		}
		drain(links)
		drain(addrs)
		w.look()
	}
}

func drain[T any](c <-chan T) {
	for {
		select {
		case _, ok := <-c:
			if !ok {
				return
			}
		default:
			return
		}
	}
}

// ScanInterfaces lists the interfaces of this network namespace with their
// addresses, and their carrier as sysRoot/class/net tells it.
func ScanInterfaces(sysRoot string) ([]Interface, error) {
	devices, err := net.Interfaces()
	if err != nil {
		return nil, err
	}
	out := make([]Interface, 0, len(devices))
	for _, device := range devices {
		addrs, err := device.Addrs()
		if err != nil {
			// It vanished between the two calls.
			continue
		}
		i := Interface{Name: device.Name, Addrs: addressesOf(addrs, device.Name)}
		i.Carrier, i.OperState = carrier(sysRoot, device)
		out = append(out, i)
	}
	return out, nil
}

func addressesOf(addrs []net.Addr, zone string) []netip.Addr {
	out := make([]netip.Addr, 0, len(addrs))
	for _, a := range addrs {
		network, ok := a.(*net.IPNet)
		if !ok {
			continue
		}
		addr, ok := netip.AddrFromSlice(network.IP)
		if !ok {
			continue
		}
		addr = addr.Unmap()
		if addr.Is6() && addr.IsLinkLocalUnicast() {
			addr = addr.WithZone(zone)
		}
		out = append(out, addr)
	}
	slices.SortFunc(out, netip.Addr.Compare)
	return out
}

// carrier reads the two files of the contract. The kernel refuses to tell the
// carrier of a device that is set down: that is none. Where sysfs does not
// show this namespace the device's flags have to do.
func carrier(sysRoot string, device net.Interface) (up bool, state string) {
	dir := filepath.Join(sysRoot, "class", "net", device.Name)
	if text, err := os.ReadFile(filepath.Join(dir, "operstate")); err == nil {
		state = string(bytes.TrimSpace(text))
	}
	text, err := os.ReadFile(filepath.Join(dir, "carrier"))
	if errors.Is(err, fs.ErrNotExist) {
		up = device.Flags&net.FlagUp != 0 && device.Flags&net.FlagRunning != 0
		if state == "" {
			state = "unknown"
		}
		return up, state
	}
	return err == nil && string(bytes.TrimSpace(text)) == "1", state
}
