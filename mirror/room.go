package mirror

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sys/unix"

	"github.com/mxl-stack/mxl-fabrics-agent/mxl"
)

// Config is what a room needs.
type Config struct {
	Root      string                 // the MXL root, parent of the domains
	HostID    string                 // HOST_ID; the marker's owner_host_id
	ReserveMB uint64                 // TMPFS_RESERVE_MB; SetReserve changes it
	Readers   *ReaderCheck           // looks again right before files go; one of its own when nil
	Log       *slog.Logger           // nil: nothing is logged
	FreeSpace func() (uint64, error) // bytes free below Root; statfs when nil
}

// Room keeps the mirror domains of this agent on disk. It is safe for
// concurrent use; a deed on a flow that another deed is at work on answers
// [ErrRemoving].
type Room struct {
	cfg    Config
	path   string // canonical
	root   *os.Root
	dir    *os.File // the same directory, for calls os.Root does not have
	watch  *mxl.AccessWatch
	making sync.Mutex // held while something is made: the space check counts on it

	reserveMB atomic.Uint64 // TMPFS_RESERVE_MB now

	mu      sync.Mutex
	closed  bool
	asides  uint64
	held    map[Key]*heldFlow
	busy    map[Key]bool        // being removed or rebuilt; the nil flow id stands for the domain
	damaged map[Key]error       // could not be opened by Adopt
	watched map[Key]watchedFlow // files of held flows, for Watched
	kinds   map[Key]kind        // what flow_def.json says, for Survey
	foreign map[string]string   // complaint already logged, by path
	left    map[string]bool     // domains in which a removal left files of a flow that is gone
}

// heldFlow is a flow whose writer is open, and the origin definition it was
// last compared with.
type heldFlow struct {
	Flow
	def     []byte
	options mxl.FlowOptions
}

// kind caches what Survey shows of a flow_def.json.
type kind struct {
	inode     uint64
	mediaType string
	label     string
}

// SetReserve changes TMPFS_RESERVE_MB while the room is open.
func (r *Room) SetReserve(mb uint64) { r.reserveMB.Store(mb) }

// Open opens the MXL root. It changes nothing on disk. The error says when it
// is not a directory.
func Open(cfg Config) (*Room, error) {
	path, err := filepath.EvalSymlinks(cfg.Root)
	if err != nil {
		return nil, fmt.Errorf("mxl root %s: %w", cfg.Root, err)
	}
	if path, err = filepath.Abs(path); err != nil {
		return nil, fmt.Errorf("mxl root %s: %w", cfg.Root, err)
	}
	root, err := os.OpenRoot(path)
	if err != nil {
		return nil, fmt.Errorf("mxl root %s: %w", cfg.Root, err)
	}
	dir, err := openRootDir(root, path)
	if err != nil {
		_ = root.Close()
		return nil, fmt.Errorf("mxl root %s: %w", cfg.Root, err)
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.Readers == nil {
		cfg.Readers = NewReaderCheck(ReaderCheckConfig{})
	}
	r := &Room{
		cfg: cfg, path: path, root: root, dir: dir, watch: mxl.NewAccessWatch(),
		held: map[Key]*heldFlow{}, busy: map[Key]bool{}, damaged: map[Key]error{},
		watched: map[Key]watchedFlow{}, kinds: map[Key]kind{}, foreign: map[string]string{},
		left: map[string]bool{},
	}
	r.reserveMB.Store(cfg.ReserveMB)
	return r, nil
}

// openRootDir opens the directory of a root under its own path; that of a file
// opened as "." would end in it, and so would every message.
func openRootDir(root *os.Root, path string) (*os.File, error) {
	dot, err := root.Open(".")
	if err != nil {
		return nil, err
	}
	defer dot.Close()
	fd, err := retry(func() (int, error) {
		return unix.Openat(int(dot.Fd()), ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	})
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), path), nil
}

// Path gives the canonical path of the MXL root.
func (r *Room) Path() string { return r.path }

func (r *Room) domainPath(domainID string) string {
	return filepath.Join(r.path, domainDir(domainID))
}

// FreeBytes gives the space free below the root for other users than root.
func (r *Room) FreeBytes() (uint64, error) {
	if r.cfg.FreeSpace != nil {
		return r.cfg.FreeSpace()
	}
	var st unix.Statfs_t
	if err := unix.Fstatfs(int(r.dir.Fd()), &st); err != nil {
		return 0, fmt.Errorf("free space of %s: %w", r.path, err)
	}
	return st.Bavail * uint64(st.Bsize), nil
}

