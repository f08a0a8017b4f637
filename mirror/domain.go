package mirror

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

const (
	definitionFile = "domain_def.json"
	// unfinishedFile is the definition of a domain under construction. Only its
	// last step gives it its name, so that nobody sees a domain half made.
	unfinishedFile = definitionFile + ".tmp"
	optionsFile    = "options.json"
	// halfMade begins the name of a flow under construction or removal
	// (MXL format reference §1.1).
	halfMade = ".mxl-tmp-"
)

// domainDirectory is a mirror domain of ours, opened and checked.
type domainDirectory struct {
	id     string
	path   string // for logs, errors and the mxl package
	dir    *os.File
	file   FileID // of the directory
	marker marker
	made   time.Time // modification time of domain_def.json
}

func (d *domainDirectory) close() { _ = d.dir.Close() }

// openDomain opens the mirror domain of an id and checks that it is ours: a
// real directory with our marker. Errors: fs.ErrNotExist when there is none
// (also for an empty directory, which is nobody's), *ForeignError.
func (r *Room) openDomain(domainID string) (*domainDirectory, error) {
	path := r.domainPath(domainID)
	dir, err := openBelow(r.dir, domainDir(domainID))
	if notADirectory(err) {
		return nil, &ForeignError{Path: path, Why: "it is not a plain directory on the MXL file system"}
	}
	if err != nil {
		return nil, err
	}
	d, err := r.checkDomain(domainID, path, dir)
	if err != nil {
		_ = dir.Close()
		return nil, err
	}
	return d, nil
}

func (r *Room) checkDomain(domainID, path string, dir *os.File) (*domainDirectory, error) {
	file, err := fileIDOf(dir)
	if err != nil {
		return nil, err
	}
	text, info, err := readBelow(dir, definitionFile)
	if errors.Is(err, fs.ErrNotExist) {
		text, info, err = r.finishDomain(domainID, path, dir)
	}
	if errors.Is(err, errNotPlain) {
		return nil, &ForeignError{Path: path, Why: err.Error()}
	}
	if err != nil {
		return nil, err
	}
	m, err := parseMarker(text)
	if err != nil && m.DomainID == domainID {
		return nil, &ForeignError{Path: path, Why: err.Error()}
	}
	if err != nil {
		return nil, &ForeignError{Path: path, Existing: m.DomainID, Wanted: domainID, Why: "id"}
	}
	if err := m.claim(path, domainID, r.cfg.HostID); err != nil {
		return nil, err
	}
	return &domainDirectory{id: domainID, path: path, dir: dir, file: file, marker: m, made: info.ModTime()}, nil
}

// finishDomain does the last step of makeDomain for a directory that a crash
// left without it. An empty directory counts as absent: it is what a crash in
// the last step of a removal leaves, and nobody loses anything with it.
func (r *Room) finishDomain(domainID, path string, dir *os.File) ([]byte, os.FileInfo, error) {
	absent := &os.PathError{Op: "open domain", Path: path, Err: fs.ErrNotExist}
	text, info, err := readBelow(dir, unfinishedFile)
	if errors.Is(err, fs.ErrNotExist) {
		// Another deed of ours may have finished it just now, or be removing it.
		if text, info, err = readBelow(dir, definitionFile); err == nil {
			return text, info, nil
		}
		if list, err := names(dir); gone(err) || (err == nil && len(list) == 0) {
			return nil, nil, absent
		}
	}
	if err != nil {
		return nil, nil, &ForeignError{Path: path, Why: "it has no " + definitionFile}
	}
	m, err := parseMarker(text)
	if err == nil {
		err = m.claim(path, domainID, r.cfg.HostID)
	}
	if err != nil {
		return nil, nil, &ForeignError{Path: path, Why: "it has no " + definitionFile}
	}
	fd := int(dir.Fd())
	err = unix.Renameat2(fd, unfinishedFile, fd, definitionFile, unix.RENAME_NOREPLACE)
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.EEXIST) {
		return readBelow(dir, definitionFile) // another deed of ours did it just now
	}
	if err != nil {
		return nil, nil, fmt.Errorf("finish %s: %w", path, err)
	}
	return text, info, nil
}

// makeDomain makes the mirror domain of an origin: built aside, put in place in
// one step, and given its definition last.
func (r *Room) makeDomain(o Origin) (*domainDirectory, error) {
	text, err := definition(o.DomainID, o.SourceHost, r.cfg.HostID)
	if err != nil {
		return nil, err
	}
	options := o.Options
	if len(options) == 0 {
		options = []byte("{}\n")
	}
	aside := r.asideName()
	for err := unix.Mkdirat(int(r.dir.Fd()), aside, 0o700); err != nil; err = unix.Mkdirat(int(r.dir.Fd()), aside, 0o700) {
		if !errors.Is(err, fs.ErrExist) {
			return nil, fmt.Errorf("mirror domain %s: %s: %w", o.DomainID, r.path, err)
		}
		aside = r.asideName()
	}
	if err := r.fillDomain(aside, domainDir(o.DomainID), options, text); err != nil {
		_ = removeEntry(r.dir, aside, 0)
		if errors.Is(err, unix.ENOTEMPTY) || errors.Is(err, unix.EEXIST) || errors.Is(err, unix.ENOTDIR) {
			return nil, &ForeignError{Path: r.domainPath(o.DomainID), Why: "it appeared while the mirror was made"}
		}
		return nil, fmt.Errorf("mirror domain %s: %w", o.DomainID, err)
	}
	return r.openDomain(o.DomainID)
}

func (r *Room) fillDomain(aside, name string, options, definition []byte) error {
	sub, err := openBelow(r.dir, aside)
	if err != nil {
		return err
	}
	defer sub.Close()
	for file, text := range map[string][]byte{optionsFile: options, unfinishedFile: definition} {
		if err := writeBelow(sub, file, text); err != nil {
			return err
		}
	}
	if err := sub.Chmod(0o755); err != nil {
		return err
	}
	// Replaces an empty directory and nothing else.
	return unix.Renameat(int(r.dir.Fd()), aside, int(r.dir.Fd()), name)
}

// asidePrefix begins the names of this agent's domains under construction. The
// owner is part of it, so that each agent clears its own after a crash.
func asidePrefix(hostID string) string {
	sum := sha256.Sum256([]byte(hostID))
	return ".mxl-fabrics-agent-" + hex.EncodeToString(sum[:6]) + "-"
}

func (r *Room) asideName() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.asides++
	return fmt.Sprintf("%s%d-%d", asidePrefix(r.cfg.HostID), os.Getpid(), r.asides)
}

// clearAsides removes domains under construction that a crash left.
func (r *Room) clearAsides() error {
	list, err := names(r.dir)
	if err != nil {
		return err
	}
	var all error
	for _, name := range list {
		if strings.HasPrefix(name, asidePrefix(r.cfg.HostID)) {
			all = errors.Join(all, removeEntry(r.dir, name, 0))
		}
	}
	return all
}
