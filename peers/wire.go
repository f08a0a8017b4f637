package peers

import "encoding/json"

// Info is the answer of GET /api/v1/info (agent API reference §4).
type Info struct {
	BootID           string   `json:"boot_id"` // random, new with every process
	HostID           string   `json:"host_id"`
	LibfabricVersion string   `json:"libfabric_version"`
	MXLRootTmpfs     bool     `json:"mxl_root_tmpfs"`
	MXLVersion       string   `json:"mxl_version"`
	Providers        []string `json:"providers"`
	TAIOffsetSeconds int      `json:"tai_offset_seconds"`
	Version          string   `json:"version"`
}

// Inventory is the answer of GET /api/v1/inventory: the local domains of one
// host (agent API reference §5).
type Inventory struct {
	Domains []Domain `json:"domains"`
	HostID  string   `json:"host_id"`
	// Revision starts at 1 with the first finished scan and never goes down
	// inside one process.
	Revision uint64 `json:"revision"`
	// Unusable are directories that look like domains and cannot be used, and
	// why: for the operator. The original neither sends nor reads it.
	Unusable []Unusable `json:"unusable,omitempty"`

	// Problems are the records of a received inventory that could not be
	// used; everything else of it stands.
	Problems []Problem `json:"-"`
}

// Domain is one local domain of a host.
type Domain struct {
	ID      string          `json:"domain_id"`
	Flows   []Flow          `json:"flows"`
	Options json.RawMessage `json:"options"` // options.json verbatim, {} without one
	Path    string          `json:"path"`    // on that host

	// NotReplicable are the flow directories that cannot be mirrored, and why:
	// for the operator. The original neither sends nor reads it.
	NotReplicable []Unusable `json:"not_replicable,omitempty"`
}

// Unusable is a directory of a host that its agent cannot use.
type Unusable struct {
	Name   string `json:"name"` // flow directory, or path of a domain
	Reason string `json:"reason"`
}

// Flow is one flow of a domain.
type Flow struct {
	ID  string          `json:"flow_id"`
	Def json.RawMessage `json:"flow_def"` // the definition's JSON
	// DefText is flow_def.json to the byte, so that a mirror's is the same
	// file. The original neither sends nor reads it.
	DefText string `json:"flow_def_text,omitempty"`
	Format  string `json:"format"` // "discrete" or "continuous"
	// MediaType is the definition's media_type.
	MediaType string `json:"media_type"`
	Active    bool   `json:"active"` // a writer holds the flow
	Live      bool   `json:"live"`   // and its head is within 5 s of now
	// GrainRate equals the sample rate for audio.
	GrainRate  Rational  `json:"grain_rate"`
	SampleRate *Rational `json:"sample_rate"` // nil for discrete flows
	RingDepth  uint64    `json:"ring_depth"`  // grains or samples
	// PayloadSize is in bytes: a grain, or a sample over all channels.
	PayloadSize uint64 `json:"payload_size"`
	// HeadIndex is the head at the time of the request; nil when the flow has
	// none or the source is too old to tell (before 1.4).
	HeadIndex *uint64 `json:"head_index,omitempty"`
}

// Continuous reports whether the flow carries samples rather than grains.
func (f *Flow) Continuous() bool { return f.Format == "continuous" }

// Rational is a rate on the wire.
type Rational struct {
	Denominator int64 `json:"denominator"`
	Numerator   int64 `json:"numerator"`
}

// Problem names one record of an inventory that was left out.
type Problem struct {
	DomainID string // empty when the domain record itself has no usable id
	FlowID   string // empty when the domain or the flow's id is to blame
	Reason   string
}

// ReplicationRequest is the body of POST /api/v1/replications
// (agent API reference §8.2). All four are required.
type ReplicationRequest struct {
	// DestBootID is the destination's boot id. The original neither sends nor
	// reads it; with it a source can tell a request made before a restart of
	// the destination from one made after it.
	DestBootID string `json:"dest_boot_id,omitempty"`
	DestHostID string `json:"dest_host_id"`
	DomainID   string `json:"domain_id"`
	FlowID     string `json:"flow_id"`
	TargetInfo string `json:"target_info"` // text of MXL's serialised TargetInfo
}

// ReplicationAnswer is the source's answer.
type ReplicationAnswer struct {
	Error string `json:"error,omitempty"`
	// OriginHead is the origin's head index now, nil without one.
	OriginHead    *uint64 `json:"origin_head,omitempty"`
	ReplicationID string  `json:"replication_id"`
	State         string  `json:"state"` // "pending", "active", "error", "link_down"
	// Provider is the one over which the source can send where it is not the
	// target's: the destination may make another target. The original neither sends
	// nor reads it.
	Provider string `json:"provider,omitempty"`
	// TargetSecret says that the source connects with the secret in target_info. The
	// original neither sends nor reads it.
	TargetSecret bool `json:"target_secret,omitempty"`
}

// Domain finds a domain by its id, nil when the host does not list it.
func (i *Inventory) Domain(id string) *Domain {
	if i == nil {
		return nil
	}
	for d := range i.Domains {
		if i.Domains[d].ID == id {
			return &i.Domains[d]
		}
	}
	return nil
}

// Flow finds a flow by its domain and id, nil when the host does not list it.
func (i *Inventory) Flow(domainID, flowID string) *Flow {
	d := i.Domain(domainID)
	if d == nil {
		return nil
	}
	for f := range d.Flows {
		if d.Flows[f].ID == flowID {
			return &d.Flows[f]
		}
	}
	return nil
}
