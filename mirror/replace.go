package mirror

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"
	"golang.org/x/sys/unix"

	"github.com/mxl-stack/mxl-fabrics-agent/mxl"
)

// Rebuilt is what a rebuild did.
type Rebuilt struct {
	Flow     *Flow // nil when it could not be made again
	OldInode uint64
	Readers  []Reader // that mapped the old files, as far as they could be seen
}

// RebuildFlow removes a flow, readers or not, and makes it anew from its own
// flow_def.json under the same ids: the test hook (contract, "Test hook"). The
// caller has stopped using the writer. [ErrNotMirror] without such a flow; when
// the flow could not be made again the error says so and Rebuilt.Flow is nil.
func (r *Room) RebuildFlow(ctx context.Context, k Key) (Rebuilt, error) {
	if k.FlowID == uuid.Nil {
		return Rebuilt{}, fmt.Errorf("%w: %s", ErrNotMirror, k)
	}
	if err := r.enter(k); err != nil {
		return Rebuilt{}, err
	}
	defer r.leave(k)
	d, err := r.openOwn(k)
	if err != nil {
		return Rebuilt{}, err
	}
	defer d.close()
	text, _, err := d.readDef(k.FlowID)
	if err != nil {
		return Rebuilt{}, fmt.Errorf("rebuild mirror flow %s: %w", k, err)
	}
	o := Origin{Key: k, SourceHost: d.marker.SourceHost, FlowDef: text}
	if info, err := mxl.ReadFlowInfoAt(int(d.dir.Fd()), k.FlowID); err == nil {
		o.Hints = mxl.FlowOptionsOf(info)
	}
	return r.replace(ctx, d, o, TestHook)
}

// ReplaceFlow makes a flow anew from its origin, readers or not: for an origin
// that came back with another definition, or a mirror that is damaged. A flow
// of the right definition that something else put there is taken as it is. The
// caller has stopped using the writer.
func (r *Room) ReplaceFlow(ctx context.Context, o Origin) (Rebuilt, error) {
	if _, err := o.parse(); err != nil {
		return Rebuilt{}, err
	}
	if err := r.enter(o.Key); err != nil {
		return Rebuilt{}, err
	}
	defer r.leave(o.Key)
	// What is held and not on disk any more is let go of; what is there instead
	// may be the right flow.
	var done Rebuilt
	if old := r.lost(o.Key); old != nil {
		done.OldInode = old.Inode
		if err := closeAll(r.take(o.Key)); err != nil {
			return done, err
		}
		// Its own files go, whole again or not: what they hold is not what was written.
		if !old.Lost() || !r.inPlace(old) {
			if again, err := r.makeAgain(o, done); !errors.Is(err, ErrDiffers) {
				return again, err
			}
		}
	}
	d, err := r.openOwn(o.Key)
	if errors.Is(err, ErrNotMirror) {
		return r.makeAgain(o, done)
	}
	if err != nil {
		return done, err
	}
	defer d.close()
	again, err := r.replace(ctx, d, o, OriginConfigChanged)
	if again.OldInode == 0 { // there was no header left to read it from
		again.OldInode = done.OldInode
	}
	return again, err
}

// replace removes a flow and makes it again. The caller is in the flow.
func (r *Room) replace(ctx context.Context, d *domainDirectory, o Origin, reason Reason) (Rebuilt, error) {
	var done Rebuilt
	if info, err := mxl.ReadFlowInfoAt(int(d.dir.Fd()), o.FlowID); err == nil {
		done.OldInode = info.Inode
	}
	done.Readers = r.cfg.Readers.scan(ctx, d.watched(o.Key), false).Flow(o.Key)
	if err := r.removeFlow(ctx, d, o.Key, reason); err != nil {
		return done, fmt.Errorf("rebuild mirror flow %s: %w", o.Key, err)
	}
	return r.makeAgain(o, done)
}

// makeAgain makes the flow that the origin describes. A writer that is still held goes
// first: the directory may have been away when it was looked for, and be back now.
func (r *Room) makeAgain(o Origin, done Rebuilt) (Rebuilt, error) {
	if err := closeAll(r.take(o.Key)); err != nil {
		return done, err
	}
	r.making.Lock()
	defer r.making.Unlock()
	flow, _, err := r.ensure(o)
	if err != nil {
		return done, fmt.Errorf("rebuild mirror flow %s: %w", o.Key, err)
	}
	done.Flow = flow
	return done, nil
}

// lost gives the held flow whose files are not those on disk any more.
func (r *Room) lost(k Key) *Flow {
	r.mu.Lock()
	defer r.mu.Unlock()
	if f := r.held[k]; f != nil && f.check() != nil {
		return &f.Flow
	}
	return nil
}

// inPlace says whether the data file on disk is that of f.
func (r *Room) inPlace(f *Flow) bool {
	d, err := r.openDomain(f.DomainID)
	if err != nil {
		return false
	}
	defer d.close()
	id, err := d.dataFile(f.FlowID)
	return err == nil && id == FileID{Dev: f.Device, Ino: f.Inode}
}

// dataFile identifies the data file of a flow.
func (d *domainDirectory) dataFile(flow uuid.UUID) (FileID, error) {
	var st unix.Stat_t
	err := unix.Fstatat(int(d.dir.Fd()), flowDir(flow)+"/data", &st, unix.AT_SYMLINK_NOFOLLOW)
	return FileID{Dev: st.Dev, Ino: st.Ino}, err
}
