package mirror

import (
	"errors"
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// errNoMaps reports a process without memory of its own: a kernel thread, a
// zombie, or a main thread that has ended.
var errNoMaps = errors.New("no maps")

// mapsQuery is struct procmap_query of linux/fs.h (Linux 6.11).
type mapsQuery struct {
	size, flags, addr                         uint64
	start, end, vmaFlags, pageSize, vmaOffset uint64
	inode                                     uint64
	major, minor                              uint32
	nameSize, buildIDSize                     uint32
	nameAddr, buildIDAddr                     uint64
}

const (
	// PROCMAP_QUERY: _IOWR('f', 17, struct procmap_query).
	ioctlMapsQuery = 3<<30 | uint(unsafe.Sizeof(mapsQuery{}))<<16 | 'f'<<8 | 17
	// PROCMAP_QUERY_COVERING_OR_NEXT_VMA | PROCMAP_QUERY_FILE_BACKED_VMA.
	nextFileMapping = 0x10 | 0x20
	// PROCMAP_QUERY_VMA_SHARED: as a filter in flags, as a property in vmaFlags.
	sharedMapping = 0x08
)

// maps calls found for every mapping of a file of one process until it wants no
// more: by query where the kernel has it, which formats no paths, else from the
// text.
func (s *scan) maps(proc int, path string, found func(FileID) (more bool)) error {
	fd, err := retry(func() (int, error) { return unix.Openat(proc, path, unix.O_RDONLY|unix.O_CLOEXEC, 0) })
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if !s.check.text {
		err := s.queryMaps(fd, found)
		switch {
		case err == nil:
			return nil
		case errors.Is(err, unix.ENOTTY), errors.Is(err, unix.EINVAL), errors.Is(err, unix.ENOSYS):
			s.check.text = true
		case errors.Is(err, unix.ESRCH):
			return errNoMaps
		default:
			return err
		}
	}
	return s.readMaps(fd, found)
}

// queryMaps walks the file mappings by query; in a quick scan the shared ones,
// which MXL readers make (MXL format reference §4.4) and libraries are not.
func (s *scan) queryMaps(fd int, found func(FileID) bool) error {
	flags := uint64(nextFileMapping)
	if s.quick {
		flags |= sharedMapping
	}
	var q mapsQuery
	for addr := uint64(0); ; addr = q.end {
		q = mapsQuery{size: uint64(unsafe.Sizeof(q)), flags: flags, addr: addr}
		_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), uintptr(ioctlMapsQuery), uintptr(unsafe.Pointer(&q)))
		switch {
		case errno == unix.EINTR:
			q.end = addr
			continue
		case errno == unix.ENOENT: // no further mapping
			return nil
		case errno != 0:
			return errno
		case q.end <= addr:
			return fmt.Errorf("the kernel gave a mapping that ends at %#x after %#x", q.end, addr)
		}
		s.private = q.vmaFlags&sharedMapping == 0
		if q.inode != 0 && !found(FileID{Dev: deviceNumber(q.major, q.minor), Ino: q.inode}) {
			return nil
		}
	}
}

// readMaps parses the text.
func (s *scan) readMaps(fd int, found func(FileID) bool) error {
	s.private = false
	each := func(id FileID) { found(id) }
	total := 0
	for {
		n, err := retry(func() (int, error) { return unix.Read(fd, s.check.buffer) })
		if err != nil {
			s.parser = mapsParser{}
			return err
		}
		if n == 0 {
			break
		}
		total += n
		s.parser.feed(s.check.buffer[:n], each)
	}
	if bad := s.parser.end(each); bad > 0 {
		return fmt.Errorf("%d lines of its maps are not understood", bad)
	}
	if total == 0 {
		return errNoMaps
	}
	return nil
}
