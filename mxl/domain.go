package mxl

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/google/uuid"
	"golang.org/x/sys/unix"
)

// FlowSuffix ends the name of every flow directory.
const FlowSuffix = ".mxl-flow"

// tempPrefix starts the name of a flow under construction.
const tempPrefix = ".mxl-tmp-"

// FlowDirName returns the directory name of a flow: the canonical lower-case id and FlowSuffix.
func FlowDirName(id uuid.UUID) string { return id.String() + FlowSuffix }

// ParseFlowDirName returns the id in the name of a flow directory.
func ParseFlowDirName(name string) (id uuid.UUID, ok bool) {
	stem, ok := strings.CutSuffix(name, FlowSuffix)
	if !ok {
		return id, false
	}
	id, err := uuid.Parse(stem)
	return id, err == nil && id.String() == stem
}

// Domain is a directory of flows (MXL format reference §1). It holds no resources and is safe for concurrent use.
type Domain struct {
	path    string
	options domainOptions
	watch   *AccessWatch
}

// DomainOption configures OpenDomain.
type DomainOption func(*Domain)

// WithAccessWatch makes the discrete writers of a domain share a watch with other domains. Without it each domain that
// has discrete writers uses an inotify instance of its own.
func WithAccessWatch(w *AccessWatch) DomainOption { return func(d *Domain) { d.watch = w } }

// OpenDomain opens a directory. Its options.json is read once, here; a bad one gives the defaults (OptionsError says so).
func OpenDomain(path string, opts ...DomainOption) (*Domain, error) {
	real, err := filepath.EvalSymlinks(path)
	if err == nil {
		real, err = filepath.Abs(real)
	}
	if err != nil {
		return nil, fileError("open domain", path, err)
	}
	st, err := os.Stat(real)
	if err != nil {
		return nil, fileError("open domain", path, err)
	}
	if !st.IsDir() {
		return nil, fmt.Errorf("%w: domain %s is not a directory", ErrInvalidArgument, path)
	}
	d := &Domain{path: real, options: readDomainOptions(real)}
	for _, o := range opts {
		o(d)
	}
	if d.watch == nil {
		d.watch = NewAccessWatch()
	}
	return d, nil
}

// Path returns the canonical path.
func (d *Domain) Path() string { return d.path }

// HistoryNS returns the history of flows created here, in nanoseconds.
func (d *Domain) HistoryNS() uint64 { return d.options.historyNS }

// OptionsJSON returns the bytes of options.json as they were at OpenDomain, nil when there was none.
func (d *Domain) OptionsJSON() []byte { return d.options.text }

// OptionsError says why options.json was not used, nil when it was or is absent.
func (d *Domain) OptionsError() error { return d.options.err }

// Definition reads domain_def.json. errors.Is(err, fs.ErrNotExist) when there is none.
func (d *Domain) Definition() (*DomainDef, error) { return ReadDomainDef(d.path) }

// Flows lists the ids of the flow directories, sorted by id.
func (d *Domain) Flows() ([]uuid.UUID, error) {
	entries, err := os.ReadDir(d.path)
	if err != nil {
		return nil, fileError("list", d.path, err)
	}
	var ids []uuid.UUID
	for _, e := range entries {
		if id, ok := ParseFlowDirName(e.Name()); ok && e.IsDir() {
			ids = append(ids, id)
		}
	}
	slices.SortFunc(ids, func(a, b uuid.UUID) int { return strings.Compare(a.String(), b.String()) })
	return ids, nil
}

// ReadFlowDef returns the bytes of flow_def.json, at most 1 MiB, no symbolic link. ErrFlowNotFound when there is none.
func (d *Domain) ReadFlowDef(id uuid.UUID) ([]byte, error) {
	return ReadFlowDefAt(filepath.Join(d.path, FlowDirName(id)))
}

// ReadFlowDefAt is ReadFlowDef for a flow directory.
func ReadFlowDefAt(flowDir string) ([]byte, error) {
	dirFD, err := openDir(unix.AT_FDCWD, flowDir)
	if err != nil {
		return nil, probeError(flowDir, err)
	}
	defer unix.Close(dirFD)
	text, err := readText(dirFD, flowDir, nameFlowDef)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, notFound(filepath.Join(flowDir, nameFlowDef))
	}
	return text, err
}

// FlowInfo reads the header of a flow, see ReadFlowInfo.
func (d *Domain) FlowInfo(id uuid.UUID) (FlowInfo, error) {
	return ReadFlowInfo(filepath.Join(d.path, FlowDirName(id)))
}
