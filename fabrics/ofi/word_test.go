package ofi

import (
	"errors"
	"os"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// mapWord maps a page of a new file twice: as the waiter has it, read-only, and to
// write to. cut shortens the file to nothing.
func mapWord(t *testing.T) (word, writable *uint32, cut func()) {
	t.Helper()
	f, err := os.Create(filepath.Join(t.TempDir(), "word"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	if err := f.Truncate(4096); err != nil {
		t.Fatal(err)
	}
	var maps [2][]byte
	for i, prot := range []int{unix.PROT_READ, unix.PROT_READ | unix.PROT_WRITE} {
		if maps[i], err = unix.Mmap(int(f.Fd()), 0, 4096, prot, unix.MAP_SHARED); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = unix.Munmap(maps[i]) })
	}
	return (*uint32)(unsafe.Pointer(&maps[0][0])), (*uint32)(unsafe.Pointer(&maps[1][0])), func() {
		if err := f.Truncate(0); err != nil {
			t.Error(err)
		}
	}
}

// TestExchangeWaitsForWord: a wait on a word ends when the word changes, whether it
// sleeps on the word or looks at it, not before the time is over otherwise, and with
// an error, not a signal, when the file behind it went.
func TestExchangeWaitsForWord(t *testing.T) {
	const long, soon = 10 * time.Second, 5 * time.Second
	for name, glance := range map[string]time.Duration{"sleep": 0, "glance": time.Millisecond} {
		t.Run(name, func(t *testing.T) {
			o := open(t)
			defer o.close(t)
			o.writes.Reset()
			address, writable, cut := mapWord(t)
			exchange := func(seen uint32, limit time.Duration) time.Duration {
				t.Helper()
				start := time.Now()
				if n, err := o.poller.Exchange(o.writes, limit, Word{Address: address, Seen: seen, Glance: glance}, Hold{}); n != 0 || err != nil {
					t.Fatal(n, err)
				}
				return time.Since(start)
			}
			if took := exchange(0, 5*time.Millisecond); took < 5*time.Millisecond || o.poller.WordError() != nil {
				t.Errorf("waited %v of 5 ms, %v", took, o.poller.WordError())
			}
			if took := exchange(1, long); took > soon {
				t.Errorf("waited %v on a word that had changed", took)
			}
			done := make(chan struct{})
			go func() {
				defer close(done)
				atomic.StoreUint32(writable, 7)
				_, _, _ = unix.Syscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(writable)), 1, 1, 0, 0, 0)
			}()
			if took := exchange(0, long); took > soon {
				t.Errorf("waited %v while the word changed", took)
			}
			<-done
			cut()
			took := exchange(7, long)
			if err := o.poller.WordError(); !errors.Is(err, syscall.EFAULT) || took > soon {
				t.Errorf("file went: %v after %v", err, took)
			}
		})
	}
	t.Run("head", func(t *testing.T) {
		// A writer that moves the head and wakes nobody.
		o := open(t)
		defer o.close(t)
		o.writes.Reset()
		address, writable, cut := mapWord(t)
		head := func(p *uint32) *uint32 { return (*uint32)(unsafe.Add(unsafe.Pointer(p), 64)) }
		w := Word{Address: address, Head: head(address), HeadEvery: time.Millisecond}
		exchange := func(limit time.Duration) time.Duration {
			t.Helper()
			start := time.Now()
			if n, err := o.poller.Exchange(o.writes, limit, w, Hold{}); n != 0 || err != nil {
				t.Fatal(n, err)
			}
			return time.Since(start)
		}
		if took := exchange(5 * time.Millisecond); took < 5*time.Millisecond || o.poller.WordError() != nil {
			t.Errorf("waited %v of 5 ms, %v", took, o.poller.WordError())
		}
		done := make(chan struct{})
		go func() {
			defer close(done)
			atomic.StoreUint32(head(writable), 9)
		}()
		if took := exchange(long); took > soon {
			t.Errorf("waited %v while the head moved", took)
		}
		<-done
		w.HeadSeen = 9
		cut()
		took := exchange(long)
		if err := o.poller.WordError(); !errors.Is(err, syscall.EFAULT) || took > soon {
			t.Errorf("file went: %v after %v", err, took)
		}
	})
	o := open(t)
	o.close(t)
	if _, err := o.poller.Exchange(o.writes, 0, Word{}, Hold{}); !errors.Is(err, ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
}
