package mxl

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/google/uuid"
	"golang.org/x/sys/unix"
)

// ErrSkipped says that an index at or below the head was never written and will not come: its ring slot holds another
// index (MXL format reference §7.2). A reader reports a gap and goes on with the next index.
var ErrSkipped = errors.New("mxl: index was skipped by the writer")

// ErrFlowExistsDifferent says that a flow of this id exists with another definition or geometry. Errors that carry it
// are of type *DifferenceError.
var ErrFlowExistsDifferent = errors.New("mxl: flow exists with another definition")

// DifferenceError names what differs between an existing flow and the definition it was to be opened with.
type DifferenceError struct {
	FlowID  uuid.UUID
	Members []string // members of flow_def.json or fields of the flow header
}

// Error lists the differing members.
func (e *DifferenceError) Error() string {
	return "mxl: flow " + e.FlowID.String() + " exists and differs in " + strings.Join(e.Members, ", ")
}

// Unwrap returns ErrFlowExistsDifferent.
func (e *DifferenceError) Unwrap() error { return ErrFlowExistsDifferent }

// MalformedError says what makes files in a domain unusable. It wraps ErrUnknown, the SDK's code for it.
type MalformedError struct {
	Path   string
	Reason string
}

// Error names the path and the reason.
func (e *MalformedError) Error() string { return "mxl: " + e.Path + ": " + e.Reason }

// Unwrap returns ErrUnknown.
func (e *MalformedError) Unwrap() error { return ErrUnknown }

func malformed(path, format string, a ...any) error {
	return &MalformedError{path, fmt.Sprintf(format, a...)}
}

// goneError is the state of a reader whose flow directory was removed: FLOW_INVALID to the SDK, and not there.
type goneError struct{ path string }

func (e *goneError) Error() string   { return "mxl: " + e.path + " is gone" }
func (e *goneError) Unwrap() []error { return []error{ErrFlowInvalid, ErrFlowNotFound} }

// fileError wraps an error of the file system with the status code the SDK gives it (MXL format reference §2.5, §4.5).
func fileError(op, path string, err error) error {
	switch {
	case errors.Is(err, unix.EACCES), errors.Is(err, unix.EPERM), errors.Is(err, unix.EROFS):
		return fmt.Errorf("%w: %s %s: %w (%s)", ErrPermissionDenied, op, path, err, ownership(path))
	case errors.Is(err, unix.ELOOP):
		return malformed(path, "is a symbolic link")
	}
	return fmt.Errorf("mxl: %s %s: %w", op, path, err)
}

// ownership describes who may use a file and who we are, for errors about permissions.
func ownership(path string) string {
	we := fmt.Sprintf("we are uid %d gid %d", os.Geteuid(), os.Getegid())
	var st unix.Stat_t
	if err := unix.Lstat(path, &st); err != nil {
		return we
	}
	return fmt.Sprintf("uid %d gid %d mode %#o, %s", st.Uid, st.Gid, st.Mode&0o7777, we)
}

func isMissing(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR)
}
