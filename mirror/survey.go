package mirror

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sys/unix"

	"github.com/mxl-stack/mxl-fabrics-agent/mxl"
)

// DomainOnDisk is one mirror domain of ours as it is on disk.
type DomainOnDisk struct {
	DomainID   string
	Path       string
	SourceHost string    // from the marker
	Made       time.Time // when its domain_def.json was written
	Flows      []FlowOnDisk
}

// FlowOnDisk is one flow directory of such a domain.
type FlowOnDisk struct {
	Key
	Inode     uint64 // of data; 0 when there is none
	Head      uint64 // 0 before the first grain
	Rate      mxl.Rational
	Format    mxl.Format
	MediaType string
	Label     string // of its definition, cut to labelMost
	Held      bool   // this process holds its writer
	Err       error  // why it cannot be opened or read
}

// Survey lists this agent's mirror domains with the state of their files now,
// sorted. It reads headers and maps nothing; for a hundred flows it takes about
// a millisecond on tmpfs.
func (r *Room) Survey() ([]DomainOnDisk, error) {
	domains, err := r.ownDomains()
	if err != nil {
		return nil, err
	}
	list := make([]DomainOnDisk, 0, len(domains))
	for _, d := range domains {
		on, failed := r.survey(d)
		list, err = append(list, on), cmp.Or(err, failed)
		d.close()
	}
	if err != nil {
		return nil, err
	}
	slices.SortFunc(list, func(a, b DomainOnDisk) int { return cmp.Compare(a.DomainID, b.DomainID) })
	return list, nil
}

// Refresh gives an earlier survey with the heads of now, where this process holds
// the writer. It asks the disk nothing, so what others did to the files since is
// not in it.
func (r *Room) Refresh(list []DomainOnDisk) []DomainOnDisk {
	now := slices.Clone(list)
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range now {
		now[i].Flows = slices.Clone(now[i].Flows)
		for j := range now[i].Flows {
			f := &now[i].Flows[j]
			if held := r.held[f.Key]; held != nil && f.Held && held.Inode == f.Inode {
				f.Head = held.Head()
			}
		}
	}
	return now
}

// exhausted says that an error is about this process or host and not about a file:
// what could not be looked at is there all the same.
func exhausted(err error) bool {
	return errors.Is(err, unix.EMFILE) || errors.Is(err, unix.ENFILE) || errors.Is(err, unix.ENOMEM)
}

// survey looks at one domain. It fails when this process cannot look.
func (r *Room) survey(d *domainDirectory) (DomainOnDisk, error) {
	on := DomainOnDisk{DomainID: d.id, Path: d.path, SourceHost: d.marker.SourceHost, Made: d.made}
	for _, id := range d.flows() {
		f := r.surveyHeld(d, Key{d.id, id})
		if !f.Held {
			info, err := mxl.ReadFlowInfoAt(int(d.dir.Fd()), id)
			if exhausted(err) {
				return on, fmt.Errorf("mirror flow %s: %w", f.Key, err)
			}
			f.read(info, err)
		}
		known := r.kindOf(d, f.Key, f.Inode)
		f.MediaType, f.Label = known.mediaType, known.label
		on.Flows = append(on.Flows, f)
	}
	return on, nil
}

// surveyHeld looks at a flow whose writer is held: one stat, and the head from
// the mapping. Held is false when the file on disk is another one.
func (r *Room) surveyHeld(d *domainDirectory, k Key) FlowOnDisk {
	f := FlowOnDisk{Key: k}
	r.mu.Lock()
	defer r.mu.Unlock()
	f.Err = r.damaged[k]
	held := r.held[k]
	var st unix.Stat_t
	if held == nil || unix.Fstatat(int(d.dir.Fd()), flowDir(k.FlowID)+"/data", &st, unix.AT_SYMLINK_NOFOLLOW) != nil {
		return f
	}
	if st.Ino == held.Inode && st.Dev == held.Device {
		f.Held = true
		f.read(held.Info(), nil)
	}
	return f
}

// read takes over what a header says.
func (f *FlowOnDisk) read(info mxl.FlowInfo, err error) {
	f.Inode, f.Head, f.Rate, f.Format = info.Inode, info.HeadIndex, info.Rate, info.Format
	if err != nil {
		f.Err = err
	}
}

// labelMost is how many characters of a label are shown. A definition is somebody
// else's, and may hold 64 KiB of it.
const labelMost = 120

// kindOf reads media type and label of a flow once for each data file.
func (r *Room) kindOf(d *domainDirectory, k Key, inode uint64) kind {
	r.mu.Lock()
	cached, ok := r.kinds[k]
	r.mu.Unlock()
	if ok && cached.inode == inode {
		return cached
	}
	known := kind{inode: inode}
	if _, def, err := d.readDef(k.FlowID); err == nil {
		known.mediaType, known.label = def.MediaType, clip(def.Label, labelMost)
	}
	r.mu.Lock()
	r.kinds[k] = known
	r.mu.Unlock()
	return known
}

// clip cuts a text to so many characters.
func clip(text string, most int) string {
	for i := range text {
		if most--; most < 0 {
			return text[:i]
		}
	}
	return text
}

