package mxl

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// scanFileID names a file whatever it is called.
type scanFileID struct{ device, inode uint64 }

// scanStamp changes when the content of a file may have changed: enough to decide whether to read it again.
type scanStamp struct {
	scanFileID
	size         int64
	mtime, ctime unix.Timespec
}

func scanStampOf(st *unix.Stat_t) scanStamp {
	return scanStamp{scanFileID: scanFileID{uint64(st.Dev), st.Ino}, size: st.Size, mtime: st.Mtim, ctime: st.Ctim}
}

// scanRoot opens files below an MXL root and never outside it: no component of a path may be a symbolic link. Nothing is
// mapped, so a file that shrinks is a short read and not a fault.
type scanRoot struct {
	fd int
	id scanFileID
	// stepwise is set once the kernel (before 5.6) or a seccomp filter refused openat2.
	stepwise atomic.Bool
}

// openScanRoot opens the root directory itself; the root may be reached through symbolic links.
func openScanRoot(root string) (*scanRoot, error) {
	fd, err := unix.Open(root, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("open mxl root %s: %w", root, err)
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		unix.Close(fd)
		return nil, fmt.Errorf("stat mxl root %s: %w", root, err)
	}
	return &scanRoot{fd: fd, id: scanFileID{uint64(st.Dev), st.Ino}}, nil
}

// sameAs says whether root still names the directory that is open.
func (t *scanRoot) sameAs(root string) bool {
	var st unix.Stat_t
	return unix.Stat(root, &st) == nil && t.id == scanFileID{uint64(st.Dev), st.Ino}
}

func (t *scanRoot) close() { unix.Close(t.fd) }

// open opens the slash separated path rel. O_NONBLOCK keeps a FIFO in the place of a file from blocking the scan.
func (t *scanRoot) open(rel string, flags int) (int, error) {
	flags |= unix.O_CLOEXEC | unix.O_NOFOLLOW
	if flags&(unix.O_DIRECTORY|unix.O_PATH) == 0 {
		flags |= unix.O_NONBLOCK
	}
	if !t.stepwise.Load() {
		how := unix.OpenHow{Flags: uint64(flags), Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS}
		for {
			fd, err := unix.Openat2(t.fd, rel, &how)
			switch {
			case err == unix.EINTR || err == unix.EAGAIN: // EAGAIN: a rename raced with the lookup
				continue
			case err == unix.ENOSYS || err == unix.EPERM:
				// EPERM is also what old container runtimes answer for a system call they do not know.
				t.stepwise.Store(true)
				return t.openStepwise(rel, flags)
			}
			return fd, err
		}
	}
	return t.openStepwise(rel, flags)
}

// openStepwise is open for kernels without openat2: one component at a time, none of them a symbolic link.
func (t *scanRoot) openStepwise(rel string, flags int) (int, error) {
	at := t.fd
	for {
		first, rest, more := strings.Cut(rel, "/")
		if first == ".." {
			return -1, unix.EXDEV
		}
		f := flags
		if more {
			f = unix.O_PATH | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC
		}
		fd, err := unix.Openat(at, first, f, 0)
		if at != t.fd {
			unix.Close(at)
		}
		if err != nil || !more {
			return fd, err
		}
		at, rel = fd, rest
	}
}

// isLink says whether the entry name of the root is a symbolic link.
func (t *scanRoot) isLink(name string) bool {
	var st unix.Stat_t
	return unix.Fstatat(t.fd, name, &st, unix.AT_SYMLINK_NOFOLLOW) == nil && st.Mode&unix.S_IFMT == unix.S_IFLNK
}

// errScanNotRegular, errScanTooLarge and errScanLink are what read says about a file it does not take.
var (
	errScanNotRegular = errors.New("not a regular file")
	errScanTooLarge   = errors.New("too large")
	errScanLink       = errors.New("a symbolic link")
)

// read returns the content of the regular file rel of at most limit bytes.
func (t *scanRoot) read(rel string, limit int64) ([]byte, scanStamp, error) {
	fd, err := t.open(rel, unix.O_RDONLY)
	if err != nil {
		return nil, scanStamp{}, scanPlain(err)
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return nil, scanStamp{}, err
	}
	stamp := scanStampOf(&st)
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		return nil, stamp, errScanNotRegular
	}
	if st.Size > limit {
		return nil, stamp, fmt.Errorf("%w: %d bytes, at most %d are read", errScanTooLarge, st.Size, limit)
	}
	b := make([]byte, 0, st.Size+1)
	for {
		if len(b) == cap(b) {
			b = append(b, 0)[:len(b)]
		}
		n, err := unix.Read(fd, b[len(b):cap(b)])
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return nil, stamp, err
		}
		if n == 0 {
			return b, stamp, nil
		}
		b = b[:len(b)+n]
		if int64(len(b)) > limit {
			return nil, stamp, fmt.Errorf("%w: more than %d bytes", errScanTooLarge, limit)
		}
	}
}

// scanPlain turns the ELOOP that O_NOFOLLOW gives for a symbolic link into words an operator knows.
func scanPlain(err error) error {
	if err == unix.ELOOP {
		return errScanLink
	}
	return err
}

// dir opens the directory rel ("." is the root).
func (t *scanRoot) dir(rel string) (*os.File, error) {
	fd, err := t.open(rel, unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return nil, scanPlain(err)
	}
	return os.NewFile(uintptr(fd), rel), nil
}

// scanEntries returns at most limit entries of a directory; more says that some were left out.
func scanEntries(f *os.File, limit int) (entries []os.DirEntry, more bool, err error) {
	entries, err = f.ReadDir(limit)
	if err != nil && err != io.EOF {
		return nil, false, err
	}
	if len(entries) == limit {
		rest, _ := f.ReadDir(1)
		more = len(rest) > 0
	}
	return entries, more, nil
}

// scanTransient says that an error is about this process or the moment and not about the file: what was known about the
// file stays true.
func scanTransient(err error) bool {
	return errors.Is(err, unix.EMFILE) || errors.Is(err, unix.ENFILE) || errors.Is(err, unix.ENOMEM) || errors.Is(err, unix.EIO)
}
