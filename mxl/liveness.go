package mxl

import (
	"errors"
	"path/filepath"

	"github.com/google/uuid"
	"golang.org/x/sys/unix"
)

// IsActive reports whether a writer holds the flow (MXL format reference §11). ErrFlowNotFound without data file. For a
// few microseconds the probe holds an exclusive lock: a writer that opens just then must try again, and two probers can
// see each other as a writer. Do not probe more often than needed.
func (d *Domain) IsActive(id uuid.UUID) (bool, error) {
	return isActive(d.at(FlowDirName(id)))
}

// IsFlowActive is IsActive for a flow directory.
func IsFlowActive(flowDir string) (bool, error) { return isActive(unix.AT_FDCWD, flowDir, flowDir) }

func isActive(parentFD int, name, flowDir string) (bool, error) {
	dirFD, err := openDir(parentFD, name)
	if err != nil {
		return false, probeError(flowDir, err)
	}
	defer unix.Close(dirFD)
	fd, _, err := openRegular(dirFD, nameData, unix.O_RDONLY)
	if err != nil {
		return false, probeError(filepath.Join(flowDir, nameData), err)
	}
	defer unix.Close(fd)
	switch err := flock(fd, unix.LOCK_EX|unix.LOCK_NB); err {
	case nil:
		_ = flock(fd, unix.LOCK_UN)
		return false, nil
	case unix.EWOULDBLOCK:
		return true, nil
	default:
		return false, fileError("lock", flowDir, err)
	}
}

func probeError(path string, err error) error {
	if errors.Is(err, unix.ENOENT) {
		return notFound(path)
	}
	return fileError("open", path, err)
}
