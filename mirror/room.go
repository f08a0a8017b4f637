package mirror

import (
	"context"
	"log/slog"
	"time"

	"github.com/google/uuid"

	"github.com/mxl-stack/mxl-fabrics-agent/mxl"
)

// Config is what a room needs.
type Config struct {
	Root      string       // the MXL root, parent of the domains
	HostID    string       // HOST_ID; the marker's owner_host_id
	ReserveMB uint64       // TMPFS_RESERVE_MB
	Readers   *ReaderCheck // looks again right before files go
	Log       *slog.Logger // nil: nothing is logged
	Now       func() time.Time
	FreeSpace func() (uint64, error) // bytes free below Root; statfs when nil
}

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
	Inode      uint64
	Discrete   *mxl.DiscreteWriter
	Continuous *mxl.ContinuousWriter
}

// Head gives the head index, 0 before the first grain.
func (f *Flow) Head() uint64 { return 0 }

// Info gives the flow's header.
func (f *Flow) Info() mxl.FlowInfo { return mxl.FlowInfo{} }

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
	Head      uint64
	Rate      mxl.Rational
	Format    mxl.Format
	MediaType string
	Held      bool  // this process holds its writer
	Err       error // why it cannot be opened
}

// Removal is what a removal did.
type Removal struct {
	Path   string
	Flows  []Key // whose files went
	Reason Reason
}

// Rebuilt is what a rebuild did.
type Rebuilt struct {
	Flow     *Flow
	OldInode uint64
	Readers  []Reader // that mapped the old files, as far as they could be seen
}

// Room keeps the mirror domains of this agent on disk. It is safe for
// concurrent use; a deed on a flow that another deed is at work on answers
// [ErrRemoving].
type Room struct {
	cfg Config
}

// Open opens the MXL root. It changes nothing on disk.
func Open(cfg Config) (*Room, error) { return nil, ErrClosed }

// Adopt finds this agent's mirrors of an earlier run, clears what a crash left
// half made, and opens every flow, so that its lock is held again and no
// garbage collection takes it. Flows that cannot be opened stay as they are and
// are listed with their error by Survey.
func (r *Room) Adopt() ([]DomainOnDisk, error) { return nil, nil }

// Survey lists this agent's mirror domains with the state of their files now.
func (r *Room) Survey() ([]DomainOnDisk, error) { return nil, nil }

// Watched lists the files of this agent's mirrors for the reader check.
func (r *Room) Watched() Watched { return Watched{} }

// FreeBytes gives the space free below the root.
func (r *Room) FreeBytes() (uint64, error) { return 0, nil }

// NeedBytes gives the blocks a mirror of the origin would take, 0 when its
// definition is not valid.
func (o Origin) NeedBytes() uint64 { return 0 }

// EnsureFlow gives the mirror flow of an origin with its writer held: the one
// that is held already, the one on disk (same inode), or a new one. It is cheap
// when nothing changed and meant to be called each pass. Errors: [ErrNoSpace],
// [ErrForeign], [ErrDiffers], [ErrRemoving], [ErrDomainID], or an invalid
// definition.
func (r *Room) EnsureFlow(o Origin) (flow *Flow, created bool, err error) {
	return nil, false, ErrClosed
}

// Held gives a flow whose writer is held, nil when it is not.
func (r *Room) Held(k Key) *Flow { return nil }

// RemoveFlow removes one flow of a mirror domain for a reason. The caller has
// stopped using its writer. It takes the writer down, makes the reader check
// the reason asks for, and removes the files; when it is refused ([ErrBusy],
// *BusyError) the flow is opened again on the same inode. [ErrNotMirror]
// without such a flow. It may take as long as a reader check: not for the
// reconcile loop.
func (r *Room) RemoveFlow(ctx context.Context, k Key, reason Reason) (Removal, error) {
	return Removal{}, nil
}

// RemoveDomain removes a mirror domain, as RemoveFlow does a flow. Nothing goes
// while any file of the domain is mapped.
func (r *Room) RemoveDomain(ctx context.Context, domainID string, reason Reason) (Removal, error) {
	return Removal{}, nil
}

// RebuildFlow removes a flow, readers or not, and makes it anew from its own
// flow_def.json under the same ids: the test hook. When the flow could not be
// made again the error says so and Rebuilt.Flow is nil.
func (r *Room) RebuildFlow(ctx context.Context, k Key) (Rebuilt, error) { return Rebuilt{}, nil }

// ReplaceFlow removes a flow, readers or not, and makes it anew from the
// origin: for an origin that came back with another definition.
func (r *Room) ReplaceFlow(ctx context.Context, o Origin) (Rebuilt, error) { return Rebuilt{}, nil }

// Close lets go of every writer. With cleanup the mirror domains of this agent
// are removed, readers or not (MXL_CLEANUP_ON_EXIT); without it nothing is
// unlocked before the process ends: the writers stay open.
func (r *Room) Close(cleanup bool) ([]Removal, error) { return nil, nil }

var _ = uuid.Nil
