package mirror

import (
	"errors"
	"fmt"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/mxl-stack/mxl-fabrics-agent/mxl"
)

// Sentinels by which the caller decides.
var (
	// ErrNoSpace: the flow does not fit; state insufficient_space.
	ErrNoSpace = errors.New("insufficient space")
	// ErrForeign: the directory exists and does not carry our marker, or
	// carries it for another domain or owner; state conflict.
	ErrForeign = errors.New("mirror directory is not ours")
	// ErrDiffers: a mirror of another definition is there, or one that is
	// damaged; the caller may Rebuild it.
	ErrDiffers = errors.New("mirror flow has another definition")
	// ErrNotMirror: this agent has no such mirror.
	ErrNotMirror = errors.New("no such mirror of this agent")
	// ErrBusy: a process maps a file, or that is not known.
	ErrBusy = errors.New("mirror has readers")
	// ErrRemoving: the flow is being removed or rebuilt at this moment.
	ErrRemoving = errors.New("mirror flow is being removed")
	// ErrChanged: what was to be removed is not what was checked any more.
	ErrChanged = errors.New("mirror changed between check and removal")
	// ErrObstacle: something in the directory cannot be removed.
	ErrObstacle = errors.New("mirror cannot be removed")
	// ErrClosed: the room is closed.
	ErrClosed = errors.New("mirror room is closed")

	errLost = errors.New("its mapped files were truncated")
)

// ForeignError says why a mirror directory is not ours. It wraps [ErrForeign].
type ForeignError struct {
	Path             string
	Existing, Wanted string // what the marker has and what it should have
	Why              string // which member, or what is wrong with the directory
}

// Error names the path and the two values.
func (e *ForeignError) Error() string {
	if e.Existing == "" && e.Wanted == "" {
		return fmt.Sprintf("%s: %v: %s", e.Path, ErrForeign, e.Why)
	}
	return fmt.Sprintf("%s: %v: %s is %q, wanted %q", e.Path, ErrForeign, e.Why, e.Existing, e.Wanted)
}

// Unwrap returns ErrForeign.
func (e *ForeignError) Unwrap() error { return ErrForeign }

// DiffersError names the members in which a mirror differs from its origin. It
// wraps [ErrDiffers].
type DiffersError struct {
	Key     Key
	Members []string // of flow_def.json or of the flow header
	Damaged error    // why the mirror could not be opened at all, nil when it could
}

// Error names the members.
func (e *DiffersError) Error() string {
	if e.Damaged != nil {
		return fmt.Sprintf("mirror flow %s is damaged: %v", e.Key, e.Damaged)
	}
	return fmt.Sprintf("%v: %s: %s", ErrDiffers, e.Key, strings.Join(e.Members, ", "))
}

// Unwrap returns ErrDiffers and the damage.
func (e *DiffersError) Unwrap() []error { return []error{ErrDiffers, e.Damaged} }

// BusyError gives the readers that hold a removal back. It wraps [ErrBusy].
type BusyError struct {
	Readers []Reader
	Unknown string // why the readers are not known; empty when they are
}

// Error gives the pids or why they are not known.
func (e *BusyError) Error() string {
	if len(e.Readers) == 0 {
		return fmt.Sprintf("%v: not known: %s", ErrBusy, e.Unknown)
	}
	return fmt.Sprintf("%v: %s", ErrBusy, pidList(e.Readers))
}

// told is what an event says of it: the next is news when it says something else.
func (e *BusyError) told() string {
	if len(e.Readers) == 0 {
		return e.Unknown
	}
	return pidList(e.Readers)
}

// Unwrap returns ErrBusy.
func (e *BusyError) Unwrap() error { return ErrBusy }

// ObstacleError says what in a mirror directory keeps it from being removed; it
// was found before anything was. It wraps [ErrObstacle].
type ObstacleError struct {
	Path string
	Why  string
}

// Error names the path and what is in the way there.
func (e *ObstacleError) Error() string { return fmt.Sprintf("%v: %s: %s", ErrObstacle, e.Path, e.Why) }

// Unwrap returns ErrObstacle.
func (e *ObstacleError) Unwrap() error { return ErrObstacle }

// Reason is the rebuild reason of a flow that is replaced for the difference:
// origin_config_changed, or replaced when something else did it.
func (e *DiffersError) Reason() Reason {
	if e.Damaged != nil {
		return Replaced
	}
	return OriginConfigChanged
}

// damage says whether an error is about the files of a flow. One about this process
// or its host at this moment, open files or memory that ran out, a right that is
// missing, is no reason to take the mirror from its readers.
func damage(err error) bool {
	if err == nil || exhausted(err) || errors.Is(err, mxl.ErrPermissionDenied) {
		return false
	}
	for _, passing := range []error{unix.EAGAIN, unix.EINTR, unix.EIO, unix.EBUSY} {
		if errors.Is(err, passing) {
			return false
		}
	}
	return true
}
