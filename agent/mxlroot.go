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
	Err           error // nothing is there, or no directory
}

// lookAtRoot looks at a path.
func lookAtRoot(path string) rootLook {
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		return rootLook{Err: err}
	}
	if st.Mode&unix.S_IFMT != unix.S_IFDIR {
		return rootLook{Err: errors.New("not a directory")}
	}
	return rootLook{Device: uint64(st.Dev), Inode: st.Ino, Tmpfs: isTmpfs(path)}
}

// rootFault says in words what is wrong with the root now, empty when it is the
// directory of the start. Mirrors stay in that one: readers have its files
// mapped, and another directory may be what lies below a file system that was
// unmounted.
func rootFault(path string, start, now rootLook) string {
	switch {
	case now.Err != nil:
		return fmt.Sprintf("the MXL root %s is gone: %v", path, now.Err)
	case start.Device == now.Device && start.Inode == now.Inode:
		return ""
	case start.Tmpfs && !now.Tmpfs:
		return fmt.Sprintf("the MXL root %s is no longer on the tmpfs of the start: it was unmounted; mount it and restart the agent", path)
	}
	return fmt.Sprintf("the MXL root %s is another directory than at the start: mirrors are still written to the old one; restart the agent", path)
}

// mxlRoot watches the path of the MXL root: somebody may unmount it, mount
// another over it, or replace it.
type mxlRoot struct {
	path     string
	start    rootLook
	lookedAt time.Time // the reconcile loop's own
	now      atomic.Pointer[rootLook]
	fault    atomic.Pointer[string] // never nil once made
}

func newMXLRoot(path string) *mxlRoot {
	r := &mxlRoot{path: path, start: lookAtRoot(path)}
	fault := ""
	r.now.Store(&r.start)
	r.fault.Store(&fault)
	return r
}

// look logs what has changed since the last one.
func (r *mxlRoot) look(at time.Time, log *slog.Logger) {
	if at.Sub(r.lookedAt) < rootEvery {
		return
	}
	r.lookedAt = at
	now := lookAtRoot(r.path)
	fault, before := rootFault(r.path, r.start, now), *r.fault.Load()
	r.now.Store(&now)
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

// problem is what is wrong with the root, empty when nothing is.
func (r *mxlRoot) problem() string { return *r.fault.Load() }

// tmpfs says whether the path is on a tmpfs.
func (r *mxlRoot) tmpfs() bool { return r.now.Load().Tmpfs }
