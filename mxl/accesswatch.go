package mxl

import (
	"os"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// accessPause is how long events are let pile up between two looks: readers touch the file at every grain, and
// lastReadTime needs no better resolution (the SDK's watcher ticks every 250 ms).
const accessPause = 50 * time.Millisecond

// AccessWatch notices readers of the flows written by this process and notes the time in lastReadTime
// (MXL format reference §10). One inotify instance and one goroutine serve any number of flows and domains; they exist
// while there is a discrete writer. It is safe for concurrent use.
type AccessWatch struct {
	mu      sync.Mutex
	running *accessRun
}

// NewAccessWatch returns a watch for WithAccessWatch.
func NewAccessWatch() *AccessWatch { return &AccessWatch{} }

// accessRun is one life of the watch, from its first writer to its last.
type accessRun struct {
	file    *os.File
	fd      int
	entries map[int32][]*accessEntry
	stop    chan struct{}
	done    chan struct{}
}

// accessEntry is one writer; two writers of a flow share the kernel's watch.
type accessEntry struct {
	watch    *AccessWatch
	run      *accessRun
	wd       int32
	lastRead *uint64
}

// add watches the access file of a flow. A watch that cannot be had (the limits of inotify) is no reason to refuse a
// writer: lastReadTime then stays. The result is nil in this case.
func (a *AccessWatch) add(path string, lastRead *uint64) *accessEntry {
	a.mu.Lock()
	defer a.mu.Unlock()
	run := a.running
	if run == nil {
		fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
		if err != nil {
			return nil
		}
		run = &accessRun{
			file: os.NewFile(uintptr(fd), "inotify"), fd: fd, entries: map[int32][]*accessEntry{},
			stop: make(chan struct{}), done: make(chan struct{}),
		}
		a.running = run
		go run.read(a)
	}
	wd, err := unix.InotifyAddWatch(run.fd, path, unix.IN_ACCESS|unix.IN_ATTRIB|unix.IN_DONT_FOLLOW)
	if err != nil {
		done := a.endIfIdle(run)
		_ = done // its goroutine ends by itself
		return nil
	}
	e := &accessEntry{a, run, int32(wd), lastRead}
	run.entries[e.wd] = append(run.entries[e.wd], e)
	return e
}

// endIfIdle ends a run without writers and returns its done channel, nil when it goes on. The caller holds the lock.
func (a *AccessWatch) endIfIdle(run *accessRun) <-chan struct{} {
	if len(run.entries) > 0 {
		return nil
	}
	a.running = nil
	close(run.stop)
	run.file.Close()
	return run.done
}

// remove ends the watch for one writer; after it the writer's memory is not touched any more.
func (e *accessEntry) remove() {
	if e == nil {
		return
	}
	a, run := e.watch, e.run
	a.mu.Lock()
	var left []*accessEntry
	for _, other := range run.entries[e.wd] {
		if other != e {
			left = append(left, other)
		}
	}
	if len(left) > 0 {
		run.entries[e.wd] = left
	} else {
		delete(run.entries, e.wd)
		// Fails when the file is gone, and the watch with it.
		_, _ = unix.InotifyRmWatch(run.fd, uint32(e.wd))
	}
	done := a.endIfIdle(run)
	a.mu.Unlock()
	if done != nil {
		<-done
	}
}

// read looks at events until the run ends.
func (r *accessRun) read(a *AccessWatch) {
	defer close(r.done)
	buf := make([]byte, 64<<10)
	for {
		n, err := r.file.Read(buf)
		if err != nil {
			return
		}
		a.mu.Lock()
		if a.running == r {
			r.note(buf[:n], Now())
		}
		a.mu.Unlock()
		select {
		case <-r.stop:
			return
		case <-time.After(accessPause):
		}
	}
}

// note stores the time for every flow that an event names.
func (r *accessRun) note(events []byte, now uint64) {
	for len(events) >= unix.SizeofInotifyEvent {
		ev := (*unix.InotifyEvent)(unsafe.Pointer(&events[0]))
		if ev.Mask&(unix.IN_ACCESS|unix.IN_ATTRIB) != 0 {
			for _, e := range r.entries[ev.Wd] {
				storeGuarded(e.lastRead, now)
			}
		}
		events = events[min(len(events), unix.SizeofInotifyEvent+int(ev.Len)):]
	}
}

// storeGuarded survives a data file that somebody truncated; the writer itself finds out.
func storeGuarded(word *uint64, v uint64) (err error) {
	defer recoverFault(debug.SetPanicOnFault(true), &err)
	atomic.StoreUint64(word, v)
	return nil
}
