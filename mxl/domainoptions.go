package mxl

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// DefaultHistoryNS is the ring history of a domain without options.json, in nanoseconds (MXL format reference §1.2).
const DefaultHistoryNS = 200_000_000

// HistoryKey is the one member of options.json that MXL knows: a number of nanoseconds.
const HistoryKey = "urn:x-mxl:option:history_duration/v1.0"

const (
	nameOptions   = "options.json"
	nameDomainDef = "domain_def.json"
)

// domainOptions is what options.json said.
type domainOptions struct {
	historyNS uint64
	text      []byte
	err       error
}

func readDomainOptions(parentFD int, name, dir string) domainOptions {
	o := domainOptions{historyNS: DefaultHistoryNS}
	text, err := readDomainText(parentFD, name, dir, nameOptions)
	if errors.Is(err, fs.ErrNotExist) {
		return o
	}
	if err != nil {
		o.err = err
		return o
	}
	o.text = text
	if o.historyNS, err = ParseDomainOptions(text); err != nil {
		o.err = malformed(filepath.Join(dir, nameOptions), "%v", err)
	}
	return o
}

// readDomainText reads a file of the domain directory name below parentFD; dir is its path for messages.
func readDomainText(parentFD int, name, dir, file string) ([]byte, error) {
	dirFD, err := openAt(parentFD, name, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return nil, fileError("open", dir, err)
	}
	defer unix.Close(dirFD)
	return readText(dirFD, dir, file)
}

// ParseDomainOptions returns the history in nanoseconds that an options.json asks for, truncated. A missing or non-numeric
// member gives DefaultHistoryNS, silently, as in the SDK; with an error the history is DefaultHistoryNS as well.
func ParseDomainOptions(text []byte) (historyNS uint64, err error) {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(text, &members); err != nil {
		return DefaultHistoryNS, fmt.Errorf("not a JSON object: %w", err)
	}
	if members == nil {
		return DefaultHistoryNS, errors.New("not a JSON object: null")
	}
	v, ok := number(members[HistoryKey])
	if !ok {
		return DefaultHistoryNS, nil
	}
	if v < 0 || v >= math.MaxUint64 {
		// The SDK casts it, which is undefined (MXL format reference §1.2).
		return DefaultHistoryNS, fmt.Errorf("%s is %v", HistoryKey, v)
	}
	return uint64(v), nil
}

// number decodes a JSON number; anything else is not ok.
func number(raw json.RawMessage) (float64, bool) {
	var v any
	if len(raw) == 0 || json.Unmarshal(raw, &v) != nil {
		return 0, false
	}
	f, ok := v.(float64)
	return f, ok
}

// DomainDef is what domain_def.json says (MXL format reference §1.3). Missing or mistyped members are "".
type DomainDef struct {
	ID, Label, Description string
	Raw                    []byte
}

// ParseDomainDef parses a domain definition; only text that is not a JSON object is an error.
func ParseDomainDef(text []byte) (*DomainDef, error) {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(text, &members); err != nil {
		return nil, fmt.Errorf("%w: domain definition is not a JSON object: %w", ErrInvalidArgument, err)
	}
	if members == nil {
		return nil, fmt.Errorf("%w: domain definition is null", ErrInvalidArgument)
	}
	word := func(name string) (s string) {
		if json.Unmarshal(members[name], &s) != nil {
			return ""
		}
		return s
	}
	return &DomainDef{ID: word("id"), Label: word("label"), Description: word("description"), Raw: text}, nil
}

// ReadDomainDef reads domain_def.json in a domain directory, at most 1 MiB, no symbolic link.
// errors.Is(err, fs.ErrNotExist) when there is none.
func ReadDomainDef(domainDir string) (*DomainDef, error) {
	return readDomainDef(unix.AT_FDCWD, domainDir, domainDir)
}

func readDomainDef(parentFD int, name, domainDir string) (*DomainDef, error) {
	text, err := readDomainText(parentFD, name, domainDir, nameDomainDef)
	if err != nil {
		return nil, err
	}
	def, err := ParseDomainDef(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", filepath.Join(domainDir, nameDomainDef), err)
	}
	return def, nil
}
