package config

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Merge lays an object of settings over the file layer and saves it. A null
// takes a setting out of the file layer. Every name must be a setting that
// the environment does not hold; otherwise nothing changes and the error is
// an *Error. A *SaveError means the change is fine and could not be written.
// What somebody else has written to the file meanwhile is taken in first; a
// *FileError says that it cannot be. restart is RestartRequired after the change.
func (s *Store) Merge(patch []byte) (restart bool, err error) {
	object, err := parseObject(patch)
	if err != nil {
		return false, &Error{Err: fmt.Errorf("the configuration patch %w", err)}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	merged, edited, err := s.base()
	if err != nil {
		return false, err
	}
	for _, name := range slices.Sorted(maps.Keys(object)) {
		raw := object[name]
		if strings.HasPrefix(name, ignoredPrefix) {
			continue
		}
		k, err := s.changeable(name, raw)
		if err != nil {
			return false, err
		}
		// A patch that names one of two names means the setting, not a
		// conflict with what the file called it.
		for _, sibling := range []string{k.Name, k.Alias} {
			if _, both := object[sibling]; !both {
				delete(merged, sibling)
			}
		}
		merged[name] = raw
		if bytes.Equal(bytes.TrimSpace(raw), []byte("null")) {
			delete(merged, name)
		}
	}
	if err := s.take(merged); err != nil {
		return false, err
	}
	s.took(edited)
	return s.restart, nil
}

func (s *Store) changeable(name string, raw json.RawMessage) (Key, error) {
	value, err := valueText(raw)
	if err != nil {
		value = string(raw)
	}
	if reason, bad := rejectedKeys[name]; bad {
		return Key{}, &Error{Key: name, Value: value, Err: fmt.Errorf("is no longer a setting, %s", reason)}
	}
	k, known := Lookup(name)
	if !known {
		return Key{}, &Error{Key: name, Value: value, Err: errors.New("is not a setting")}
	}
	if !k.inFile() {
		return Key{}, &Error{Key: name, Value: value, Err: errors.New("can only be set by the environment")}
	}
	if _, held := s.environment[k.Name]; held {
		return Key{}, &Error{Key: name, Value: value, Err: ErrReadOnly}
	}
	return k, nil
}

// Import replaces the file layer by an exported document, or by an object
// whose only member "config" is one. Names that are no settings, those that
// the environment holds and those that only it may hold are skipped; a document
// of nothing but other names is an *Error, for it would empty the file layer. Of a
// file that somebody else has changed meanwhile a copy stays.
func (s *Store) Import(document []byte) (restart bool, err error) {
	object, err := parseObject(document)
	if err != nil {
		return false, &Error{Err: fmt.Errorf("the configuration document %w", err)}
	}
	if inner, ok := object["config"]; ok && len(object) == 1 {
		if object, err = parseObject(inner); err != nil {
			return false, &Error{Key: "config", Value: string(inner), Err: err}
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	layer := make(map[string]json.RawMessage, len(object))
	settings := 0
	for name, raw := range object {
		k, known := Lookup(name)
		if known {
			settings++
		}
		_, held := s.environment[k.Name]
		if known && !held && k.inFile() {
			layer[name] = raw
		}
	}
	if settings == 0 && len(object) > 0 {
		return false, &Error{Err: errors.New("the configuration document holds no setting; GET /api/v1/config/export gives one")}
	}
	if _, _, err := s.consider(layer); err != nil {
		return false, err
	}
	if err := s.keepReplaced(); err != nil {
		return false, err
	}
	if err := s.take(layer); err != nil {
		return false, err
	}
	return s.restart, nil
}
