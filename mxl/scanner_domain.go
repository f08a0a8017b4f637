package mxl

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unicode"

	"golang.org/x/sys/unix"
)

const (
	// scanEntriesLimit is how many entries of a directory are looked at: more than any host has domains or a domain has
	// flows, and a bound on what a hostile root can cost.
	scanEntriesLimit = 10000
	// scanRewriteGrace is how long the last good domain_def.json counts while the file does not parse and was modified
	// this recently: someone is writing it in place. Without it every peer would see the domain go and come.
	scanRewriteGrace = 2 * time.Second
	// maxDomainID is the longest domain id in bytes: mirror-<id> is a directory name (at most 255).
	maxDomainID = 200

	mirrorMarker = "x-mxl-fabrics-agent"
)

// knownDomain is what the scanner keeps of a subdirectory of the root from one scan to the next.
type knownDomain struct {
	id      scanFileID // of the directory, for the watch
	defined bool       // it has a valid domain_def.json
	record  DomainRecord
	problem string // why it is no domain although it has a domain_def.json
	notes   []ScanProblem

	defStamp     scanStamp
	optionsStamp scanStamp
	optionsNote  string
	flows        map[string]*knownFlow
}

// domainIdentity is what domain_def.json says.
type domainIdentity struct {
	id, label    string
	class        DomainClass
	source, host string // of the marker
}

// parseDomainIdentity decides whose a domain is. hostID is ours.
func parseDomainIdentity(text []byte, hostID string) (domainIdentity, error) {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(text, &members); err != nil || members == nil {
		return domainIdentity{}, errors.New("not a JSON object")
	}
	d := domainIdentity{id: jsonText(members["id"]), label: jsonText(members["label"]), class: DomainLocal}
	switch {
	case d.id == "":
		return d, errors.New("no id")
	case len(d.id) > maxDomainID:
		return d, fmt.Errorf("id of %d bytes, at most %d", len(d.id), maxDomainID)
	case strings.ContainsRune(d.id, '/') || strings.ContainsFunc(d.id, unicode.IsControl):
		return d, fmt.Errorf("id %q cannot be part of a directory name", d.id)
	}
	var marker map[string]json.RawMessage
	if json.Unmarshal(members[mirrorMarker], &marker) == nil && string(marker["mirror"]) == "true" {
		d.source, d.host = jsonText(marker["source_host_id"]), jsonText(marker["owner_host_id"])
		d.class = DomainConflict
		if d.host == hostID {
			d.class = DomainMirror
		}
	}
	return d, nil
}

// jsonText returns a JSON string's text, "" for anything else.
func jsonText(raw json.RawMessage) string {
	var s string
	if json.Unmarshal(raw, &s) != nil {
		return ""
	}
	return s
}

// parseDomainOptions returns options.json for the inventory, {} when it is no object, and the history in ns.
func parseDomainOptions(text []byte) (json.RawMessage, uint64, error) {
	history, err := ParseDomainOptions(text)
	if err != nil {
		err = fmt.Errorf("%w: the default history is in force", err)
	}
	var members map[string]json.RawMessage
	if json.Unmarshal(text, &members) != nil || members == nil {
		text = []byte("{}")
	}
	return text, history, err
}

// examineDomain brings k, which may be new, up to date with the directory name; gone says that there is no such
// directory. An error is about this process: k stays as it was.
func (s *scan) examineDomain(name string, k *knownDomain) (gone bool, err error) {
	dir, err := s.root.dir(name)
	switch {
	case scanTransient(err):
		return false, err
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.ENOTDIR) && !s.root.isLink(name):
		return true, nil
	case errors.Is(err, unix.ENOTDIR):
		*k = knownDomain{problem: errScanLink.Error()}
		return false, nil
	case err != nil:
		*k = knownDomain{problem: reasonText(err)}
		return false, nil
	}
	defer dir.Close()
	fd := int(dir.Fd())
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return false, err
	}
	if id := (scanFileID{uint64(st.Dev), st.Ino}); id != k.id {
		*k = knownDomain{id: id, flows: map[string]*knownFlow{}}
	}
	if err := s.identity(name, fd, k); err != nil || !k.defined {
		return false, err
	}
	if s.skipMirrors && k.record.Class == DomainMirror {
		clear(k.flows)
		k.record.Flows, k.notes = nil, nil
		return false, nil
	}
	return false, s.contents(name, dir, k)
}

// contents examines what a domain holds: its options and its flows.
func (s *scan) contents(name string, dir *os.File, k *knownDomain) error {
	if err := s.options(name, int(dir.Fd()), k); err != nil {
		return err
	}
	return s.flowsOf(name, dir, k)
}