// ownDomains opens every mirror domain of ours; the caller closes them.
func (r *Room) ownDomains() ([]*domainDirectory, error) {
	root, err := openRootDir(r.root, r.path)
	if err != nil {
		return nil, fmt.Errorf("mxl root: %w", err)
	}
	defer root.Close()
	list, err := names(root)
	if err != nil {
		return nil, err
	}
	var own []*domainDirectory
	for _, name := range list {
		id, found := strings.CutPrefix(name, dirPrefix)
		if !found || CheckDomainID(id) != nil {
			continue
		}
		d, err := r.openDomain(id)
		if exhausted(err) {
			for _, d := range own {
				d.close()
			}
			return nil, err // it is there all the same
		}
		if err != nil {
			continue // not ours, or it went just now
		}
		own = append(own, d)
	}
	return own, nil
}

// enter marks a flow as being worked on. Its domain's mark excludes it too.
func (r *Room) enter(k Key) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.closed:
		return ErrClosed
	case r.busy[k], r.busy[Key{DomainID: k.DomainID}]:
		return fmt.Errorf("%w: %s", ErrRemoving, k)
	}
	if k.FlowID == uuid.Nil {
		for other := range r.busy {
			if other.DomainID == k.DomainID {
				return fmt.Errorf("%w: %s", ErrRemoving, other)
			}
		}
	}
	r.busy[k] = true
	return nil
}

func (r *Room) leave(k Key) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.busy, k)
}

// InTheWay logs what is in the way of a wanted mirror of a domain and is not ours,
// once while the reason lasts. It opens one directory.
func (r *Room) InTheWay(domainID string) {
	if CheckDomainID(domainID) != nil {
		return
	}
	d, err := r.openDomain(domainID)
	if err == nil {
		d.close()
		return
	}
	r.complain(err)
}

// complain logs a directory that is not ours, once while the reason lasts.
func (r *Room) complain(err error) {
	var foreign *ForeignError
	if !errors.As(err, &foreign) {
		return
	}
	r.mu.Lock()
	again := r.foreign[foreign.Path] == foreign.Error()
	r.foreign[foreign.Path] = foreign.Error()
	r.mu.Unlock()
	if !again {
		r.cfg.Log.Error("mirror_domain_id_mismatch", "path", foreign.Path,
			"existing", foreign.Existing, "wanted", foreign.Wanted, "error", foreign.Error())
	}
}

// Close ends the room. With cleanup the mirror domains of this agent are
// removed, readers or not (MXL_CLEANUP_ON_EXIT=true). Without it no writer is
// closed: the locks hold until the process is gone, so that neither garbage
// collection nor an SDK writer's release deletes a flow that a reader has.
// Whoever uses writers has stopped before.
func (r *Room) Close(cleanup bool) ([]Removal, error) {
	r.mu.Lock()
	was := r.closed
	r.closed = true
	r.mu.Unlock()
	if was || !cleanup {
		return nil, nil
	}
	readers := r.lastReaders()
	r.making.Lock()
	defer r.making.Unlock()
	domains, all := r.ownDomains()
	var removals []Removal
	for _, d := range domains {
		removal, err := r.removeAtExit(d)
		removal.Readers = readers.Domain(d.id)
		d.close()
		if err != nil {
			all = errors.Join(all, err)
			continue
		}
		removals = append(removals, removal)
	}
	return removals, all
}

// exitLook bounds the look for readers at the exit: it changes nothing, it is for
// the log.
const exitLook = 500 * time.Millisecond

// lastReaders looks who will lose a mirror at the exit.
func (r *Room) lastReaders() *ReaderReport {
	ctx, cancel := context.WithTimeout(context.Background(), exitLook)
	defer cancel()
	return r.cfg.Readers.scan(ctx, r.Watched(), true)
}

// removeAtExit removes a domain whoever reads it. The caller holds making.
func (r *Room) removeAtExit(d *domainDirectory) (Removal, error) {
	removal := Removal{DomainID: d.id, Path: d.path, Reason: OnExit}
	if err := d.removable(Key{DomainID: d.id}); err != nil {
		return removal, err
	}
	closed := r.take(Key{DomainID: d.id})
	err := closeAll(closed)
	if err == nil {
		err = r.removeOpenDomain(d, d.flowFiles(), &removal)
	}
	if err != nil {
		err = errors.Join(err, r.reopen(d, closed, removal))
	}
	return removal, err
}

// letGo closes every writer and the room's descriptors and deletes nothing:
// what the end of the process does.
func (r *Room) letGo() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
	var all error
	for k, f := range r.held {
		all = errors.Join(all, f.close())
		delete(r.held, k)
	}
	return errors.Join(all, r.dir.Close(), r.root.Close())
}

// age says how long ago a moment was, never negative: the clock may have been
// set.
func age(now, then time.Time) time.Duration { return max(0, now.Sub(then)) }
