package mxl

import (
	"path/filepath"
	"slices"
	"sync"

	"golang.org/x/sys/unix"
)

// HeadIndex is the head of a flow at the time of the call.
type HeadIndex struct {
	Index uint64
	Live  bool // the flow was active at the scan and the head is within 5 s of now
}

// scanHeadFiles is how many data files are kept open for HeadIndexes; those of more flows are opened at every call.
const scanHeadFiles = 1024

// headFiles holds the data files of the flows in the newest snapshot open, so that reading a head is one system call.
// They are not mapped: a mapping would look like a reader to whoever cleans up. Of a deleted flow the descriptor keeps
// one page, not the ring, until the scanner has seen that it went.
type headFiles struct {
	mu   sync.RWMutex
	root *scanRoot // the scanner's; nil while the root is gone
	open map[FlowKey]headFile
}

type headFile struct {
	fd int
	id scanFileID
}

// keep opens and closes what has to be for a snapshot. It runs on the scanner's goroutine, root is its own.
func (h *headFiles) keep(root *scanRoot, snap *Snapshot) {
	wanted := map[FlowKey]scanFileID{}
	if root != nil {
		for i := range snap.Domains {
			d := &snap.Domains[i]
			for j := range d.Flows {
				if f := &d.Flows[j]; f.Inode != 0 && len(wanted) < scanHeadFiles {
					wanted[d.Key(f)] = scanFileID{f.Device, f.Inode}
				}
			}
		}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.root = root
	for key, f := range h.open {
		if wanted[key] != f.id {
			unix.Close(f.fd)
			delete(h.open, key)
		}
	}
	for key, id := range wanted {
		if _, ok := h.open[key]; ok {
			continue
		}
		fd, err := root.open(filepath.Join(key.Domain, key.Flow, nameData), unix.O_RDONLY)
		if err != nil {
			continue // HeadIndexes tries by itself
		}
		var st unix.Stat_t
		if unix.Fstat(fd, &st) != nil || id != (scanFileID{uint64(st.Dev), st.Ino}) {
			unix.Close(fd) // replaced since the scan: the next one will tell
			continue
		}
		if h.open == nil {
			h.open = map[FlowKey]headFile{}
		}
		h.open[key] = headFile{fd, id}
	}
}

// close closes all files; HeadIndexes returns nothing from then on.
func (h *headFiles) close() { h.keep(nil, &Snapshot{}) }

// HeadIndexes reads the heads of the flows in the newest snapshot whose header could be read, of the given classes
// (none: all), from their files: about 2 µs a flow. Live is judged at now (TAI ns).
func (s *Scanner) HeadIndexes(now uint64, classes ...DomainClass) map[FlowKey]HeadIndex {
	s.heads.mu.RLock()
	defer s.heads.mu.RUnlock()
	snap := s.published.Load()
	if snap == nil || s.heads.root == nil {
		return nil
	}
	flows := 0
	for i := range snap.Domains {
		flows += len(snap.Domains[i].Flows)
	}
	heads := make(map[FlowKey]HeadIndex, flows)
	for i := range snap.Domains {
		d := &snap.Domains[i]
		if len(classes) > 0 && !slices.Contains(classes, d.Class) {
			continue
		}
		for j := range d.Flows {
			f := &d.Flows[j]
			if f.Inode == 0 {
				continue
			}
			key := d.Key(f)
			if head, ok := s.heads.read(key); ok {
				heads[key] = HeadIndex{Index: head, Live: f.Active && headLive(head, f.Rate, now)}
			}
		}
	}
	return heads
}

// read reads one head; h.mu is held.
func (h *headFiles) read(key FlowKey) (uint64, bool) {
	if f, ok := h.open[key]; ok {
		return readHead(f.fd)
	}
	fd, err := h.root.open(filepath.Join(key.Domain, key.Flow, nameData), unix.O_RDONLY)
	if err != nil {
		return 0, false
	}
	defer unix.Close(fd)
	return readHead(fd)
}

// readHead reads the head from a data file (MXL format reference §4.1). Of a FIFO or device in its place pread fails.
func readHead(fd int) (uint64, bool) {
	var b [offHeadIndex + 8]byte
	if n, err := unix.Pread(fd, b[:], 0); err != nil || n < len(b) || le.Uint32(b[offVersion:]) != dataVersion {
		return 0, false
	}
	return le.Uint64(b[offHeadIndex:]), true
}
