package config

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"strings"
)

// replacedSuffix names the copy of a file that somebody else changed and an import
// has replaced.
const replacedSuffix = ".replaced"

// FileError is a change that was not made because somebody else has changed the
// file meanwhile to what cannot be used: saving would lose what he wrote.
type FileError struct {
	Path string
	Err  error
}

func (e *FileError) Error() string {
	return fmt.Sprintf("the configuration file %s was changed by somebody else and cannot be used: %v; mend it there, or replace it by an import", e.Path, e.Err)
}
func (e *FileError) Unwrap() error { return e.Err }

// fileSum tells contents of the file apart.
type fileSum [sha256.Size]byte

func sumOf(text []byte) *fileSum {
	sum := fileSum(sha256.Sum256(text))
	return &sum
}

// edit is what somebody else has made of the file since it was last read or saved.
type edit struct {
	text     []byte
	object   map[string]json.RawMessage
	keys     []string // settings that have another value than before
	warnings []Warning
}

// findEdit gives what somebody else has written to the file, nil when nobody has. A
// file that is gone says nothing: the settings that run are saved again. The
// error is a *FileError for what he wrote, then with the edit, and a *SaveError
// when it cannot be read.
func (s *Store) findEdit() (*edit, error) {
	if s.host.file == "" {
		return nil, nil
	}
	text, err := readFile(s.host.file)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case errors.Is(err, errTooLarge), errors.Is(err, errNoFile):
		return &edit{}, &FileError{Path: s.host.file, Err: err}
	case err != nil:
		return nil, &SaveError{Path: s.host.file, Err: err}
	case s.known != nil && *s.known == *sumOf(text):
		return nil, nil
	}
	e := &edit{text: text}
	if e.object, err = parseObject(text); err != nil {
		return e, &FileError{Path: s.host.file, Err: err}
	}
	var next candidate
	if next, e.warnings, err = s.consider(e.object); err != nil {
		return e, &FileError{Path: s.host.file, Err: err}
	}
	if err := s.checkNewPath(next); err != nil {
		return e, &FileError{Path: s.host.file, Err: err}
	}
	for _, k := range keys {
		if k.normal(next.values[k.Name]) != k.normal(s.values[k.Name]) {
			e.keys = append(e.keys, k.Name)
		}
	}
	return e, nil
}

// NextStart says why the next start would end with exit code 78: somebody else has
// changed the file to what cannot be used. Nil also when the file cannot be read now.
func (s *Store) NextStart() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, err := s.findEdit()
	var unusable *FileError
	if errors.As(err, &unusable) {
		return err
	}
	return nil
}

// base is the file layer that a patch is laid over: what was last read or saved,
// or what somebody else has written since.
func (s *Store) base() (map[string]json.RawMessage, *edit, error) {
	e, err := s.findEdit()
	if err != nil {
		return nil, nil, err
	}
	if e == nil {
		return maps.Clone(s.file), nil, nil
	}
	return maps.Clone(e.object), e, nil
}

// took notes that an edit has become part of the configuration.
func (s *Store) took(e *edit) {
	if e == nil || len(e.keys) == 0 {
		return
	}
	s.notices = append(s.notices, Warning{Event: "config_file_changed",
		Fields: map[string]string{"path": s.host.file, "keys": strings.Join(e.keys, ",")}})
	s.notices = append(s.notices, e.warnings...)
}

// keepReplaced keeps a copy of a file that somebody else has changed, before an
// import replaces it.
func (s *Store) keepReplaced() error {
	e, err := s.findEdit()
	var unusable *FileError
	if err != nil && !errors.As(err, &unusable) || e == nil {
		return err
	}
	if unusable == nil && len(e.keys) == 0 {
		return nil
	}
	copied := s.host.file + replacedSuffix
	if e.text == nil { // too large to be a configuration, and to be copied
		err = os.Rename(s.host.file, copied)
	} else {
		err = save(copied, e.text)
	}
	if err != nil {
		return &SaveError{Path: copied, Err: err}
	}
	s.notices = append(s.notices, Warning{Event: "config_file_replaced", Fields: map[string]string{"path": s.host.file, "copy": copied}})
	return nil
}

// Notices are what changes since the last call have met that is worth a log line.
func (s *Store) Notices() []Warning {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := s.notices
	s.notices = nil
	return list
}
