package mirror

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/mxl-stack/mxl-fabrics-agent/mxl"
)

// Origin is a flow of another host that is to be mirrored here.
type Origin struct {
	Key
	SourceHost string
	FlowDef    []byte          // the origin's flow_def.json, verbatim
	Options    []byte          // the origin domain's options.json; nil or "{}" when it has none
	Hints      mxl.FlowOptions // batch hints of the origin; zero: the defaults
}

// Flow is a mirror flow whose writer this process holds. Exactly one of
// Discrete and Continuous is set. The room owns the writer: who uses it stops
// before the flow is removed or rebuilt, and never closes it.
type Flow struct {
	Key
	SourceHost string
	Inode      uint64 // of its data file
	Device     uint64
	Discrete   *mxl.DiscreteWriter
	Continuous *mxl.ContinuousWriter

	lost atomic.Bool // see Lose
}

// Lose notes that what the writer has mapped is not the flow's files any more: they
// were cut off, and pages of the mapping may be replaced ones that no reader sees,
// also after the files have their length back. [Room.EnsureFlow] then says that the
// flow is damaged, and [Room.ReplaceFlow] makes it anew.
func (f *Flow) Lose() { f.lost.Store(true) }

// Lost says whether Lose was called.
func (f *Flow) Lost() bool { return f.lost.Load() }

// Head gives the head index, 0 before the first grain.
func (f *Flow) Head() uint64 {
	if f.Discrete != nil {
		return f.Discrete.Head()
	}
	return f.Continuous.Head()
}

// Info gives the flow's header.
func (f *Flow) Info() mxl.FlowInfo {
	if f.Discrete != nil {
		return f.Discrete.Info()
	}
	return f.Continuous.Info()
}

// check says whether the data file is still the one that was opened, and mapped.
func (f *Flow) check() error {
	if f.Lost() {
		return errLost
	}
	if f.Discrete != nil {
		return f.Discrete.Check()
	}
	return f.Continuous.Check()
}

// close lets go of the writer and keeps the files.
func (f *Flow) close() error {
	if f.Discrete != nil {
		return f.Discrete.Close()
	}
	return f.Continuous.Close()
}

// NeedBytes gives the blocks a mirror of the origin takes, in bytes. The error
// says what is wrong with the definition.
func (o Origin) NeedBytes() (uint64, error) {
	def, err := o.parse()
	if err != nil {
		return 0, err
	}
	return requiredBytes(def, historyNS(o.Options)), nil
}

func (o Origin) parse() (*mxl.FlowDef, error) {
	if err := CheckDomainID(o.DomainID); err != nil {
		return nil, err
	}
	def, err := mxl.ParseFlowDef(o.FlowDef)
	if err != nil {
		return nil, fmt.Errorf("mirror flow %s: %w", o.Key, err)
	}
	if def.ID != o.FlowID {
		return nil, fmt.Errorf("mirror flow %s: its definition has the id %s", o.Key, def.ID)
	}
	return def, nil
}

// Held gives a flow whose writer is held, nil when there is none.
func (r *Room) Held(k Key) *Flow {
	r.mu.Lock()
	defer r.mu.Unlock()
	if f := r.held[k]; f != nil {
		return &f.Flow
	}
	return nil
}

// EnsureFlow gives the mirror flow of an origin with its writer held: the one
// that is held already, the one on disk (same inode), or a new one. Asked for a
// held flow it only compares and may be called each pass; making a flow
// reserves its blocks and takes as long as the kernel needs to clear them, so
// that belongs beside the reconcile loop. Errors: [ErrNoSpace] (*SpaceError),
// [ErrForeign], [ErrDiffers] (*DiffersError; the caller may [Room.ReplaceFlow]),
// [ErrRemoving], [ErrDomainID], an invalid definition, or what the file system
// says.
func (r *Room) EnsureFlow(o Origin) (flow *Flow, created bool, err error) {
	if flow, err = r.compareHeld(o); flow != nil || err != nil {
		return flow, false, err
	}
	if err := r.enter(o.Key); err != nil {
		return nil, false, err
	}
	defer r.leave(o.Key)
	r.making.Lock()
	defer r.making.Unlock()
	return r.ensure(o)
}

// compareHeld gives the held flow when it is that of the origin.
func (r *Room) compareHeld(o Origin) (*Flow, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f := r.held[o.Key]
	switch {
	case r.closed:
		return nil, ErrClosed
	case r.busy[o.Key], r.busy[Key{DomainID: o.DomainID}]:
		return nil, fmt.Errorf("%w: %s", ErrRemoving, o.Key)
	case f == nil:
		return nil, nil
	}
	if err := f.check(); damage(err) {
		return nil, &DiffersError{Key: o.Key, Damaged: err}
	} else if err != nil {
		return nil, fmt.Errorf("mirror flow %s: %w", o.Key, err)
	}
	if !bytes.Equal(f.def, o.FlowDef) {
		if _, err := o.parse(); err != nil {
			return nil, err
		}
		if same, members := mxl.SameDefinition(f.def, o.FlowDef); !same {
			return nil, &DiffersError{Key: o.Key, Members: members}
		}
		f.def = bytes.Clone(o.FlowDef)
	}
	return &f.Flow, nil
}

