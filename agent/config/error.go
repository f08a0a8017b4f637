package config

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// ExitInvalid is the process exit code of an invalid configuration
// (contract, "Exit codes").
const ExitInvalid = 78

// Error is an invalid setting: which one, what it was, and why not.
type Error struct {
	Key   string
	Value string
	Err   error
}

func (e *Error) Error() string {
	if e.Key == "" {
		return e.Err.Error()
	}
	return fmt.Sprintf("%s=%q: %v", e.Key, e.Value, e.Err)
}

func (e *Error) Unwrap() error { return e.Err }

// ErrReadOnly is wrapped by the *Error of a change to a setting that the
// environment holds: the file layer could not win.
var ErrReadOnly = errors.New("is set by the environment and cannot be changed here")

// SaveError is a valid change that could not be written; nothing was changed.
type SaveError struct {
	Path string
	Err  error
}

func (e *SaveError) Error() string {
	return fmt.Sprintf("save the configuration to %s: %v", e.Path, e.Err)
}
func (e *SaveError) Unwrap() error { return e.Err }

// WriteInvalid writes the one line that a process with an invalid
// configuration leaves on stderr before it exits with ExitInvalid.
func WriteInvalid(w io.Writer, err error) error {
	line := struct {
		Level string `json:"level"`
		Event string `json:"event"`
		Error string `json:"error"`
		Key   string `json:"key,omitempty"`
		Value string `json:"value,omitempty"`
	}{Level: "error", Event: "invalid_config", Error: err.Error()}
	var invalid *Error
	if errors.As(err, &invalid) {
		line.Key, line.Value = invalid.Key, invalid.Value
	}
	text, jsonErr := json.Marshal(line)
	if jsonErr != nil {
		return fmt.Errorf("encode the configuration error: %w", jsonErr)
	}
	_, writeErr := w.Write(append(text, '\n'))
	return writeErr
}
