package mirror

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"

	"github.com/google/uuid"
	"golang.org/x/sys/unix"
)

// Removal is what a removal did, also one that failed.
type Removal struct {
	DomainID string
	Path     string
	Flows    []Key // that are gone
	Reason   Reason
	Readers  []Reader // at the exit: who read it all the same, as far as they were seen
}

// Took says whether the removal took a flow away.
func (r Removal) Took(k Key) bool { return slices.Contains(r.Flows, k) }

// CheckFlow makes a reader check of one flow now: nil when no other process
// maps it, *BusyError, *ObstacleError, or [ErrNotMirror]. It takes as long as a
// reader check. While the writer is held it looks at shared mappings only, as MXL
// readers have; the removal itself looks at all.
func (r *Room) CheckFlow(ctx context.Context, k Key) error { return r.checkNow(ctx, k) }

// CheckDomain makes a reader check of a whole domain now, so that a removal
// that would be refused need not stop replications first.
func (r *Room) CheckDomain(ctx context.Context, domainID string) error {
	return r.checkNow(ctx, Key{DomainID: domainID})
}

func (r *Room) checkNow(ctx context.Context, k Key) error {
	d, err := r.openOwn(k)
	if err != nil {
		return err
	}
	defer d.close()
	if err := d.removable(k); err != nil {
		return err
	}
	w := d.watched(k)
	w.Own = r.ownFiles()
	return verdict(r.cfg.Readers.scan(ctx, w, true), k, mustBeFree)
}

// removable looks for what would stop the removal of a flow, or of the whole
// domain, half way: *ObstacleError.
func (d *domainDirectory) removable(k Key) error {
	if k.FlowID == uuid.Nil {
		return obstacle(d.dir, 0)
	}
	return obstacleOf(d.dir, flowDir(k.FlowID))
}

// RemoveFlow removes one flow of a mirror domain for a reason. The caller has
// stopped using its writer. It takes the writer down, makes the reader check
// the reason asks for, and removes the files; when it is refused ([ErrBusy],
// *BusyError) the flow is opened again on the same inode, with another writer:
// ask EnsureFlow for it. [ErrNotMirror] without such a flow, [ErrObstacle] when
// something in it cannot go; then nothing was touched. It may take as long as a
// reader check: not for the reconcile loop.
func (r *Room) RemoveFlow(ctx context.Context, k Key, reason Reason) (Removal, error) {
	if k.FlowID == uuid.Nil {
		return Removal{}, fmt.Errorf("%w: %s", ErrNotMirror, k)
	}
	if err := r.enter(k); err != nil {
		return Removal{}, err
	}
	defer r.leave(k)
	d, err := r.openOwn(k)
	if err != nil {
		return Removal{}, err
	}
	defer d.close()
	removal := Removal{DomainID: k.DomainID, Path: d.flowPath(k.FlowID), Reason: reason}
	if err := r.removeFlow(ctx, d, k, reason); err != nil {
		return removal, err
	}
	removal.Flows = []Key{k}
	return removal, nil
}

// RemoveDomain removes a mirror domain, as RemoveFlow does a flow. Nothing goes
// while any file of the domain is mapped, or something in it cannot go. Should
// the file system refuse half way all the same, the Removal beside the error
// lists the flows that are gone; the others are open again.
func (r *Room) RemoveDomain(ctx context.Context, domainID string, reason Reason) (Removal, error) {
	k := Key{DomainID: domainID}
	if err := r.enter(k); err != nil {
		return Removal{}, err
	}
	defer r.leave(k)
	d, err := r.openOwn(k)
	if err != nil {
		return Removal{}, err
	}
	defer d.close()
	removal := Removal{DomainID: d.id, Path: d.path, Reason: reason}
	if err := d.removable(k); err != nil {
		return removal, err
	}
	before := d.flowFiles()
	closed := r.take(k)
	err = closeAll(closed)
	if err == nil {
		err = r.free(ctx, d, k, mustBeFree)
	}
	if err == nil && !maps.Equal(before, d.flowFiles()) {
		err = fmt.Errorf("%w: %s", ErrChanged, d.path)
	}
	if err == nil {
		r.making.Lock()
		defer r.making.Unlock()
		err = r.removeOpenDomain(d, before, &removal)
	}
	if err != nil {
		err = errors.Join(err, r.reopen(d, closed, removal))
	}
	return removal, err
}