// ensure opens or makes a flow that is not held. The caller is in the flow and
// holds making.
func (r *Room) ensure(o Origin) (*Flow, bool, error) {
	def, err := o.parse()
	if err != nil {
		return nil, false, err
	}
	d, err := r.openDomain(o.DomainID)
	missing := errors.Is(err, fs.ErrNotExist)
	if err != nil && !missing {
		r.complain(err)
		return nil, false, err
	}
	history := historyNS(o.Options)
	if !missing {
		defer func() { d.close() }()
		if options, _, err := readBelow(d.dir, optionsFile); err == nil {
			history = historyNS(options)
		}
	}
	exists := !missing && d.hasFlow(o.FlowID.String())
	if !exists {
		if err := r.reserve(o.Key, requiredBytes(def, history)); err != nil {
			return nil, false, err
		}
	}
	if missing {
		if d, err = r.makeDomain(o); err != nil {
			r.complain(err)
			return nil, false, err
		}
		defer func() { d.close() }()
	}
	f, created, err := r.openWriter(d, o, def, exists)
	if err != nil {
		return nil, false, err
	}
	r.keep(f, o)
	return &f.Flow, created, nil
}

func (r *Room) keep(f *heldFlow, o Origin) {
	f.def, f.options = bytes.Clone(o.FlowDef), o.Hints
	r.mu.Lock()
	defer r.mu.Unlock()
	r.held[f.Key] = f
	delete(r.damaged, f.Key)
}

// reserve refuses a flow that would cross the reserve.
func (r *Room) reserve(k Key, need uint64) error {
	free, err := r.FreeBytes()
	if err != nil {
		return err
	}
	if !Fits(free, need, r.reserveMB.Load()) {
		return &SpaceError{Key: k, FreeBytes: free, NeedBytes: need, ReserveMB: r.reserveMB.Load()}
	}
	return nil
}

// openWriter opens or creates the flow of a definition in a domain of ours.
func (r *Room) openWriter(d *domainDirectory, o Origin, def *mxl.FlowDef, exists bool) (*heldFlow, bool, error) {
	domain, err := mxl.OpenDomainAt(d.dir, mxl.WithAccessWatch(r.watch))
	if err != nil {
		return nil, false, fmt.Errorf("mirror domain %s: %w", o.DomainID, err)
	}
	if exists {
		if err := d.unmounted(o.Key); err != nil {
			return nil, false, fmt.Errorf("mirror flow %s: %w", o.Key, err)
		}
	}
	f := &heldFlow{Flow: Flow{Key: o.Key, SourceHost: d.marker.SourceHost}}
	var created bool
	// Readable for other users' readers, writable for nobody else, whatever our
	// umask is.
	const mode = 0o644
	if def.Format.Discrete() {
		f.Discrete, created, err = domain.CreateDiscreteWriter(o.FlowDef, o.Hints, mxl.WithFileMode(mode))
	} else {
		f.Continuous, created, err = domain.CreateContinuousWriter(o.FlowDef, o.Hints, mxl.WithFileMode(mode))
	}
	if err != nil {
		return nil, false, r.openFailed(d, o, def, exists, err)
	}
	f.Inode, f.Device = f.identity()
	if err := r.unchanged(d); err != nil {
		// The directory is not below the root any more: what was made in it must
		// not stay there.
		err = errors.Join(err, f.close())
		if created {
			err = errors.Join(err, removeEntry(d.dir, flowDir(o.FlowID), 1))
		}
		return nil, false, fmt.Errorf("mirror flow %s: %w", o.Key, err)
	}
	return f, created, nil
}

func (f *Flow) identity() (inode, device uint64) {
	if f.Discrete != nil {
		return f.Discrete.Inode(), f.Discrete.Device()
	}
	return f.Continuous.Inode(), f.Continuous.Device()
}

// openFailed turns what the mxl package says into what callers decide by, and
// clears what a failed creation left.
func (r *Room) openFailed(d *domainDirectory, o Origin, def *mxl.FlowDef, exists bool, cause error) error {
	var differs *mxl.DifferenceError
	switch {
	case errors.As(cause, &differs):
		return &DiffersError{Key: o.Key, Members: differs.Members}
	case errors.Is(cause, unix.ENOSPC), errors.Is(cause, unix.EDQUOT):
		free, _ := r.FreeBytes()
		need := requiredBytes(def, historyNS(o.Options))
		err := error(&SpaceError{Key: o.Key, FreeBytes: free, NeedBytes: need, ReserveMB: r.reserveMB.Load(), Cause: cause})
		return errors.Join(err, d.sweep())
	}
	if exists {
		if _, bad := mxl.InspectFlowAt(int(d.dir.Fd()), o.FlowID); damage(bad) {
			return &DiffersError{Key: o.Key, Damaged: bad}
		}
	}
	return errors.Join(fmt.Errorf("mirror flow %s: %w", o.Key, cause), d.sweep())
}
