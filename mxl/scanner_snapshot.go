package mxl

import (
	"bytes"
	"encoding/json"
	"time"

	"github.com/google/uuid"
)

// DomainClass says whose a domain is, as its marker says.
type DomainClass string

// Classes of domains below an MXL root.
const (
	DomainLocal    DomainClass = "local"    // no mirror marker: written on this host
	DomainMirror   DomainClass = "mirror"   // a mirror with our owner_host_id
	DomainConflict DomainClass = "conflict" // a mirror of another owner under our root
)

// Snapshot is what one scan of an MXL root found. It is a value: nothing in it changes after it was handed out, and
// nobody may change it.
type Snapshot struct {
	// Revision is 1 for the first scan and rises by one whenever anything but head indexes and Taken differs from the
	// scan before. 0 means that no scan has finished.
	Revision uint64
	Taken    time.Time      // end of the scan
	Domains  []DomainRecord // by id, then class, then directory
	Problems []ScanProblem  // what could not be used and is not a flow of a listed domain, by path
	// Notice says why changes are found by the periodic rescan only (inotify limits); "" while events work.
	Notice string
}

// DomainRecord is one domain. Its identity is ID, the id of domain_def.json, not the name of the directory.
//
// A domain that was moved to this host is there twice for a while, as local and as mirror, with one id. Within a class an
// id is listed once: of several directories the one whose flows are written wins, then the one that was listed before,
// then the first by name; the others are problems. That keeps a running domain in service when somebody copies it, and
// prefers the living one when a function moved to another directory.
type DomainRecord struct {
	ID        string
	Class     DomainClass
	Directory string // name below the root
	Path      string // root and directory
	Label     string
	Inode     uint64 // of the directory

	SourceHostID string // of the mirror marker, else ""
	OwnerHostID  string // of the mirror marker, else ""

	DefinedAt time.Time       // modification time of domain_def.json
	Options   json.RawMessage // options.json verbatim when it is an object, else {}
	HistoryNS uint64          // ring history in ns (MXL format reference §1.2)
	Flows     []FlowRecord    // by directory name
}

// FlowRecord is one flow directory of a domain. A flow that cannot be replicated is listed with the reason and with
// whatever could be read of it.
type FlowRecord struct {
	ID         uuid.UUID // uuid.Nil when the directory name is not a canonical flow id
	Directory  string    // name below the domain directory
	Definition []byte    // flow_def.json verbatim, nil when it could not be read
	Def        *FlowDef  // nil when Definition is not valid
	Reason     string    // why the flow cannot be replicated, "" when it can

	Format      Format
	MediaType   string
	Rate        Rational // as stored: fields per second when interlaced, samples per second for audio
	RingDepth   uint64   // grains, or samples per channel
	PayloadSize uint64   // bytes of a grain, or of one sample of all channels
	Device      uint64   // of the data file
	Inode       uint64   // of the data file; another inode is another flow

	Active bool // a writer holds the flow
	Live   bool // active, and the head was within 5 s of TAI at the flow's rate at the time of the scan
	// HeadIndex at the time of the scan; 0 before the first grain. Scanner.HeadIndexes has newer ones.
	HeadIndex uint64
}

// Replicable reports whether the flow can be mirrored to another host.
func (f *FlowRecord) Replicable() bool { return f.Reason == "" }

// Key names the flow for Scanner.HeadIndexes.
func (d *DomainRecord) Key(f *FlowRecord) FlowKey { return FlowKey{d.Directory, f.Directory} }

// FlowKey names a flow directory below an MXL root; unlike the ids it is unique there.
type FlowKey struct{ Domain, Flow string }

// ScanProblem is something below the root that looks like a domain but cannot be used, or the root itself.
type ScanProblem struct {
	Path   string
	Reason string
}

// Domain returns the domain of an id and class, nil when there is none.
func (s *Snapshot) Domain(id string, class DomainClass) *DomainRecord {
	for i := range s.Domains {
		if s.Domains[i].ID == id && s.Domains[i].Class == class {
			return &s.Domains[i]
		}
	}
	return nil
}

// Flow returns the flow of an id, nil when there is none.
func (d *DomainRecord) Flow(id uuid.UUID) *FlowRecord {
	for i := range d.Flows {
		if d.Flows[i].ID == id && id != uuid.Nil {
			return &d.Flows[i]
		}
	}
	return nil
}

// sameContent compares everything that Revision counts.
func (s *Snapshot) sameContent(o *Snapshot) bool {
	if s.Notice != o.Notice || len(s.Domains) != len(o.Domains) || len(s.Problems) != len(o.Problems) {
		return false
	}
	for i := range s.Problems {
		if s.Problems[i] != o.Problems[i] {
			return false
		}
	}
	for i := range s.Domains {
		if !s.Domains[i].sameContent(&o.Domains[i]) {
			return false
		}
	}
	return true
}

func (d *DomainRecord) sameContent(o *DomainRecord) bool {
	if d.ID != o.ID || d.Class != o.Class || d.Directory != o.Directory || d.Path != o.Path || d.Label != o.Label ||
		d.Inode != o.Inode || d.SourceHostID != o.SourceHostID || d.OwnerHostID != o.OwnerHostID ||
		!d.DefinedAt.Equal(o.DefinedAt) || d.HistoryNS != o.HistoryNS || len(d.Flows) != len(o.Flows) ||
		!bytes.Equal(d.Options, o.Options) {
		return false
	}
	for i := range d.Flows {
		if !d.Flows[i].sameContent(&o.Flows[i]) {
			return false
		}
	}
	return true
}

func (f *FlowRecord) sameContent(o *FlowRecord) bool {
	return f.ID == o.ID && f.Directory == o.Directory && f.Reason == o.Reason && f.Format == o.Format &&
		f.MediaType == o.MediaType && f.Rate == o.Rate && f.RingDepth == o.RingDepth && f.PayloadSize == o.PayloadSize &&
		f.Device == o.Device && f.Inode == o.Inode && f.Active == o.Active && f.Live == o.Live &&
		bytes.Equal(f.Definition, o.Definition)
}