// unchanged makes sure that the name of the domain still leads to the directory
// that was checked.
func (r *Room) unchanged(d *domainDirectory) error {
	now, err := r.openDomain(d.id)
	if err != nil {
		return fmt.Errorf("%w: %s: %w", ErrChanged, d.path, err)
	}
	defer now.close()
	if now.file != d.file {
		return fmt.Errorf("%w: %s", ErrChanged, d.path)
	}
	return nil
}

// flowFiles identifies the directories of all flows.
func (d *domainDirectory) flowFiles() map[uuid.UUID]FileID {
	files := map[uuid.UUID]FileID{}
	for _, id := range d.flows() {
		files[id], _ = d.flowFile(Key{d.id, id})
	}
	return files
}

// openOwn opens the domain of a mirror that must exist.
func (r *Room) openOwn(k Key) (*domainDirectory, error) {
	if err := CheckDomainID(k.DomainID); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNotMirror, err)
	}
	d, err := r.openDomain(k.DomainID)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, ErrForeign) {
		return nil, fmt.Errorf("%w: %s: %w", ErrNotMirror, k.DomainID, err)
	}
	if err != nil {
		return nil, err
	}
	if k.FlowID != uuid.Nil && !d.hasFlow(k.FlowID.String()) {
		d.close()
		return nil, fmt.Errorf("%w: %s", ErrNotMirror, k)
	}
	return d, nil
}

// free makes the reader check a removal needs; *BusyError when it refuses.
func (r *Room) free(ctx context.Context, d *domainDirectory, k Key, need sight) error {
	if need == noCheck {
		return nil
	}
	w := d.watched(k)
	w.Own = r.ownFiles()
	w.Alone = func() bool { return d.alone(k, w.Files) }
	return verdict(r.cfg.Readers.Scan(ctx, w), k, need)
}

// watched lists the files of a flow, or of the domain, as they are on disk.
func (d *domainDirectory) watched(k Key) Watched {
	w := Watched{Files: map[FileID]Key{}}
	if k.FlowID == uuid.Nil {
		w.Err = d.watch(&w)
	} else {
		w.Err = d.watchFlow(&w, flowDir(k.FlowID), k)
	}
	return w
}

// verdict is what a report means for a removal.
func verdict(report *ReaderReport, k Key, need sight) error {
	readers := report.Flow(k)
	if k.FlowID == uuid.Nil {
		readers = report.Domain(k.DomainID)
	}
	if len(readers) > 0 {
		return &BusyError{Readers: readers}
	}
	if need == mustBeFree && !report.Known {
		return &BusyError{Unknown: report.Why}
	}
	return nil
}

// removeFlow closes the writer, looks for readers and removes the files. The
// caller is in the flow.
func (r *Room) removeFlow(ctx context.Context, d *domainDirectory, k Key, reason Reason) error {
	if err := d.removable(k); err != nil {
		return err
	}
	before, err := d.flowFile(k)
	if err != nil {
		return err
	}
	closed := r.take(k)
	err = closeAll(closed)
	if err == nil {
		err = r.free(ctx, d, k, reason.needs())
	}
	if err != nil {
		return errors.Join(err, r.reopen(d, closed, Removal{}))
	}
	r.making.Lock()
	defer r.making.Unlock()
	err = r.unchanged(d)
	if err == nil {
		err = d.removable(k)
	}
	gone := false
	if err == nil {
		gone, err = d.unlinkFlow(k, before)
	}
	if !gone {
		return errors.Join(err, r.reopen(d, closed, Removal{}))
	}
	r.forget(k)
	if err != nil {
		// The flow is gone, files of it are not: they lie aside as after a crash.
		r.leftIn(d.id)
		r.cfg.Log.Warn("mirror_sweep_failed", "domain_id", d.id, "path", d.path, "error", err.Error())
	}
	return nil
}

// flowFile identifies the directory of a flow; zero when what lies there is not
// a directory (a link, a file: it is unlinked as it is).
func (d *domainDirectory) flowFile(k Key) (FileID, error) {
	dir, err := openBelow(d.dir, flowDir(k.FlowID))
	if errors.Is(err, unix.ELOOP) || errors.Is(err, unix.ENOTDIR) {
		return FileID{}, nil
	}
	if err != nil {
		return FileID{}, err
	}
	defer dir.Close()
	return fileIDOf(dir)
}

