package config

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Key describes one setting: its names, its default and what a value may be.
type Key struct {
	// Name is the canonical name, in the environment and in the file.
	Name string
	// Alias is a second name of the same setting, empty for most.
	Alias string
	// Default is the value without any layer. Where DefaultText is set the
	// default depends on the host or on another setting and Default is empty.
	Default     string
	DefaultText string
	// Values says in words what is allowed, for documents and the API.
	Values string
	// Runtime settings apply at once; any other needs a restart.
	Runtime bool
	// EnvironmentOnly settings are read from the environment at start and are
	// neither taken from the file nor shown.
	EnvironmentOnly bool
	// Locates settings say where the file layer is. They are shown, and read from
	// the environment alone: the file cannot say where it is itself.
	Locates bool
	// Description is one sentence.
	Description string

	kind  kind
	check func(string) error
}

// inFile says whether the file layer may hold the setting.
func (k Key) inFile() bool { return !k.EnvironmentOnly && !k.Locates }

// kind is how the text of a value is brought into its one exported form.
type kind int

const (
	text kind = iota
	number
	flag
	list
	document
)

// Keys returns every setting, in the order of the contract.
func Keys() []Key { return slices.Clone(keys) }

// Lookup finds a setting by its canonical name or its alias.
func Lookup(name string) (Key, bool) {
	for _, k := range keys {
		if k.Name == name || k.Alias != "" && k.Alias == name {
			return k, true
		}
	}
	return Key{}, false
}

// rejectedKeys were replaced by separate lists of domains and flows; a
// configuration that still holds one would silently mirror too much or too
// little.
var rejectedKeys = map[string]string{
	"MIRROR_INCLUDE": "use MIRROR_INCLUDE_DOMAINS and MIRROR_INCLUDE_FLOWS",
	"MIRROR_EXCLUDE": "use MIRROR_EXCLUDE_DOMAINS and MIRROR_EXCLUDE_FLOWS",
}

// ignoredPrefix covers the settings of the pacing that no longer exists.
const ignoredPrefix = "TRANSFER_PACING"

func anyText(string) error { return nil }

func nonEmpty(value string) error {
	if value == "" {
		return errors.New("must not be empty")
	}
	return nil
}

// MaxHostID is the longest HOST_ID, in bytes, here and of a peer that asks.
const MaxHostID = 255

func hostID(value string) error {
	if len(value) > MaxHostID {
		return fmt.Errorf("must not be longer than %d bytes", MaxHostID)
	}
	return nonEmpty(value)
}

// integer reads a whole decimal number. A sign other than a minus, blanks and
// the empty string are errors, as they always were.
func integer(value string) (int64, error) {
	if value == "" {
		return 0, errors.New("must be a decimal integer, not empty")
	}
	if strings.HasPrefix(value, "+") {
		return 0, errors.New("must be a decimal integer")
	}
	n, err := strconv.ParseInt(value, 10, 64)
	if err != nil {
		return 0, errors.New("must be a decimal integer")
	}
	return n, nil
}

func within(low, high int64) func(string) error {
	return func(value string) error {
		n, err := integer(value)
		if err != nil {
			return err
		}
		if n < low || n > high {
			return fmt.Errorf("must be from %d to %d", low, high)
		}
		return nil
	}
}

// zeroOrWithin is for the settings whose 0 means "leave it alone".
func zeroOrWithin(low, high int64) func(string) error {
	return func(value string) error {
		n, err := integer(value)
		if err != nil {
			return err
		}
		if n != 0 && (n < low || n > high) {
			return fmt.Errorf("must be 0 or from %d to %d", low, high)
		}
		return nil
	}
}

func oneOf(choices ...string) func(string) error {
	return func(value string) error {
		if slices.Contains(choices, value) {
			return nil
		}
		named := make([]string, len(choices))
		for i, c := range choices {
			named[i] = c
			if c == "" {
				named[i] = "empty"
			}
		}
		return fmt.Errorf("must be %s", strings.Join(named, " or "))
	}
}

func boolean(value string) error {
	_, err := parseBool(value)
	return err
}
