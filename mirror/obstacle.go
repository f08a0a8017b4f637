package mirror

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// obstacle looks through everything in an open directory for what a removal
// would stop at, without touching anything: a mount, what may not be unlinked,
// directories nested deeper than a mirror has them. It is asked before the first
// file goes, so that a mirror is removed whole or not at all. *ObstacleError, or
// nil when all can go. level is that of dir as for empty.
func obstacle(dir *os.File, level int) error {
	if level > deepest {
		return &ObstacleError{Path: dir.Name(), Why: "it is nested too deeply for a mirror"}
	}
	self, err := lookAt(int(dir.Fd()), "")
	if err != nil {
		return &os.PathError{Op: "stat", Path: dir.Name(), Err: err}
	}
	list, err := names(dir)
	if err != nil {
		return err
	}
	if len(list) > 0 && unix.Faccessat(int(dir.Fd()), ".", unix.W_OK|unix.X_OK, unix.AT_EACCESS) != nil {
		return &ObstacleError{Path: dir.Name(), Why: "the agent may not remove what is in it"}
	}
	for _, name := range list {
		if err := obstacleAt(dir, name, level, self); err != nil {
			return err
		}
	}
	return nil
}

// obstacleOf is obstacle for one entry of an open directory.
func obstacleOf(dir *os.File, name string) error {
	self, err := lookAt(int(dir.Fd()), "")
	if err != nil {
		return &os.PathError{Op: "stat", Path: dir.Name(), Err: err}
	}
	return obstacleAt(dir, name, 0, self)
}

func obstacleAt(dir *os.File, name string, level int, self unix.Statx_t) error {
	path := dir.Name() + "/" + name
	st, err := lookAt(int(dir.Fd()), name)
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	if err != nil {
		return &os.PathError{Op: "stat", Path: path, Err: err}
	}
	switch {
	case mounted(st, self):
		return &ObstacleError{Path: path, Why: "something is mounted on it"}
	case st.Attributes&(unix.STATX_ATTR_IMMUTABLE|unix.STATX_ATTR_APPEND) != 0:
		return &ObstacleError{Path: path, Why: "it is immutable or append-only"}
	case st.Mode&unix.S_IFMT != unix.S_IFDIR:
		return nil
	}
	sub, err := openBelow(dir, name)
	switch {
	case gone(err):
		return nil
	case errors.Is(err, unix.EXDEV):
		return &ObstacleError{Path: path, Why: "something is mounted on it"}
	case notADirectory(err):
		return nil // it is another thing by now, which can be unlinked
	case err != nil:
		return &ObstacleError{Path: path, Why: err.Error()}
	}
	defer sub.Close()
	return obstacle(sub, level+1)
}

// unmounted refuses a flow in which something is mounted: what is written there
// would go where the mount leads.
func (d *domainDirectory) unmounted(k Key) error {
	dir, err := openBelow(d.dir, flowDir(k.FlowID))
	if err != nil {
		return onlyMount(err)
	}
	defer dir.Close()
	return noMountIn(dir, 0)
}

// noMountIn looks at the files of a flow and of the directories in it.
func noMountIn(dir *os.File, level int) error {
	self, err := lookAt(int(dir.Fd()), "")
	if err != nil {
		return &os.PathError{Op: "stat", Path: dir.Name(), Err: err}
	}
	list, err := names(dir)
	if err != nil {
		return err
	}
	for _, name := range list {
		st, err := lookAt(int(dir.Fd()), name)
		switch {
		case err != nil:
			continue // it went, or who opens the flow says what is wrong
		case mounted(st, self):
			return fmt.Errorf("%s/%s: %w", dir.Name(), name, errMounted)
		case st.Mode&unix.S_IFMT != unix.S_IFDIR || level > 0:
			continue
		}
		sub, err := openBelow(dir, name)
		if err == nil {
			err = noMountIn(sub, level+1)
			_ = sub.Close()
		}
		if err := onlyMount(err); err != nil {
			return err
		}
	}
	return nil
}

// onlyMount leaves every error but a mount to whoever opens the flow.
func onlyMount(err error) error {
	if errors.Is(err, unix.EXDEV) {
		return fmt.Errorf("%w: %w", errMounted, err)
	}
	if errors.Is(err, errMounted) {
		return err
	}
	return nil
}

// errMounted reports a mount in a mirror flow.
var errMounted = errors.New("something is mounted on it")

// lookAt describes an entry of a directory, for an empty name the directory.
func lookAt(dir int, name string) (unix.Statx_t, error) {
	var st unix.Statx_t
	flags := unix.AT_SYMLINK_NOFOLLOW | unix.AT_NO_AUTOMOUNT
	if name == "" {
		flags |= unix.AT_EMPTY_PATH
	}
	_, err := retry(func() (int, error) {
		return 0, unix.Statx(dir, name, flags, unix.STATX_TYPE|unix.STATX_INO|unix.STATX_MNT_ID, &st)
	})
	return st, err
}

// mounted says whether an entry is on another mount than its directory. Kernels
// before 5.8 do not say; there another device tells most mounts, and openBelow
// the others.
func mounted(st, dir unix.Statx_t) bool {
	if st.Dev_major != dir.Dev_major || st.Dev_minor != dir.Dev_minor || st.Attributes&unix.STATX_ATTR_MOUNT_ROOT != 0 {
		return true
	}
	return st.Mask&dir.Mask&unix.STATX_MNT_ID != 0 && st.Mnt_id != dir.Mnt_id
}