// unlinkFlow removes the directory of a flow: it takes the name away in one
// step, looks whether what it took is what was checked, and only then empties
// it. A crash in between leaves a half-made flow for the sweep, and so does an
// error once the flow is gone, for SweepLeft.
func (d *domainDirectory) unlinkFlow(k Key, before FileID) (gone bool, err error) {
	fd := int(d.dir.Fd())
	from, aside := flowDir(k.FlowID), halfMade+"gone-"+k.FlowID.String()
	if err := removeEntry(d.dir, aside, 0); err != nil {
		return false, err
	}
	if err := unix.Renameat2(fd, from, fd, aside, unix.RENAME_NOREPLACE); err != nil {
		return false, fmt.Errorf("remove %s/%s: %w", d.path, from, err)
	}
	after := FileID{}
	dir, err := openBelow(d.dir, aside)
	if err == nil {
		after, err = fileIDOf(dir)
		_ = dir.Close()
	} else if errors.Is(err, unix.ELOOP) || errors.Is(err, unix.ENOTDIR) {
		err = nil
	}
	if err == nil && after != before {
		err = fmt.Errorf("%w: %s/%s", ErrChanged, d.path, from)
	}
	if err != nil {
		return false, errors.Join(err, unix.Renameat2(fd, aside, fd, from, unix.RENAME_NOREPLACE))
	}
	return true, removeEntry(d.dir, aside, 0)
}

// removeOpenDomain removes a domain whose flows are these and notes in removal
// which of them are gone. The caller has closed the writers, made the checks, is
// in the domain and holds making.
func (r *Room) removeOpenDomain(d *domainDirectory, flows map[uuid.UUID]FileID, removal *Removal) error {
	if err := r.unchanged(d); err != nil {
		return err
	}
	if err := d.removable(Key{DomainID: d.id}); err != nil {
		return err
	}
	err := r.dismantle(d, flows, removal)
	if n := len(removal.Flows); err != nil && n > 0 {
		err = fmt.Errorf("%d of %d flows are gone: %w", n, len(flows), err)
	}
	return err
}

// dismantle takes the flows out of a domain one by one, then the rest, then the
// directory.
func (r *Room) dismantle(d *domainDirectory, flows map[uuid.UUID]FileID, removal *Removal) error {
	for _, id := range d.flows() {
		k := Key{d.id, id}
		gone, err := d.unlinkFlow(k, flows[id])
		if gone {
			r.forget(k)
			removal.Flows = append(removal.Flows, k)
		}
		if err != nil {
			r.leftIn(d.id)
			return err
		}
	}
	// The definition last: until then the directory says whose it is.
	if err := empty(d.dir, 0, definitionFile); err != nil {
		return err
	}
	if err := unix.Unlinkat(int(r.dir.Fd()), domainDir(d.id), unix.AT_REMOVEDIR); err != nil {
		return errors.Join(fmt.Errorf("remove %s: %w", d.path, err), d.sign())
	}
	return nil
}

// sign gives a directory that could not be removed its definition back, so that
// it is ours the next time too.
func (d *domainDirectory) sign() error {
	text, err := definition(d.id, d.marker.SourceHost, d.marker.OwnerHost)
	if err != nil {
		return err
	}
	if err := writeBelow(d.dir, definitionFile, text); err != nil && !errors.Is(err, fs.ErrExist) && !gone(err) {
		return err
	}
	return nil
}

// reopen opens flows again that a removal closed and did not take. One that
// cannot be opened shows in Survey.
func (r *Room) reopen(d *domainDirectory, closed []*heldFlow, removal Removal) error {
	var all error
	for _, f := range closed {
		if removal.Took(f.Key) {
			continue
		}
		if err := r.adoptFlow(d, f.Key); err != nil {
			r.mu.Lock()
			r.damaged[f.Key] = err
			r.mu.Unlock()
			all = errors.Join(all, fmt.Errorf("mirror flow %s: %w", f.Key, err))
			continue
		}
		r.mu.Lock()
		r.held[f.Key].def, r.held[f.Key].options = f.def, f.options
		r.mu.Unlock()
	}
	return all
}

func closeAll(flows []*heldFlow) error {
	var all error
	for _, f := range flows {
		all = errors.Join(all, f.close())
	}
	return all
}

// gone says whether a file is not there any more.
func gone(err error) bool { return errors.Is(err, fs.ErrNotExist) }
