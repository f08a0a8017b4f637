package mxl

import "fmt"

// Status is a status code of the MXL libraries (MXL format reference §14). It implements error, so that
// errors.Is(err, mxl.ErrTooEarly) works on anything this package returns.
type Status int

// Status codes; values from 1024 come from the fabrics library.
const (
	StatusOK                Status = 0
	ErrUnknown              Status = 1
	ErrFlowNotFound         Status = 2
	ErrTooLate              Status = 3
	ErrTooEarly             Status = 4
	ErrInvalidFlowReader    Status = 5
	ErrInvalidFlowWriter    Status = 6
	ErrTimeout              Status = 7
	ErrInvalidArgument      Status = 8
	ErrConflict             Status = 9
	ErrPermissionDenied     Status = 10
	ErrFlowInvalid          Status = 11
	ErrStringLength         Status = 1024
	ErrInterrupted          Status = 1025
	ErrNoFabric             Status = 1026
	ErrInvalidState         Status = 1027
	ErrInternal             Status = 1028
	ErrNotReady             Status = 1029
	ErrNotFound             Status = 1030
	ErrExists               Status = 1031
	ErrUnsupportedOperation Status = 1032
)

// statusText returns the words of a code, "" for an unknown one.
func statusText(s Status) string {
	switch s {
	case StatusOK:
		return "ok"
	case ErrUnknown:
		return "unknown error"
	case ErrFlowNotFound:
		return "flow not found"
	case ErrTooLate:
		return "out of range: too late"
	case ErrTooEarly:
		return "out of range: too early"
	case ErrInvalidFlowReader:
		return "invalid flow reader"
	case ErrInvalidFlowWriter:
		return "invalid flow writer"
	case ErrTimeout:
		return "timeout"
	case ErrInvalidArgument:
		return "invalid argument"
	case ErrConflict:
		return "conflict"
	case ErrPermissionDenied:
		return "permission denied"
	case ErrFlowInvalid:
		return "flow invalid"
	case ErrStringLength:
		return "string too long"
	case ErrInterrupted:
		return "interrupted"
	case ErrNoFabric:
		return "no fabric"
	case ErrInvalidState:
		return "invalid state"
	case ErrInternal:
		return "internal error"
	case ErrNotReady:
		return "not ready"
	case ErrNotFound:
		return "not found"
	case ErrExists:
		return "exists"
	case ErrUnsupportedOperation:
		return "unsupported operation"
	}
	return ""
}

// Error returns the words of the code.
func (s Status) Error() string {
	if t := statusText(s); t != "" {
		return "mxl: " + t
	}
	return fmt.Sprintf("mxl: status %d", int(s))
}
