package mxl

import (
	"fmt"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// CheckFiles is Check for every file of the flow: ErrFlowInvalid, too, when a grain file is gone or shorter than what is
// mapped of it. It costs one stat a file.
func (r *grainRing) CheckFiles() error {
	if err := r.Check(); err != nil {
		return err
	}
	for slot := range r.slots {
		if err := r.CheckFile(slot); err != nil {
			return err
		}
	}
	return nil
}

// CheckFile looks at one file of the ring, by any number: they are taken in turn.
func (r *grainRing) CheckFile(number int) error {
	if r.closed() {
		return ErrInvalidState
	}
	slot := number % len(r.slots)
	return r.checkLength(filepath.Join(r.dir, nameGrains, grainName(slot)), len(r.slots[slot]))
}

// CheckFiles is Check for both files of the flow: ErrFlowInvalid, too, when the sample ring is gone or shorter than what
// is mapped of it.
func (r *sampleRing) CheckFiles() error {
	if err := r.Check(); err != nil {
		return err
	}
	return r.CheckFile(0)
}

// CheckFile looks at the sample ring, whatever the number.
func (r *sampleRing) CheckFile(int) error {
	if r.closed() {
		return ErrInvalidState
	}
	return r.checkLength(filepath.Join(r.dir, nameChannels), len(r.channels))
}

// checkLength compares a file with what is mapped of it.
func (f *flow) checkLength(path string, mapped int) error {
	var st unix.Stat_t
	err := unix.Lstat(path, &st)
	switch {
	case isMissing(err):
		return &goneError{path}
	case err != nil:
		return fileError("stat", path, err)
	case st.Size < int64(mapped):
		return fmt.Errorf("%w: %s has %d bytes, %d are mapped", ErrFlowInvalid, path, st.Size, mapped)
	}
	return nil
}
