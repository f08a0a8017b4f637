package mxl

import (
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sys/unix"
)

// CollectGarbage removes the flows no writer holds and returns their ids. A flow is renamed away while its exclusive lock
// is held, so a writer that opens it meanwhile never ends up in a removed directory without noticing. Flows of other
// owners count as active unless we are privileged, as in the SDK (MXL format reference §11).
func (d *Domain) CollectGarbage() ([]uuid.UUID, error) {
	ids, err := d.Flows()
	if err != nil {
		return nil, err
	}
	var removed []uuid.UUID
	var errs []error
	for _, id := range ids {
		switch err := d.removeUnheld(id, unix.O_NOATIME); {
		case err == nil:
			removed = append(removed, id)
		case errors.Is(err, ErrConflict), errors.Is(err, ErrFlowNotFound), errors.Is(err, ErrPermissionDenied):
		default:
			errs = append(errs, err)
		}
	}
	return removed, errors.Join(errs...)
}

// RemoveFlow removes a flow no writer holds. Errors: ErrConflict while one does, ErrFlowNotFound.
func (d *Domain) RemoveFlow(id uuid.UUID) error { return d.removeUnheld(id, 0) }

func (d *Domain) removeUnheld(id uuid.UUID, flags int) error {
	parentFD, name, dir := d.at(FlowDirName(id))
	dirFD, err := openDir(parentFD, name)
	runtime.KeepAlive(d)
	if err != nil {
		return probeError(dir, err)
	}
	defer unix.Close(dirFD)
	fd, st, err := openRegular(dirFD, nameData, unix.O_RDONLY|flags)
	if err != nil {
		return probeError(filepath.Join(dir, nameData), err)
	}
	defer unix.Close(fd)
	if err := flock(fd, unix.LOCK_EX|unix.LOCK_NB); err == unix.EWOULDBLOCK {
		return fmt.Errorf("%w: %s has a writer", ErrConflict, dir)
	} else if err != nil {
		return fileError("lock", dir, err)
	}
	_, err = removeLocked(dirFD, dir, st)
	return err
}

// removeLocked removes a flow directory whose data file (st) the caller holds locked exclusively. It does nothing when
// another directory has taken its place.
func removeLocked(dirFD int, dir string, st unix.Stat_t) (removed bool, err error) {
	domain, name := filepath.Split(dir)
	// The directory it is in, whatever the path leads to by now.
	domainFD, err := openAt(dirFD, "..", unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if isMissing(err) {
		return false, nil
	}
	if err != nil {
		return false, fileError("open", domain, err)
	}
	defer unix.Close(domainFD)
	temp, err := tempName()
	if err != nil {
		return false, err
	}
	if err := renameNoReplace(domainFD, name, temp); err != nil {
		if isMissing(err) {
			return false, nil
		}
		return false, fileError("remove", dir, err)
	}
	var now unix.Stat_t
	err = unix.Fstatat(domainFD, filepath.Join(temp, nameData), &now, unix.AT_SYMLINK_NOFOLLOW)
	if err != nil || now.Ino != st.Ino || now.Dev != st.Dev {
		if err := renameNoReplace(domainFD, temp, name); err != nil {
			return false, fileError("restore", dir, err)
		}
		return false, nil
	}
	return true, removeTreeAt(domainFD, temp, filepath.Join(domain, temp))
}

// removeIfLast deletes the flow of a writer that is about to close when it holds the only shared lock. A failed upgrade
// has given up the shared lock (MXL format reference §11).
func (f *flowFiles) removeIfLast() (bool, error) {
	switch err := flock(f.dataFD, unix.LOCK_EX|unix.LOCK_NB); err {
	case nil:
	case unix.EWOULDBLOCK:
		return false, nil
	default:
		return false, fileError("lock", f.dir, err)
	}
	return removeLocked(f.dirFD, f.dir, unix.Stat_t{Ino: f.info.Inode, Dev: f.info.Device})
}

// SweepTemporaries removes what killed creators left behind: temporary directories whose data file nobody holds and that
// were not changed for minAge (minutes). It returns how many there were.
func (d *Domain) SweepTemporaries(minAge time.Duration) (int, error) {
	entries, err := d.entries()
	if err != nil {
		return 0, err
	}
	n := 0
	var errs []error
	for _, e := range entries {
		if !e.IsDir() || !strings.HasPrefix(e.Name(), tempPrefix) {
			continue
		}
		parentFD, name, path := d.at(e.Name())
		var st unix.Stat_t
		err := unix.Fstatat(parentFD, name, &st, unix.AT_SYMLINK_NOFOLLOW)
		if err != nil || time.Since(time.Unix(st.Mtim.Unix())) < minAge {
			continue
		}
		if held, err := isActive(parentFD, name, path); held || (err != nil && !errors.Is(err, ErrFlowNotFound)) {
			continue
		}
		if err := removeTreeAt(parentFD, name, path); err != nil {
			errs = append(errs, err)
			continue
		}
		n++
	}
	return n, errors.Join(errs...)
}
