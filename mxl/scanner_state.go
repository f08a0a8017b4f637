package mxl

import (
	"cmp"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"time"
)

// scanState is what a scanner knows; one goroutine owns it.
type scanState struct {
	path, hostID string
	now          func() uint64 // TAI ns
	missingGrace time.Duration // 0 lists a flow without its files at once
	skipMirrors  bool          // see ScannerConfig

	root    *scanRoot
	known   map[string]*knownDomain // subdirectories of the root
	number  uint64                  // scans so far
	problem string                  // of the root itself
	crowded bool                    // the root has more entries than are looked at
	trouble error                   // of the newest scan: about this process, what was known stays
	young   bool                    // an active flow appeared lately and is not live yet
	listed  map[domainKey]string    // directory listed for an id and class
}

type domainKey struct {
	id    string
	class DomainClass
}

// scan is one pass over some or all domains.
type scan struct {
	root         *scanRoot
	path, hostID string
	number       uint64
	tai          uint64
	now          time.Time
	pause        func()
	missingGrace time.Duration // how long a flow without data is not listed
	skipMirrors  bool
	young        bool
	trouble      error
}

func newScanState(path, hostID string, now func() uint64) (*scanState, error) {
	path = filepath.Clean(path)
	root, err := openScanRoot(path)
	if err != nil {
		return nil, err
	}
	return &scanState{path: path, hostID: hostID, now: now, root: root, known: map[string]*knownDomain{}, listed: map[domainKey]string{}}, nil
}

func (st *scanState) close() {
	if st.root != nil {
		st.root.close()
	}
}

// all examines the root and every domain below it.
func (st *scanState) all() {
	names, ok := st.list()
	if !ok {
		return
	}
	for name := range st.known {
		names[name] = true
	}
	st.young = false
	st.some(names)
}

// list returns the subdirectories of the root. A root that is not there any more has no domains; an error of this
// process leaves everything as it was (ok false).
func (st *scanState) list() (names map[string]bool, ok bool) {
	names = map[string]bool{}
	if st.root != nil && !st.root.sameAs(st.path) {
		st.root.close()
		st.root = nil
	}
	if st.root == nil {
		root, err := openScanRoot(st.path)
		if scanTransient(err) {
			st.trouble = err
			return nil, false
		}
		if err != nil {
			st.problem = reasonText(err)
			clear(st.known)
			st.trouble, st.crowded, st.young = nil, false, false
			return nil, false
		}
		st.root = root
		clear(st.known)
	}
	dir, err := st.root.dir(".")
	if err != nil {
		if scanTransient(err) {
			st.trouble = err
		} else {
			st.problem = reasonText(err)
		}
		return nil, false
	}
	defer dir.Close()
	entries, more, err := scanEntries(dir, scanEntriesLimit)
	if err != nil {
		st.trouble = err
		return nil, false
	}
	st.problem, st.crowded = "", more
	for _, e := range entries {
		// Symbolic links are examined too, to say that they are not followed.
		if mode := e.Type(); mode.IsDir() || mode&^0o777 != 0 && !mode.IsRegular() {
			names[e.Name()] = true
		}
	}
	return names, true
}

// some examines the named subdirectories; st.root must be open.
func (st *scanState) some(names map[string]bool) {
	if st.root == nil {
		return
	}
	s := st.pass()
	for name := range names {
		if name == "" || name[0] == '.' {
			continue
		}
		k := st.known[name]
		if k == nil {
			k = &knownDomain{}
		}
		gone, err := s.examineDomain(name, k)
		switch {
		case err != nil:
			s.trouble = err
		case gone:
			delete(st.known, name)
		default:
			st.known[name] = k
		}
	}
	st.trouble = s.trouble
	st.young = st.young || s.young
}

// pass begins a scan; st.root must be open.
func (st *scanState) pass() *scan {
	st.number++
	return &scan{root: st.root, path: st.path, hostID: st.hostID, number: st.number, tai: st.now(), now: time.Now(),
		missingGrace: st.missingGrace, skipMirrors: st.skipMirrors, pause: func() { time.Sleep(200 * time.Microsecond) }}
}