// identity reads domain_def.json when it changed.
func (s *scan) identity(name string, fd int, k *knownDomain) error {
	var st unix.Stat_t
	switch err := unix.Fstatat(fd, nameDomainDef, &st, unix.AT_SYMLINK_NOFOLLOW); {
	case err == unix.ENOENT:
		*k = knownDomain{id: k.id, flows: map[string]*knownFlow{}}
		return nil
	case err == nil && scanStampOf(&st) == k.defStamp:
		return nil
	}
	text, stamp, err := s.root.read(filepath.Join(name, nameDomainDef), scanDefinitionLimit)
	if scanTransient(err) {
		return err
	}
	var d domainIdentity
	if err == nil {
		d, err = parseDomainIdentity(text, s.hostID)
	}
	if err != nil {
		if k.defined && s.now.Sub(time.Unix(stamp.mtime.Unix())) < scanRewriteGrace {
			return nil // the stamp stays old: the next scan looks again
		}
		*k = knownDomain{id: k.id, defStamp: stamp, problem: nameDomainDef + ": " + reasonText(err), flows: map[string]*knownFlow{}}
		return nil
	}
	k.defStamp, k.defined, k.problem = stamp, true, ""
	k.record = DomainRecord{
		ID: d.id, Class: d.class, Directory: name, Path: filepath.Join(s.path, name), Label: d.label, Inode: k.id.inode,
		SourceHostID: d.source, OwnerHostID: d.host, DefinedAt: time.Unix(stamp.mtime.Unix()),
		Options: k.record.Options, HistoryNS: k.record.HistoryNS, Flows: k.record.Flows,
	}
	return nil
}

// options reads options.json when it changed.
func (s *scan) options(name string, fd int, k *knownDomain) error {
	var st unix.Stat_t
	err := unix.Fstatat(fd, nameOptions, &st, unix.AT_SYMLINK_NOFOLLOW)
	if err == nil && k.record.Options != nil && scanStampOf(&st) == k.optionsStamp {
		return nil
	}
	k.optionsStamp, k.optionsNote = scanStamp{}, ""
	if err == unix.ENOENT {
		k.record.Options, k.record.HistoryNS = json.RawMessage("{}"), DefaultHistoryNS
		return nil
	}
	text, stamp, err := s.root.read(filepath.Join(name, nameOptions), scanDefinitionLimit)
	if scanTransient(err) {
		return err
	}
	k.optionsStamp = stamp
	if err != nil {
		k.record.Options, k.record.HistoryNS = json.RawMessage("{}"), DefaultHistoryNS
		k.optionsNote = reasonText(err)
		return nil
	}
	if k.record.Options, k.record.HistoryNS, err = parseDomainOptions(text); err != nil {
		k.optionsNote = err.Error()
	}
	return nil
}

// flowsOf examines every flow directory of a domain.
func (s *scan) flowsOf(name string, dir *os.File, k *knownDomain) error {
	entries, more, err := scanEntries(dir, scanEntriesLimit)
	if scanTransient(err) {
		return err
	}
	k.notes = k.notes[:0:0]
	if k.optionsNote != "" {
		k.notes = append(k.notes, ScanProblem{filepath.Join(s.path, name, nameOptions), k.optionsNote})
	}
	if err != nil {
		k.notes = append(k.notes, ScanProblem{filepath.Join(s.path, name), reasonText(err)})
	}
	if more {
		k.notes = append(k.notes, ScanProblem{filepath.Join(s.path, name),
			fmt.Sprintf("more than %d entries: the rest is not looked at", scanEntriesLimit)})
	}
	fsc := flowScan{root: s.root, path: s.path, domain: name, fd: int(dir.Fd()), history: k.record.HistoryNS,
		tai: s.tai, now: s.now, pause: s.pause}
	flows := make([]FlowRecord, 0, len(k.flows))
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), FlowSuffix) || strings.HasPrefix(e.Name(), ".") {
			continue
		}
		f := k.flows[e.Name()]
		if f == nil {
			f = &knownFlow{firstSeen: s.now}
		}
		if err := fsc.examine(e.Name(), f); err != nil {
			s.trouble = err
			if k.flows[e.Name()] == nil {
				continue
			}
		}
		f.seen = s.number
		k.flows[e.Name()] = f
		if !f.missingSince.IsZero() && s.now.Sub(f.missingSince) < s.missingGrace {
			continue
		}
		if f.record.Active && !f.record.Live && s.now.Sub(f.firstSeen) < scanYoung {
			s.young = true
		}
		flows = append(flows, f.record)
	}
	for n, f := range k.flows {
		if f.seen != s.number {
			delete(k.flows, n)
		}
	}
	slices.SortFunc(flows, func(a, b FlowRecord) int { return cmp.Compare(a.Directory, b.Directory) })
	k.record.Flows = flows
	return nil
}

// chooseDomains lists every (id, class) once, by the rule at DomainRecord, and names the others. current says which
// directory was listed for an id and class before.
func chooseDomains(found []DomainRecord, current func(id string, class DomainClass) string) ([]DomainRecord, []ScanProblem) {
	rank := func(d *DomainRecord) int {
		r := 0
		for i := range d.Flows {
			switch {
			case d.Flows[i].Live:
				return 2
			case d.Flows[i].Active:
				r = 1
			}
		}
		return r
	}
	slices.SortFunc(found, func(a, b DomainRecord) int {
		if c := cmp.Or(cmp.Compare(a.ID, b.ID), cmp.Compare(a.Class, b.Class), cmp.Compare(rank(&b), rank(&a))); c != 0 {
			return c
		}
		was := current(a.ID, a.Class)
		switch was {
		case a.Directory:
			return -1
		case b.Directory:
			return 1
		}
		return cmp.Compare(a.Directory, b.Directory)
	})
	var (
		listed   = make([]DomainRecord, 0, len(found))
		problems []ScanProblem
	)
	for _, d := range found {
		if n := len(listed); n > 0 && listed[n-1].ID == d.ID && listed[n-1].Class == d.Class {
			problems = append(problems, ScanProblem{d.Path,
				fmt.Sprintf("domain id %q is already that of directory %s", d.ID, listed[n-1].Directory)})
			continue
		}
		listed = append(listed, d)
	}
	return listed, problems
}
