package mirror

import (
	"errors"
	"os"
	"os/signal"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// aloneOf asks for a flow whose writer is closed.
func aloneOf(t *testing.T, r *Room, k Key) bool {
	t.Helper()
	d, err := r.openOwn(k)
	if err != nil {
		t.Fatal(err)
	}
	defer d.close()
	return d.alone(k, d.watched(k).Files)
}

func TestAlone(t *testing.T) {
	r, k := watching(t)
	domain := Key{DomainID: k.DomainID}
	if aloneOf(t, r, k) || aloneOf(t, r, domain) {
		t.Error("our own writer has it open")
	}
	for _, f := range r.take(domain) {
		if err := f.close(); err != nil {
			t.Fatal(err)
		}
	}
	if !aloneOf(t, r, k) || !aloneOf(t, r, domain) {
		t.Skip("no leases on this file system: the private mappings are looked at instead")
	}
	for _, way := range []string{"", "private "} {
		_, stop := startMapper(t, way+flowPath(r, k, "grains", "data.3"))
		if aloneOf(t, r, k) || aloneOf(t, r, domain) {
			t.Errorf("%smapped by another process", way)
		}
		stop()
	}
	f, err := os.Open(flowPath(r, k, "flow_def.json"))
	if err != nil {
		t.Fatal(err)
	}
	if aloneOf(t, r, k) {
		t.Error("open and not mapped: that is not alone either")
	}
	_ = f.Close()
	// A file that is watched and was not found is not known to be free.
	d, err := r.openOwn(k)
	if err != nil {
		t.Fatal(err)
	}
	defer d.close()
	files := d.watched(k).Files
	files[FileID{1, 2}] = k
	if d.alone(k, files) {
		t.Error("a file that was not looked at counts as free")
	}
	mkdirAll(t, flowPath(r, k, "1/2/3/4/5"))
	if aloneOf(t, r, k) {
		t.Error("nested too deeply to look at all")
	}
	if err := os.RemoveAll(flowPath(r, k, "1")); err != nil {
		t.Fatal(err)
	}
	symlink(t, filepath.Join(r.path, "elsewhere"), flowPath(r, k, "link"))
	if !aloneOf(t, r, k) {
		t.Error("a link is not a file that could be mapped here")
	}
}

// TestScanAsksWhoIsAlone: private mappings are looked at where it is not known that
// there can be none.
func TestScanAsksWhoIsAlone(t *testing.T) {
	r, k := watching(t)
	_, stop := startMapper(t, "private "+flowPath(r, k, "data"))
	defer stop()
	for _, alone := range []bool{true, false} {
		c := NewReaderCheck(ReaderCheckConfig{})
		asked := 0
		w := r.Watched()
		w.Alone = func() bool { asked++; return alone }
		n := len(c.Scan(t.Context(), w).Flow(k))
		if c.text {
			t.Skip("the kernel has no PROCMAP_QUERY; the text is always read whole")
		}
		if asked != 1 || (n == 0) != alone {
			t.Errorf("alone %v: asked %d times, %d readers", alone, asked, n)
		}
	}
	// With a reader that is seen nobody has to be asked.
	_, stopShared := startMapper(t, flowPath(r, k, "data"))
	defer stopShared()
	w := r.Watched()
	w.Alone = func() bool { t.Error("asked"); return false }
	if n := len(NewReaderCheck(ReaderCheckConfig{}).Scan(t.Context(), w).Flow(k)); n != 1 {
		t.Errorf("%d readers", n)
	}
}

// TestPrivateMappingKeepsAFlow: the removal itself finds what a periodic check does
// not look at.
func TestPrivateMappingKeepsAFlow(t *testing.T) {
	r := openRoom(t, shmRoot(t), func(c *Config) { c.Readers = NewReaderCheck(ReaderCheckConfig{}) })
	o := origin("data", 1)
	inode := mustEnsure(t, r, o).Inode
	pid, stop := startMapper(t, "private "+flowPath(r, o.Key, "grains", "data.1"))
	defer stop()
	for _, remove := range []func() error{
		func() error { _, err := r.RemoveFlow(t.Context(), o.Key, OriginMissing); return err },
		func() error { _, err := r.RemoveFlow(t.Context(), o.Key, NoDemand); return err },
		func() error { _, err := r.RemoveDomain(t.Context(), testDomain, Delete); return err },
	} {
		var busy *BusyError
		if err := remove(); !errors.As(err, &busy) || len(busy.Readers) != 1 || busy.Readers[0].PID != pid {
			t.Errorf("%v", err)
		}
		if f := r.Held(o.Key); f == nil || f.Inode != inode {
			t.Errorf("not held as before: %+v", f)
		}
	}
}

// TestLeaseSignal: an open that meets a lease is told to us by a signal that cannot
// end the process, whichever thread it comes to.
func TestLeaseSignal(t *testing.T) {
	path := filepath.Join(shmRoot(t), "file")
	write(t, path, "x")
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	told := make(chan os.Signal, 8)
	signal.Notify(told, unix.SIGIO, unix.SIGURG)
	defer signal.Stop(told)
	if err := takeLease(int(f.Fd())); errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EINVAL) {
		t.Skip("no leases on this file system: " + err.Error())
	} else if err != nil {
		t.Fatal(err)
	}
	if _, err := unix.Open(path, unix.O_WRONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0); !errors.Is(err, unix.EWOULDBLOCK) {
		t.Fatalf("open of a leased file: %v", err)
	}
	// The runtime sends itself SIGURG too, so the descriptor is asked as well.
	if s := <-told; s != unix.SIGURG {
		t.Errorf("told by %v", s)
	}
	which, err := unix.FcntlInt(f.Fd(), unix.F_GETSIG, 0)
	if err != nil || which != int(unix.SIGURG) {
		t.Errorf("signal %d, %v", which, err)
	}
}
