package fabrics

import (
	"encoding/binary"
	"fmt"
	"log/slog"
	"runtime"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mxl-stack/mxl-fabrics-agent/fabrics/ofi"
)

const (
	// closeLimit bounds how long a lane may take to end.
	closeLimit = time.Second
	// handshakeLimit bounds every state of a connection's handshake.
	handshakeLimit = 2 * time.Second
	// progressLimit is how long a connection may have something in flight without
	// a completion (contract, source "error").
	progressLimit = 2 * time.Second
	// laneSlack is how late a lane's timers may be, Linux's usual (prctl(2)).
	laneSlack = 50 * time.Microsecond
)

// lane is what sources and targets share: one locked thread that owns the
// libfabric objects of one flow.
type lane struct {
	log     *slog.Logger
	epoch   time.Time
	info    *ofi.Info
	device  string // libfabric's name of the interface, e.g. a net device or an RDMA device
	fabric  *ofi.Fabric
	events  *ofi.EventQueue
	poller  *ofi.Poller
	pending commands
	stalls  stallWatch
	stop    bool // set on the lane's thread

	control struct {
		sync.Mutex
		closed bool
	}
	done chan struct{}
}

// open queries the interface and opens fabric, domain, event queue and poller; what
// fails there is a *ProviderError.
func (l *lane) open(p Provider, address string, role ofi.Role, entries int) (err error) {
	l.epoch = time.Now()
	l.done = make(chan struct{})
	if l.log == nil {
		l.log = slog.New(slog.DiscardHandler)
	}
	if err := checkProvider(p); err != nil {
		return err
	}
	if address == "" {
		return fmt.Errorf("provider %s: no fabric address given", p)
	}
	defer func() {
		if err != nil {
			l.release()
		}
	}()
	if l.info, err = ofi.GetInfo(ofi.Query{Provider: string(p), Address: address, Role: role}); err != nil {
		return &ProviderError{interfaceError(p, address, err)}
	}
	l.device = l.info.Device()
	if l.fabric, err = ofi.Open(l.info); err != nil {
		return &ProviderError{fmt.Errorf("provider %s on %s: %w", p, address, err)}
	}
	if l.events, err = l.fabric.OpenEventQueue(64); err != nil {
		return &ProviderError{fmt.Errorf("provider %s on %s: %w", p, address, err)}
	}
	if l.poller, err = l.fabric.NewPoller(l.events, entries); err != nil {
		return &ProviderError{fmt.Errorf("provider %s on %s: %w", p, address, err)}
	}
	return nil
}

// release closes what open opened, on the lane's thread or before it runs.
func (l *lane) release() {
	if err := l.events.Close(); err != nil {
		l.log.Debug("fabric_close_failed", "error", err.Error())
	}
	if l.fabric != nil {
		if err := l.fabric.Close(); err != nil {
			l.log.Debug("fabric_close_failed", "error", err.Error())
		}
	}
	l.info.Close()
}

// start runs body on a thread of its own, which ends with it. prepare runs on that
// thread first and its error is returned.
func (l *lane) start(s Scheduling, prepare func() error, body func()) error {
	ready := make(chan error)
	go func() {
		defer close(l.done)
		// Never unlocked: the thread's scheduling is the lane's own, so the runtime
		// must not give the thread to anyone else afterwards.
		runtime.LockOSThread()
		// The process may have given its threads more (package timerslack).
		if err := unix.Prctl(unix.PR_SET_TIMERSLACK, uintptr(laneSlack), 0, 0, 0); err != nil {
			l.log.Warn("timer_slack_failed", "error", fmt.Sprintf("timer slack %v: %v", laneSlack, err))
		}
		s.apply(l.log)
		l.stalls.starved.open()
		defer l.stalls.starved.close()
		err := prepare()
		ready <- err
		if err == nil {
			body()
		}
	}()
	err := <-ready
	if err != nil {
		<-l.done
		l.poller.Close()
	}
	return err
}

// now is the lane's clock: monotonic nanoseconds since it was opened.
func (l *lane) now() int64 { return int64(time.Since(l.epoch)) }

// do hands run to the lane's thread and wakes it. It reports false when the lane
// is closed.
func (l *lane) do(run func()) bool {
	l.control.Lock()
	defer l.control.Unlock()
	if l.control.closed {
		return false
	}
	l.pending.push(run)
	l.wake()
	return true
}

func (l *lane) wake() {
	var one [8]byte
	binary.NativeEndian.PutUint64(one[:], 1)
	// EAGAIN means that the counter is full: the lane is awake anyway.
	_, _ = unix.Write(l.poller.WakeFD(), one[:])
}

// shut asks the lane to end and waits until its thread is gone.
func (l *lane) shut(run func()) {
	l.control.Lock()
	if l.control.closed {
		l.control.Unlock()
		<-l.done
		return
	}
	l.control.closed = true
	l.pending.push(run)
	l.wake()
	l.control.Unlock()
	<-l.done
	l.poller.Close()
}
