package mirror

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"golang.org/x/sys/unix"
)

// openBelow opens a directory directly below dir without following a symbolic
// link and without crossing a mount: what is behind either is not ours. name is
// a single path component.
func openBelow(dir *os.File, name string) (*os.File, error) {
	const flags = unix.O_RDONLY | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC
	how := unix.OpenHow{Flags: flags, Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_XDEV}
	fd, err := retry(func() (int, error) { return unix.Openat2(int(dir.Fd()), name, &how) })
	if errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EPERM) {
		// Before Linux 5.6, or a container runtime whose filter does not know
		// the call.
		fd, err = retry(func() (int, error) { return unix.Openat(int(dir.Fd()), name, flags, 0) })
		if err == nil && !sameDevice(fd, int(dir.Fd())) {
			_ = unix.Close(fd)
			err = unix.EXDEV
		}
	}
	if err != nil {
		return nil, &os.PathError{Op: "open directory", Path: dir.Name() + "/" + name, Err: err}
	}
	return os.NewFile(uintptr(fd), dir.Name()+"/"+name), nil
}

// notADirectory says whether openBelow failed because of what is there, not
// because nothing is there or for want of rights or descriptors.
func notADirectory(err error) bool {
	return errors.Is(err, unix.ELOOP) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.EXDEV)
}

// errNotPlain reports a file that is none we would write: a link, a device, too
// large.
var errNotPlain = errors.New("not a small regular file")

// readBelow reads a small regular file in dir; no symbolic link, no device:
// errNotPlain.
func readBelow(dir *os.File, name string) ([]byte, os.FileInfo, error) {
	path := dir.Name() + "/" + name
	const flags = unix.O_RDONLY | unix.O_NOFOLLOW | unix.O_NONBLOCK | unix.O_CLOEXEC
	fd, err := retry(func() (int, error) { return unix.Openat(int(dir.Fd()), name, flags, 0) })
	if errors.Is(err, unix.ELOOP) || errors.Is(err, unix.ENXIO) {
		return nil, nil, fmt.Errorf("%s: %w", path, errNotPlain)
	}
	if err != nil {
		return nil, nil, &os.PathError{Op: "open", Path: path, Err: err}
	}
	f := os.NewFile(uintptr(fd), path)
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, nil, fmt.Errorf("%s: %w", path, errNotPlain)
	}
	text, err := io.ReadAll(io.LimitReader(f, largestText+1))
	if err != nil {
		return nil, nil, fmt.Errorf("read %s: %w", path, err)
	}
	if len(text) > largestText {
		return nil, nil, fmt.Errorf("%s: %w: more than %d bytes", path, errNotPlain, largestText)
	}
	return text, info, nil
}

// writeBelow makes a file in dir, readable for other users' readers whatever our
// umask is.
func writeBelow(dir *os.File, name string, text []byte) error {
	path := dir.Name() + "/" + name
	const flags = unix.O_WRONLY | unix.O_CREAT | unix.O_EXCL | unix.O_NOFOLLOW | unix.O_CLOEXEC
	fd, err := retry(func() (int, error) { return unix.Openat(int(dir.Fd()), name, flags, 0o644) })
	if err != nil {
		return &os.PathError{Op: "create", Path: path, Err: err}
	}
	f := os.NewFile(uintptr(fd), path)
	_, err = f.Write(text)
	return errors.Join(err, f.Chmod(0o644), f.Close())
}

// names lists a directory, from its start.
func names(dir *os.File) ([]string, error) {
	if _, err := dir.Seek(0, io.SeekStart); err != nil {
		return nil, fmt.Errorf("list %s: %w", dir.Name(), err)
	}
	list, err := dir.Readdirnames(-1)
	if err != nil {
		return nil, fmt.Errorf("list %s: %w", dir.Name(), err)
	}
	return list, nil
}

// fileIDOf identifies an open file or directory.
func fileIDOf(f *os.File) (FileID, error) {
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return FileID{}, fmt.Errorf("stat %s: %w", f.Name(), err)
	}
	return FileID{Dev: st.Dev, Ino: st.Ino}, nil
}

// deepest is how many directory levels there can be below a domain: flow,
// grains, with two to spare.
const deepest = 4

// empty removes everything in dir; names in last go last. It follows no link
// and stops at a mount.
func empty(dir *os.File, level int, last ...string) error {
	if level > deepest {
		return fmt.Errorf("%s is nested too deeply for a mirror", dir.Name())
	}
	list, err := names(dir)
	if err != nil {
		return err
	}
	for _, name := range list {
		if !slices.Contains(last, name) {
			if err := removeEntry(dir, name, level); err != nil {
				return err
			}
		}
	}
	for _, name := range last {
		if err := removeEntry(dir, name, level); err != nil {
			return err
		}
	}
	return nil
}

func removeEntry(dir *os.File, name string, level int) error {
	err := unix.Unlinkat(int(dir.Fd()), name, 0)
	if errors.Is(err, unix.EISDIR) {
		err = removeDir(dir, name, level)
	}
	if err == nil || errors.Is(err, unix.ENOENT) {
		return nil
	}
	return fmt.Errorf("remove %s/%s: %w", dir.Name(), name, err)
}

// removeDir removes a directory below dir with all that is in it.
func removeDir(dir *os.File, name string, level int) error {
	sub, err := openBelow(dir, name)
	if err != nil {
		return err
	}
	defer sub.Close()
	if err := empty(sub, level+1); err != nil {
		return err
	}
	return unix.Unlinkat(int(dir.Fd()), name, unix.AT_REMOVEDIR)
}

func sameDevice(a, b int) bool {
	var sa, sb unix.Stat_t
	return unix.Fstat(a, &sa) == nil && unix.Fstat(b, &sb) == nil && sa.Dev == sb.Dev
}

// retry repeats a call that a signal interrupted (the Go runtime sends SIGURG to
// its own threads) or that openat2 gave up because of a rename nearby.
func retry(call func() (int, error)) (n int, err error) {
	for range 100 {
		n, err = call()
		if !errors.Is(err, unix.EINTR) && !errors.Is(err, unix.EAGAIN) {
			break
		}
	}
	return n, err
}
