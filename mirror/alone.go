package mirror

import (
	"os"

	"github.com/google/uuid"
	"golang.org/x/sys/unix"
)

// alone says whether no process, this one included, has any of these files of a
// flow, or of the whole domain, open or mapped: the kernel grants a write lease
// on a file only then (fcntl(2), F_SETLEASE), and a mapping keeps its file open
// whatever way it was made and in whatever namespace. False says nothing: a
// file may be open and not mapped, leases may not be had on this file system, or
// for files of another user.
//
// Each lease is held for about a microsecond. Whoever opens the file just then
// waits for it; with O_NONBLOCK the open has to be tried again, as the mxl package
// does.
func (d *domainDirectory) alone(k Key, files map[FileID]Key) bool {
	free := map[FileID]bool{}
	ok := true
	if k.FlowID == uuid.Nil {
		ok = leaseAll(d.dir, free, 0)
	} else if dir, err := openBelow(d.dir, flowDir(k.FlowID)); err == nil {
		ok = leaseAll(dir, free, 1)
		_ = dir.Close()
	} else {
		return false
	}
	for f := range files {
		ok = ok && free[f]
	}
	return ok
}

// leaseAll notes the regular files below a directory that nobody has open. It
// stops at the first that somebody has.
func leaseAll(dir *os.File, free map[FileID]bool, level int) bool {
	list, err := names(dir)
	if err != nil || level > deepest {
		return false
	}
	for _, name := range list {
		var st unix.Stat_t
		if unix.Fstatat(int(dir.Fd()), name, &st, unix.AT_SYMLINK_NOFOLLOW) != nil {
			return false
		}
		switch st.Mode & unix.S_IFMT {
		case unix.S_IFREG:
			f, ok := lease(dir, name)
			if !ok {
				return false
			}
			free[f] = true
		case unix.S_IFDIR:
			sub, err := openBelow(dir, name)
			if err != nil {
				return false
			}
			ok := leaseAll(sub, free, level+1)
			_ = sub.Close()
			if !ok {
				return false
			}
		}
	}
	return true
}

// lease takes a write lease on a file and gives it back.
func lease(dir *os.File, name string) (FileID, bool) {
	const flags = unix.O_RDONLY | unix.O_NOFOLLOW | unix.O_NONBLOCK | unix.O_CLOEXEC
	fd, err := retry(func() (int, error) { return unix.Openat(int(dir.Fd()), name, flags, 0) })
	if err != nil {
		return FileID{}, false
	}
	defer unix.Close(fd) // gives it back too
	var st unix.Stat_t
	if unix.Fstat(fd, &st) != nil || st.Mode&unix.S_IFMT != unix.S_IFREG {
		return FileID{}, false
	}
	if takeLease(fd) != nil {
		return FileID{}, false
	}
	_, err = unix.FcntlInt(uintptr(fd), unix.F_SETLEASE, unix.F_UNLCK)
	return FileID{Dev: st.Dev, Ino: st.Ino}, err == nil
}

// takeLease takes a write lease on an open file. The kernel tells its holder of an
// open that waits for it by a signal, SIGIO unless another one is asked for. On a
// thread that is not Go's, as libraries make them, SIGIO would end the process;
// SIGURG is ignored everywhere.
func takeLease(fd int) error {
	if _, err := unix.FcntlInt(uintptr(fd), unix.F_SETSIG, int(unix.SIGURG)); err != nil {
		return err
	}
	_, err := unix.FcntlInt(uintptr(fd), unix.F_SETLEASE, unix.F_WRLCK)
	return err
}
