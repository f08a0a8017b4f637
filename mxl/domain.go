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

// Domain is a directory of flows (MXL format reference §1). It holds no resources of its own and is safe for concurrent use.
type Domain struct {
	path    string
	dir     *os.File // of OpenDomainAt, nil when the domain is found by its path
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
	d := &Domain{path: real, options: readDomainOptions(unix.AT_FDCWD, real, real)}
	return d.with(opts), nil
}

// OpenDomainAt is OpenDomain for a directory that is open already: whatever its path leads to by now, flows are looked
// for, made and removed in this very directory and nowhere else. The name of dir is used in messages and by the Check of
// readers and writers, so it should be an absolute path. dir stays the caller's, and stays open for as long as the domain
// is used; readers and writers that were opened do not need it.
func OpenDomainAt(dir *os.File, opts ...DomainOption) (*Domain, error) {
	st, err := dir.Stat()
	if err != nil {
		return nil, fileError("open domain", dir.Name(), err)
	}
	if !st.IsDir() {
		return nil, fmt.Errorf("%w: domain %s is not a directory", ErrInvalidArgument, dir.Name())
	}
	d := &Domain{path: dir.Name(), dir: dir, options: readDomainOptions(int(dir.Fd()), ".", dir.Name())}
	return d.with(opts), nil
}

func (d *Domain) with(opts []DomainOption) *Domain {
	for _, o := range opts {
		o(d)
	}
	if d.watch == nil {
		d.watch = NewAccessWatch()
	}
	return d
}

// place says where the directory itself is opened: a name below a descriptor.
func (d *Domain) place() (parentFD int, name string) {
	if d.dir == nil {
		return unix.AT_FDCWD, d.path
	}
	return int(d.dir.Fd()), "."
}

// at says where a directory of the domain is opened, a name below a descriptor, and gives its path for messages.
func (d *Domain) at(name string) (parentFD int, below, path string) {
	path = filepath.Join(d.path, name)
	if d.dir == nil {
		return unix.AT_FDCWD, path, path
	}
	return int(d.dir.Fd()), name, path
}

// entries lists the directory.
func (d *Domain) entries() ([]os.DirEntry, error) {
	parentFD, name := d.place()
	fd, err := openAt(parentFD, name, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return nil, fileError("list", d.path, err)
	}
	f := os.NewFile(uintptr(fd), d.path)
	defer f.Close()
	list, err := f.ReadDir(-1)
	if err != nil {
		return nil, fileError("list", d.path, err)
	}
	return list, nil
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
func (d *Domain) Definition() (*DomainDef, error) {
	parentFD, name := d.place()
	return readDomainDef(parentFD, name, d.path)
}

// Flows lists the ids of the flow directories, sorted by id.
func (d *Domain) Flows() ([]uuid.UUID, error) {
	entries, err := d.entries()
	if err != nil {
		return nil, err
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
	return readFlowDef(d.at(FlowDirName(id)))
}

// ReadFlowDefAt is ReadFlowDef for a flow directory.
func ReadFlowDefAt(flowDir string) ([]byte, error) {
	return readFlowDef(unix.AT_FDCWD, flowDir, flowDir)
}

func readFlowDef(parentFD int, name, flowDir string) ([]byte, error) {
	dirFD, err := openDir(parentFD, name)
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
	f, err := openFlowFiles(d.at(FlowDirName(id)))
	defer f.close()
	return f.info, err
}
