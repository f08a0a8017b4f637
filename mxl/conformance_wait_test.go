package mxl

import (
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestConformance32FutexIsShared(t *testing.T) {
	d := newDomain(t, 0)
	w := newGrainWriter(t, d, dataDef(50, 1))
	// The child is another process and maps the word read-only.
	c := startChild(t, "wait", nil, childDomain+"="+d.Path(), childID+"="+w.ID().String())
	if got := c.line(t); got != "ready" {
		t.Fatal(got)
	}
	eventually(t, "child asleep in futex", 10*time.Second, func() bool { return inFutex(c.cmd.Process.Pid) })
	write(t, w, 1, 1)
	if got := c.line(t); got != "true true" {
		t.Errorf("woken and in time: %s", got)
	}
}

func TestConformance33InterruptionsDoNotEndAWait(t *testing.T) {
	d := newDomain(t, 0)
	w := newGrainWriter(t, d, dataDef(50, 1))
	r := newGrainReader(t, d, w.ID())
	const timeout = 200 * time.Millisecond
	tid, result := make(chan int), make(chan time.Duration)
	go func() {
		runtime.LockOSThread()
		tid <- unix.Gettid()
		start := time.Now()
		seen := r.Sync()
		now, err := r.WaitSync(seen, timeout)
		if err != nil || now != seen {
			t.Errorf("counter %d, want %d, %v", now, seen, err)
		}
		result <- time.Since(start)
	}()
	thread := <-tid
	sent := 0
	for {
		select {
		case took := <-result:
			if took < timeout || sent < 50 {
				t.Errorf("the wait ended after %v and %d signals, want %v", took, sent, timeout)
			}
			return
		case <-time.After(time.Millisecond):
			if err := unix.Tgkill(unix.Getpid(), thread, unix.SIGURG); err != nil {
				t.Fatal(err)
			}
			sent++
		}
	}
}

func TestConformance33CounterThatMovedEndsAtOnce(t *testing.T) {
	d := newDomain(t, 0)
	w := newGrainWriter(t, d, dataDef(50, 1))
	r := newGrainReader(t, d, w.ID())
	seen := r.Sync()
	write(t, w, 1, 1)
	start := time.Now()
	if now, err := r.WaitSync(seen, 30*time.Second); err != nil || now == seen || time.Since(start) > 10*time.Second {
		t.Errorf("counter %d after %v, %v", now, time.Since(start), err)
	}
	if now, err := r.WaitSync(r.Sync(), 0); err != nil || now != r.Sync() {
		t.Errorf("no timeout: %v", err)
	}
}

func TestConformance34CounterIsLoadedBeforeTheHead(t *testing.T) {
	d := newDomain(t, 0)
	w := newGrainWriter(t, d, dataDef(50, 1))
	r := newGrainReader(t, d, w.ID())
	r.slice = 30 * time.Second
	start, looks := time.Now(), 0
	err := r.await(20*time.Second, func() error {
		looks++
		_, err := r.look(1, AllSlices)
		if looks == 1 {
			write(t, w, 1, 1) // the commit falls between the check and the wait
		}
		return err
	})
	if took := time.Since(start); err != nil || looks != 2 || took > 10*time.Second {
		t.Errorf("%d looks in %v, %v", looks, took, err)
	}
}

func TestWaitGivesUpInTime(t *testing.T) {
	d := newDomain(t, 0)
	w := newGrainWriter(t, d, dataDef(50, 1))
	r := newGrainReader(t, d, w.ID())
	start := time.Now()
	if _, err := r.WaitGrain(1, AllSlices, 60*time.Millisecond); err != ErrTooEarly {
		t.Error(err)
	}
	if took := time.Since(start); took < 60*time.Millisecond {
		t.Errorf("gave up after %v", took)
	}
	if _, err := r.WaitGrain(1, AllSlices, 0); err != ErrTooEarly {
		t.Error(err)
	}
}
