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
	"sync"
	"sync/atomic"
	"time"
)

const (
	// linkSettle gathers the burst of messages that one change causes.
	linkSettle = 20 * time.Millisecond
	// linkRescan is how long a change can go unseen where netlink says
	// nothing, or is not to be had.
	linkRescan = time.Second
	// carrierPoll is how often the carrier of the devices in use is read: the
	// kernel holds back the message that a carrier went for up to a second
	// (net/core/link_watch.c), while sysfs tells at once.
	carrierPoll = 50 * time.Millisecond
)

// LinkWatch knows the network interfaces of this host and looks again when
// the kernel reports a change, and once a second in any case. It needs no
// privileges.
type LinkWatch struct {
	sysRoot string
	log     *slog.Logger

	mu      sync.Mutex
	changed []chan struct{} // one for each subscriber

	current atomic.Pointer[[]Interface]
	used    atomic.Pointer[[]Interface] // whose carrier is read often

	carriers map[string]*os.File // kept open between reads; Run's own
}

// NewLinkWatch scans the interfaces once. sysRoot is "/sys".
func NewLinkWatch(sysRoot string, log *slog.Logger) *LinkWatch {
	w := &LinkWatch{sysRoot: sysRoot, log: log}
	w.current.Store(new([]Interface))
	w.Use()
	w.look()
	return w
}

// Use names the devices whose carrier matters.
func (w *LinkWatch) Use(names ...string) {
	used := make([]Interface, 0, len(names))
	for _, i := range w.Interfaces() {
		if slices.Contains(names, i.Name) {
			used = append(used, i)
		}
	}
	w.used.Store(&used)
}

// carrierMoved reports whether a used device's carrier is no longer what it
// was when Use was called.
func (w *LinkWatch) carrierMoved() bool {
	for _, i := range *w.used.Load() {
		now, known := w.readCarrier(i.Name)
		if known && now != i.Carrier {
			return true
		}
	}
	return false
}

// readCarrier reads one device's carrier from its file, which stays open; known is
// false when there is no such device. A device that went and came back has another
// file: the old one gives an error, and so does that of a device that is down.
func (w *LinkWatch) readCarrier(name string) (up, known bool) {
	var text [2]byte
	if f := w.carriers[name]; f != nil {
		if n, _ := f.ReadAt(text[:], 0); n > 0 {
			return text[0] == '1', true
		}
		_ = f.Close()
		delete(w.carriers, name)
	}
	f, err := os.Open(filepath.Join(w.sysRoot, "class", "net", name, "carrier"))
	if err != nil {
		return false, !errors.Is(err, fs.ErrNotExist) // the next scan says what became of it
	}
	n, _ := f.ReadAt(text[:], 0)
	if n == 0 {
		_ = f.Close()
		return false, true
	}
	if w.carriers == nil {
		w.carriers = map[string]*os.File{}
	}
	w.carriers[name] = f
	return text[0] == '1', true
}

// closeCarriers closes the files of devices whose carrier does not matter any more.
func (w *LinkWatch) closeCarriers(kept []Interface) {
	for name, f := range w.carriers {
		if !slices.ContainsFunc(kept, func(i Interface) bool { return i.Name == name }) {
			_ = f.Close()
			delete(w.carriers, name)
		}
	}
}

// Interfaces is the last scan.
func (w *LinkWatch) Interfaces() []Interface { return *w.current.Load() }

// Subscribe gives a channel that receives a value after a scan differed from the
// one before. Its capacity is 1, for one reader: everybody who wants to know
// subscribes, or one takes what the other should have heard.
func (w *LinkWatch) Subscribe() <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	c := make(chan struct{}, 1)
	w.changed = append(w.changed, c)
	return c
}

// look scans and reports whether anything is different.
func (w *LinkWatch) look() {
	now, err := ScanInterfaces(w.sysRoot)
	if err != nil {
		// The next scan is a second away, and judging on half a list would
		// take links down.
		w.log.Debug("link_scan_failed", "error", err)
		return
	}
	if slices.EqualFunc(now, w.Interfaces(), sameInterface) {
		return
	}
	w.current.Store(&now)
	w.tell()
}

// tell wakes every subscriber.
func (w *LinkWatch) tell() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range w.changed {
		wake(c)
	}
}

func sameInterface(a, b Interface) bool {
	return a.Name == b.Name && a.Carrier == b.Carrier && a.OperState == b.OperState && slices.Equal(a.Addrs, b.Addrs)
}

// Run watches until ctx is done.
func (w *LinkWatch) Run(ctx context.Context) {
	links, addrs := w.open(subscribeLinks), w.open(subscribeAddrs)
	defer func() {
		links.close()
		addrs.close()
	}()
	rescan := time.NewTicker(linkRescan)
	defer rescan.Stop()
	carriers := time.NewTicker(carrierPoll)
	defer carriers.Stop()
	defer w.closeCarriers(nil)
	for {
		changed, ok := false, true
		select {
		case <-ctx.Done():
			return
		case <-rescan.C:
		case <-carriers.C:
			if !w.carrierMoved() {
				continue
			}
		case _, ok = <-links.changes:
			changed = true
		case _, ok = <-addrs.changes:
			changed = true
		}
		if !ok {
			// A socket overran or failed. The rescan covers the pause.
			pause(ctx, linkRescan, nil)
			links.close()
			addrs.close()
			links, addrs = w.open(subscribeLinks), w.open(subscribeAddrs)
		}
		if changed {
			pause(ctx, linkSettle, nil)
		}
		w.look()
		w.closeCarriers(*w.used.Load())
	}
}

// open subscribes, or leaves a feed that never reports: the interfaces are
// then only looked at once a second.
func (w *LinkWatch) open(subscribe func() (*feed, error)) *feed {
	f, err := subscribe()
	if err != nil {
		w.log.Warn("link_watch_unavailable", "error", err, "detail", "links are looked at once a second")
		return silentFeed()
	}
	return f
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