// flows lists the flow directories of a domain, sorted.
func (d *domainDirectory) flows() []uuid.UUID {
	list, err := names(d.dir)
	if err != nil {
		return nil
	}
	var ids []uuid.UUID
	for _, name := range list {
		if id, ok := parseFlowDir(name); ok {
			ids = append(ids, id)
		}
	}
	slices.SortFunc(ids, func(a, b uuid.UUID) int { return cmp.Compare(a.String(), b.String()) })
	return ids
}

// hasFlow says whether something lies where the flow's directory goes.
func (d *domainDirectory) hasFlow(flowID string) bool {
	var st unix.Stat_t
	return unix.Fstatat(int(d.dir.Fd()), flowID+flowSuffix, &st, unix.AT_SYMLINK_NOFOLLOW) == nil
}

func (d *domainDirectory) flowPath(id uuid.UUID) string { return d.path + "/" + flowDir(id) }

// readDef reads the definition of a flow.
func (d *domainDirectory) readDef(id uuid.UUID) ([]byte, *mxl.FlowDef, error) {
	dir, err := openBelow(d.dir, flowDir(id))
	if err != nil {
		return nil, nil, err
	}
	defer dir.Close()
	text, _, err := readBelow(dir, "flow_def.json")
	if err != nil {
		return nil, nil, err
	}
	def, err := mxl.ParseFlowDef(text)
	if err != nil {
		return nil, nil, err
	}
	if def.ID != id {
		return nil, nil, fmt.Errorf("%s: its definition has the id %s", dir.Name(), def.ID)
	}
	return text, def, nil
}

// Watched lists the files of this agent's mirrors for the reader check.
func (r *Room) Watched() Watched {
	w := Watched{Files: map[FileID]Key{}}
	domains, err := r.ownDomains()
	if err != nil {
		w.Err = err
		return w
	}
	for _, d := range domains {
		w.Err = errors.Join(w.Err, r.watchDomain(d, &w))
		d.close()
	}
	r.forgetWatched()
	w.Own = r.ownFiles()
	return w
}

// ownFiles gives one data file a device that this process maps.
func (r *Room) ownFiles() []FileID {
	r.mu.Lock()
	defer r.mu.Unlock()
	var own []FileID
	for _, f := range r.held {
		if !slices.ContainsFunc(own, func(o FileID) bool { return o.Dev == f.Device }) {
			own = append(own, FileID{Dev: f.Device, Ino: f.Inode})
		}
	}
	return own
}

// watch adds the files of a domain.
func (d *domainDirectory) watch(w *Watched) error {
	return d.watchWith(w, func(name string, k Key) error { return d.watchFlow(w, name, k) })
}

// watchWith adds the files of a domain; those of a finished flow are added by flow.
func (d *domainDirectory) watchWith(w *Watched, flow func(name string, k Key) error) error {
	list, err := names(d.dir)
	if gone(err) {
		return nil
	}
	if err != nil {
		return err
	}
	var all error
	for _, name := range list {
		k := Key{DomainID: d.id}
		id, isFlow := parseFlowDir(name)
		switch {
		case isFlow:
			k.FlowID = id
			all = errors.Join(all, flow(name, k))
		case strings.HasPrefix(name, halfMade):
			all = errors.Join(all, d.watchFlow(w, name, k))
		default:
			// Not of MXL's making, and it goes with the domain all the same.
			if w.add(int(d.dir.Fd()), name, k) == unix.S_IFDIR {
				_, err := d.watchTree(w, name, k)
				all = errors.Join(all, err)
			}
		}
	}
	return all
}

// watchFlow adds the files of one flow directory.
func (d *domainDirectory) watchFlow(w *Watched, name string, k Key) error {
	found, err := d.watchTree(w, name, k)
	if found {
		w.Flows = append(w.Flows, k)
	}
	return err
}

// watchTree adds all files of a directory in the domain and says whether there
// is one.
func (d *domainDirectory) watchTree(w *Watched, name string, k Key) (found bool, err error) {
	dir, err := openBelow(d.dir, name)
	if notADirectory(err) || gone(err) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer dir.Close()
	return true, w.addAll(dir, k, 1)
}

func (w *Watched) addAll(dir *os.File, k Key, level int) error {
	list, err := names(dir)
	if gone(err) {
		return nil // it is being removed
	}
	if err != nil {
		return err
	}
	for _, name := range list {
		if w.add(int(dir.Fd()), name, k) != unix.S_IFDIR || level >= deepest {
			continue
		}
		sub, err := openBelow(dir, name)
		if notADirectory(err) || gone(err) {
			continue
		}
		if err != nil {
			return err
		}
		err = w.addAll(sub, k, level+1)
		_ = sub.Close()
		if err != nil {
			return err
		}
	}
	return nil
}

// add adds a regular file and gives the type of what is there.
func (w *Watched) add(dir int, name string, k Key) uint32 {
	var st unix.Stat_t
	if unix.Fstatat(dir, name, &st, unix.AT_SYMLINK_NOFOLLOW) != nil {
		return 0
	}
	kind := st.Mode & unix.S_IFMT
	if kind == unix.S_IFREG {
		w.Files[FileID{Dev: st.Dev, Ino: st.Ino}] = k
	}
	return kind
}
