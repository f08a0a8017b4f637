package agent

import (
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// rootEvery is how often it is looked at what the MXL root's path names.
const rootEvery = time.Second

// rootLook is what the path of the MXL root names at one moment.
type rootLook struct {
	Device, Inode uint64
	Tmpfs         bool
	Mount         bool  // the root of a mount, a bind mount too
	Writable      bool  // this process may make directories in it
	Err           error // nothing is there, or no directory, or one that was removed
}

// errRootRemoved is a directory that has no name any more: a bind mount still
// shows it.
var errRootRemoved = errors.New("the directory was removed where it came from; what is made anew there shows only in a container that starts then")

// lookAtRoot looks at a path.
func lookAtRoot(path string) rootLook {
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		return rootLook{Err: err}
	}
	if st.Mode&unix.S_IFMT != unix.S_IFDIR {
		return rootLook{Err: errors.New("not a directory")}
	}
	if st.Nlink == 0 {
		return rootLook{Err: errRootRemoved}
	}
	look := rootLook{
		Device: uint64(st.Dev), Inode: st.Ino, Tmpfs: isTmpfs(path),
		Writable: unix.Faccessat(unix.AT_FDCWD, path, unix.R_OK|unix.W_OK|unix.X_OK, unix.AT_EACCESS) == nil,
	}
	var more unix.Statx_t // says so since Linux 5.8
	if unix.Statx(unix.AT_FDCWD, path, 0, unix.STATX_BASIC_STATS, &more) == nil {
		look.Mount = more.Attributes&unix.STATX_ATTR_MOUNT_ROOT != 0
	}
	return look
}

func (l rootLook) same(other rootLook) bool {
	return l.Err == nil && other.Err == nil && l.Device == other.Device && l.Inode == other.Inode
}

// rootFault says in words what is wrong with the root now, empty when it is the
// directory of the start, and whether the agent could work in what is there.
// Mirrors stay in the directory of the start until then: readers have its files
// mapped, and another directory may be what lies below a file system that was
// unmounted.
func rootFault(path string, start, now rootLook) (fault string, usable bool) {
	switch {
	case now.Err != nil:
		return fmt.Sprintf("the MXL root %s is gone: %v", path, now.Err), false
	case start.same(now):
		return "", false
	case start.Tmpfs && !now.Tmpfs, start.Mount && !now.Mount:
		return fmt.Sprintf("the MXL root %s is no longer the mounted file system of the start: it was unmounted; mount it", path), false
	case start.Writable && !now.Writable:
		return fmt.Sprintf("the MXL root %s is another directory than at the start, and the agent may not write there: give it to the agent's user", path), false
	}
	return fmt.Sprintf("the MXL root %s is another directory than at the start; mirrors are still written to the old one until the agent restarts itself in place", path), true
}

// mxlRoot watches the path of the MXL root: somebody may unmount it, mount
// another over it, or replace it.
type mxlRoot struct {
	path  string
	start rootLook
	now   atomic.Pointer[rootLook]
	fault atomic.Pointer[string] // never nil once made
	waits atomic.Pointer[string] // why a restart on what is there waits; never nil once made

	// The reconcile loop's own.
	lookedAt time.Time
	since    time.Time // when what is there now was first seen there
	usable   bool
}

func newMXLRoot(path string) *mxlRoot {
	r := &mxlRoot{path: path, start: lookAtRoot(path)}
	fault, waits := "", ""
	r.now.Store(&r.start)
	r.fault.Store(&fault)
	r.waits.Store(&waits)
	return r
}

// look logs what has changed since the last one.
func (r *mxlRoot) look(at time.Time, log *slog.Logger) {
	if at.Sub(r.lookedAt) < rootEvery {
		return
	}
	r.lookedAt = at
	now := lookAtRoot(r.path)
	fault, usable := rootFault(r.path, r.start, now)
	if !now.same(*r.now.Load()) || usable != r.usable {
		r.since = at
	}
	before := *r.fault.Load()
	r.now.Store(&now)
	r.usable = usable
	if fault == before {
		return
	}
	r.fault.Store(&fault)
	if fault == "" {
		log.Info("mxl_root_back", "path", r.path)
		return
	}
	log.Error("mxl_root_lost", "path", r.path, "reason", fault)
}

// away says whether the path leads elsewhere at this moment. Anybody may call it.
func (r *mxlRoot) away() bool { return !r.start.same(lookAtRoot(r.path)) }

// problem is what is wrong with the root, empty when nothing is.
func (r *mxlRoot) problem() string {
	fault, waits := *r.fault.Load(), *r.waits.Load()
	if fault != "" && waits != "" {
		return fault + "; not yet: " + waits
	}
	return fault
}

// tmpfs says whether the path is on a tmpfs.
func (r *mxlRoot) tmpfs() bool { return r.now.Load().Tmpfs }
