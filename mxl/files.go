package mxl

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// maxTextSize bounds the JSON files read from a domain: real ones have a few KiB.
const maxTextSize = 1 << 20

// lockRetry is how long a shared lock is tried: a prober holds the exclusive lock for microseconds
// (MXL format reference §6, §11).
const lockRetry = 100 * time.Millisecond

// openDir opens a directory below dirFD (or AT_FDCWD) and refuses a symbolic link as its last component.
func openDir(dirFD int, name string) (int, error) {
	return openAt(dirFD, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
}

// openAt opens without blocking on fifos and without leaking into children; EINTR is retried, and for lockRetry a file on
// which somebody has a lease: who looks whether anybody has it open holds one for microseconds (fcntl(2), F_SETLEASE).
func openAt(dirFD int, name string, flags int, mode uint32) (int, error) {
	var deadline time.Time
	for {
		fd, err := unix.Openat(dirFD, name, flags|unix.O_CLOEXEC|unix.O_NONBLOCK, mode)
		switch {
		case err == unix.EINTR:
			continue
		case err != unix.EWOULDBLOCK:
			return fd, err
		case deadline.IsZero():
			deadline = time.Now().Add(lockRetry)
		case time.Now().After(deadline):
			return fd, err
		}
		time.Sleep(50 * time.Microsecond)
	}
}

// openRegular opens an existing regular file and returns its size and identity.
func openRegular(dirFD int, name string, flags int) (int, unix.Stat_t, error) {
	var st unix.Stat_t
	fd, err := openAt(dirFD, name, flags|unix.O_NOFOLLOW, 0)
	if err != nil {
		return -1, st, err
	}
	if err := unix.Fstat(fd, &st); err != nil {
		unix.Close(fd)
		return -1, st, err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		unix.Close(fd)
		return -1, st, errors.New("is not a regular file")
	}
	return fd, st, nil
}

// readText reads a small regular file below dirFD.
func readText(dirFD int, dir, name string) ([]byte, error) {
	path := filepath.Join(dir, name)
	fd, st, err := openRegular(dirFD, name, unix.O_RDONLY)
	if err != nil {
		return nil, fileError("read", path, err)
	}
	defer unix.Close(fd)
	if st.Size > maxTextSize {
		return nil, malformed(path, "has %d bytes, more than %d", st.Size, maxTextSize)
	}
	text, err := io.ReadAll(io.NewSectionReader(preader(fd), 0, maxTextSize+1))
	if err != nil {
		return nil, fileError("read", path, err)
	}
	if len(text) > maxTextSize {
		return nil, malformed(path, "has more than %d bytes", maxTextSize)
	}
	return text, nil
}

// preader reads a descriptor at offsets.
type preader int

// ReadAt implements io.ReaderAt.
func (fd preader) ReadAt(b []byte, off int64) (int, error) {
	n := 0
	for n < len(b) {
		m, err := unix.Pread(int(fd), b[n:], off+int64(n))
		switch {
		case err == unix.EINTR:
		case err != nil:
			return n, err
		case m == 0:
			return n, io.EOF
		default:
			n += m
		}
	}
	return n, nil
}

// lockShared takes the writer's lock, and tries for lockRetry while a prober holds the exclusive one.
func lockShared(fd int) error {
	deadline := time.Now().Add(lockRetry)
	for {
		err := flock(fd, unix.LOCK_SH|unix.LOCK_NB)
		if err != unix.EWOULDBLOCK || time.Now().After(deadline) {
			return err
		}
		time.Sleep(time.Millisecond)
	}
}

func flock(fd, how int) error {
	for {
		if err := unix.Flock(fd, how); err != unix.EINTR {
			return err
		}
	}
}

// allocate makes sure that every block of a file exists, so that a full file system shows here and not as SIGBUS later.
func allocate(fd int, size int64) error {
	for {
		err := unix.Fallocate(fd, 0, 0, size)
		switch err {
		case unix.EINTR:
			continue
		case unix.EOPNOTSUPP, unix.ENOSYS:
			return fillZero(fd, size)
		}
		return err
	}
}

// fillZero allocates on file systems without fallocate, as posix_fallocate does.
func fillZero(fd int, size int64) error {
	zero := make([]byte, 1<<20)
	for off := int64(0); off < size; {
		n, err := unix.Pwrite(fd, zero[:min(int64(len(zero)), size-off)], off)
		if err != nil && err != unix.EINTR {
			return err
		}
		off += int64(max(n, 0))
	}
	return nil
}

// mapFile maps the first size bytes of a file.
func mapFile(fd int, size int, write bool) ([]byte, error) {
	prot := unix.PROT_READ
	if write {
		prot |= unix.PROT_WRITE
	}
	mem, err := unix.Mmap(fd, 0, size, prot, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("map %d bytes: %w", size, err)
	}
	return mem, nil
}

func unmap(mem *[]byte) {
	if *mem != nil {
		// Munmap fails only for memory that Mmap did not return.
		_ = unix.Munmap(*mem)
		*mem = nil
	}
}

func closeFD(fd *int) {
	if *fd >= 0 {
		unix.Close(*fd)
		*fd = -1
	}
}
