package mxl

import (
	"errors"
	"strings"

	"github.com/google/uuid"
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