// snapshot is what the newest scans found. Revision and Notice are the caller's.
func (st *scanState) snapshot() Snapshot {
	snap := Snapshot{Taken: time.Now()}
	var found []DomainRecord
	for name, k := range st.known {
		if k.defined {
			found = append(found, k.record)
		}
		if k.problem != "" {
			snap.Problems = append(snap.Problems, ScanProblem{filepath.Join(st.path, name), k.problem})
		}
		snap.Problems = append(snap.Problems, k.notes...)
	}
	var twice []ScanProblem
	snap.Domains, twice = chooseDomains(found, func(id string, class DomainClass) string { return st.listed[domainKey{id, class}] })
	snap.Problems = append(snap.Problems, twice...)
	clear(st.listed)
	for i := range snap.Domains {
		d := &snap.Domains[i]
		st.listed[domainKey{d.ID, d.Class}] = d.Directory
	}
	if st.problem != "" {
		snap.Problems = append(snap.Problems, ScanProblem{st.path, st.problem})
	}
	if st.crowded {
		snap.Problems = append(snap.Problems, ScanProblem{st.path,
			fmt.Sprintf("more than %d entries: the rest is not looked at", scanEntriesLimit)})
	}
	if st.trouble != nil {
		snap.Problems = append(snap.Problems, ScanProblem{st.path, "scan incomplete: " + reasonText(st.trouble)})
	}
	slices.SortFunc(snap.Problems, func(a, b ScanProblem) int {
		return cmp.Or(cmp.Compare(a.Path, b.Path), cmp.Compare(a.Reason, b.Reason))
	})
	return snap
}

// directories are the subdirectories to watch.
func (st *scanState) directories() map[string]scanFileID {
	dirs := make(map[string]scanFileID, len(st.known))
	for name, k := range st.known {
		if k.id != (scanFileID{}) {
			dirs[name] = k.id
		}
	}
	return dirs
}

// ScanRoot scans once. The error is that of a root that cannot be opened.
func ScanRoot(root, hostID string) (Snapshot, error) {
	st, err := newScanState(root, hostID, Now)
	if err != nil {
		return Snapshot{}, fmt.Errorf("mxl: %w", err)
	}
	defer st.close()
	st.all()
	snap := st.snapshot()
	snap.Revision = 1
	return snap, nil
}

// ScanDomain examines one domain directory; one without domain_def.json has no ID and is local. The error is that of a
// directory that cannot be read, or of a domain_def.json that is there and not valid.
func ScanDomain(path, hostID string) (DomainRecord, error) {
	path, err := filepath.EvalSymlinks(path)
	if err == nil {
		path, err = filepath.Abs(path)
	}
	if err != nil {
		return DomainRecord{}, fmt.Errorf("mxl: %w", err)
	}
	parent, name := filepath.Split(path)
	st, err := newScanState(parent, hostID, Now)
	if err != nil {
		return DomainRecord{}, fmt.Errorf("mxl: %w", err)
	}
	defer st.close()
	var k knownDomain
	s := st.pass()
	gone, err := s.examineDomain(name, &k)
	switch {
	case err != nil:
		return DomainRecord{}, fmt.Errorf("mxl: %s: %w", path, err)
	case gone:
		return DomainRecord{}, fmt.Errorf("mxl: %s: not a directory", path)
	case k.problem != "":
		return DomainRecord{}, fmt.Errorf("mxl: %s: %s", path, k.problem)
	case !k.defined:
		k.record = DomainRecord{Class: DomainLocal, Directory: name, Path: path, Inode: k.id.inode}
		dir, err := st.root.dir(name)
		if err != nil {
			return DomainRecord{}, fmt.Errorf("mxl: %s: %w", path, err)
		}
		defer dir.Close()
		if err := s.contents(name, dir, &k); err != nil {
			return DomainRecord{}, fmt.Errorf("mxl: %s: %w", path, err)
		}
	}
	return k.record, nil
}

// faults is every fault in a snapshot by path, for the log.
func (s *Snapshot) faults() map[string]scanFault {
	out := map[string]scanFault{}
	for _, p := range s.Problems {
		f := out[p.Path]
		if f.reason != "" {
			f.reason += "; "
		}
		f.reason += p.Reason
		out[p.Path] = f
	}
	for i := range s.Domains {
		d := &s.Domains[i]
		for j := range d.Flows {
			if f := &d.Flows[j]; f.Reason != "" {
				out[filepath.Join(d.Path, f.Directory)] = scanFault{f.Reason, d.ID, f.ID.String(), true}
			}
		}
	}
	return out
}

// scanFault is one fault as it goes to the log.
type scanFault struct {
	reason, domainID, flowID string
	flow                     bool
}

// faultChanges says which faults are new or different and which are over, each sorted by path.
func faultChanges(was, is map[string]scanFault) (appeared, over []string) {
	for path, f := range is {
		if was[path] != f {
			appeared = append(appeared, path)
		}
	}
	for path := range maps.Keys(was) {
		if _, still := is[path]; !still {
			over = append(over, path)
		}
	}
	slices.Sort(appeared)
	slices.Sort(over)
	return appeared, over
}
