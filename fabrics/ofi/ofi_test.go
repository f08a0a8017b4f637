package ofi

import (
	"errors"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestGetInfo(t *testing.T) {
	for address, format := range map[string]uint32{"127.0.0.1": FormatIPv4, "::1": FormatIPv6} {
		for _, role := range []Role{Receiver, Sender} {
			i, err := GetInfo(Query{Provider: "tcp", Address: address, Role: role})
			if err != nil {
				t.Fatal(err)
			}
			if i.Provider() != "tcp" || i.AddressFormat() != format || i.Segments() < 2 || i.VirtualAddresses() || i.ReceivePerImmediate() {
				t.Errorf("%s: provider %s, format %d, %d segments", address, i.Provider(), i.AddressFormat(), i.Segments())
			}
			i.Close()
			i.Close()
			if _, err := i.Dup(); !errors.Is(err, ErrClosed) {
				t.Errorf("copy of a closed description: %v", err)
			}
		}
	}
}

func TestGetInfoErrorsNameTheirCause(t *testing.T) {
	for _, c := range []struct {
		query Query
		part  string
	}{
		{Query{Provider: "tcp", Address: "host.example"}, "host.example"},
		{Query{Provider: "nonesuch"}, "nonesuch"},
		{Query{Provider: "nonesuch", Address: "127.0.0.1"}, "127.0.0.1"},
	} {
		i, err := GetInfo(c.query)
		if err == nil {
			i.Close()
			t.Errorf("%+v is found", c.query)
		} else if !strings.Contains(err.Error(), c.part) {
			t.Errorf("%+v: %v", c.query, err)
		}
	}
}

func TestErrno(t *testing.T) {
	if err := check(-111, "connect"); !errors.Is(err, syscall.ECONNREFUSED) || !errors.Is(err, ErrRefused) || errors.Is(err, syscall.EPERM) {
		t.Errorf("%v", err)
	}
	if check(0, "") != nil {
		t.Error("0 is an error")
	}
}

// objects is one of everything, not connected.
type objects struct {
	info     *Info
	fabric   *Fabric
	events   *EventQueue
	queue    *CompletionQueue
	poller   *Poller
	listener *Listener
	memory   *Memory
	writes   *Writes
	mapped   []byte
}

func open(t *testing.T) *objects {
	t.Helper()
	o := &objects{}
	var err error
	must := func() {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	o.info, err = GetInfo(Query{Provider: "tcp", Address: "127.0.0.1", Role: Receiver})
	must()
	o.fabric, err = Open(o.info)
	must()
	o.events, err = o.fabric.OpenEventQueue(4)
	must()
	o.queue, err = o.fabric.OpenCompletionQueue(16)
	must()
	o.poller, err = o.fabric.NewPoller(o.events, 16)
	must()
	o.poller.Watch(o.queue)
	o.listener, err = o.fabric.Listen(o.info, o.events)
	must()
	o.mapped, err = unix.Mmap(-1, 0, 8192, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	must()
	o.memory, err = o.fabric.Register(o.info, o.mapped, AccessTarget, 77)
	must()
	o.writes, err = NewWrites(4)
	must()
	return o
}

func (o *objects) close(t *testing.T) {
	t.Helper()
	o.writes.Close()
	err := errors.Join(o.memory.Close(), o.listener.Close(), o.queue.Close(), o.events.Close(), o.fabric.Close())
	o.poller.Close()
	o.info.Close()
	if err != nil {
		t.Fatal(err)
	}
}

// TestUseAfterClose: every Close may be repeated, and everything else says ErrClosed.
func TestUseAfterClose(t *testing.T) {
	o := open(t)
	e := &Endpoint{}
	if o.memory.Len() != 8192 || o.memory.RemoteAddress() != 0 {
		t.Errorf("region of %d bytes at %d", o.memory.Len(), o.memory.RemoteAddress())
	}
	o.close(t)
	o.close(t)
	_, address := o.listener.Address()
	_, queue := o.fabric.OpenCompletionQueue(1)
	_, events := o.fabric.OpenEventQueue(1)
	_, register := o.fabric.Register(&Info{}, o.mapped, AccessSource, 1)
	_, poll := o.poller.Poll(0)
	_, poller := o.fabric.NewPoller(o.events, 1)
	_, listen := o.fabric.Listen(o.info, o.events)
	_, endpoint := o.fabric.OpenEndpoint(o.info, o.events, o.queue, o.queue)
	_, receives := e.PostReceives(o.memory, 1)
	_, fabric := Open(o.info)
	for what, err := range map[string]error{
		"address": address, "completion queue": queue, "event queue": events, "register": register, "poll": poll,
		"poller": poller, "listen": listen, "endpoint": endpoint, "receives": receives, "open": fabric,
		"connect": e.Connect([]byte{1}, nil), "accept": e.Accept(nil), "shutdown": e.Shutdown(), "reject": o.listener.Reject(o.info),
	} {
		if !errors.Is(err, ErrClosed) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if err := unix.Munmap(o.mapped); err != nil {
		t.Error(err)
	}
}

// TestPollWaits: a wait lasts as long as asked, to the fraction of a millisecond that
// fi_cq_sread does not have, and ends at once when the lane is woken.
func TestPollWaits(t *testing.T) {
	o := open(t)
	defer o.close(t)
	start := time.Now()
	if n, err := o.poller.Poll(1500 * time.Microsecond); n != 0 || err != nil {
		t.Fatal(n, err)
	}
	if took := time.Since(start); took < 1400*time.Microsecond || took > 500*time.Millisecond {
		t.Errorf("waited %v", took)
	}
	if _, err := unix.Write(o.poller.WakeFD(), []byte{1, 0, 0, 0, 0, 0, 0, 0}); err != nil {
		t.Fatal(err)
	}
	start = time.Now()
	if _, err := o.poller.Poll(5 * time.Second); err != nil || !o.poller.Woken() || time.Since(start) > time.Second {
		t.Errorf("woken %v after %v, %v", o.poller.Woken(), time.Since(start), err)
	}
	if _, err := o.poller.Poll(0); err != nil || o.poller.Woken() {
		t.Errorf("woken twice, %v", err)
	}
}

// TestSegmentOutsideItsRegion cannot reach the library.
func TestSegmentOutsideItsRegion(t *testing.T) {
	o := open(t)
	defer o.close(t)
	for _, c := range [][2]uint64{{0, 8193}, {8192, 1}, {8193, 0}, {1 << 63, 1 << 63}, {1, ^uint64(0)}} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("segment %d+%d is taken", c[0], c[1])
				}
			}()
			o.writes.Reset()
			o.writes.c[0].ep = nil
			o.writes.count = 1
			o.writes.Segment(o.memory, c[0], c[1])
		}()
	}
}

func TestPortOfInfo(t *testing.T) {
	o := open(t)
	defer o.close(t)
	free, err := o.listener.Address()
	if err != nil {
		t.Fatal(err)
	}
	port := int(free[2])<<8 | int(free[3])
	i, err := o.info.WithPort(port)
	if err != nil {
		t.Fatal(err)
	}
	defer i.Close()
	if l, err := o.fabric.Listen(i, o.events); !errors.Is(err, ErrAddressInUse) {
		l.Close()
		t.Errorf("a second listener on port %d: %v", port, err)
	}
}
