package nmos

// Snapshot is what the registry and the nodes were last known to say. It is a
// value: nothing in it changes after it was handed out, and nobody may write to
// its slices.
type Snapshot struct {
	// RegistryUp: the last complete pass over the Query API was answered.
	RegistryUp bool
	// RegistryError says why RegistryUp is false; empty while it is true and
	// before the first pass.
	RegistryError string
	// QueryURL is the Query API in use, empty before the first answer.
	QueryURL string
	// Subscribed: all three Query API WebSocket subscriptions are open.
	Subscribed bool
	// Stale: something in the lists below is kept from earlier although the
	// registry does not answer or does not list it (fail static).
	Stale bool

	Agents    []Agent    // sorted by HostID, without ourselves, one per HostID
	Receivers []Receiver // every MXL receiver, sorted by ID

	// PollErrors counts failed passes over the Query API since start,
	// ActiveErrors failed reads of IS-05 /active, BadResources foreign
	// resources and documents that were ignored.
	PollErrors   uint64
	ActiveErrors uint64
	BadResources uint64
}

// Agent is another mxl-fabrics-agent that announces itself as a Node.
type Agent struct {
	HostID     string // first value of HostIDTag, else the node's hostname
	ControlURL string // service href without trailing slash, e.g. http://192.0.2.1:8095/api/v1
	NodeID     string
	Stale      bool // kept although the registry does not list it (now)
}

// Receiver is an MXL receiver with its node and what IS-05 /active said.
type Receiver struct {
	ID        string // lower case
	Label     string // the id when the receiver has none
	NodeID    string // empty while its device or node is unknown
	NodeLabel string
	Local     bool   // on a node of this host
	LocalRule string // "list", "hostname", "ip", "cidr"; empty when not local

	// ActiveKnown: /active was read at least once. Only local receivers are read.
	ActiveKnown bool
	// ActiveStale: the last read failed; what was known before is kept.
	ActiveStale  bool
	MasterEnable bool
	DomainID     string // lower case; empty: null, "auto" or not a UUID
	FlowID       string

	Stale bool // kept although the registry does not list it (now)
}

// Wanted reports whether the receiver asks for a flow: enabled, with both ids
// (NMOS reference §9.4).
func (r Receiver) Wanted() bool {
	return r.MasterEnable && r.DomainID != "" && r.FlowID != ""
}
