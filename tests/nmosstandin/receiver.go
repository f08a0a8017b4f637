package nmosstandin

import (
	"errors"
	"fmt"
	"regexp"
	"sync"
	"time"
)

// MXLTransport is the IS-04 transport of every receiver here.
const MXLTransport = "urn:x-nmos:transport:mxl"

// mxlIDPattern is the UUID pattern of BCP-007-03: lower case, version nibble
// 1–f, variant 8–b (NMOS reference §11).
var mxlIDPattern = regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-[1-9a-f][0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`)

// Connection is what a receiver is to read: the three things that
// PUT /control sets.
type Connection struct {
	MasterEnable bool
	DomainID     string // empty: null
	FlowID       string // empty: null
}

// activation is the IS-05 activation object; nil members are null.
type activation struct {
	Mode          *string `json:"mode"`
	RequestedTime *string `json:"requested_time"`
	ActiveTime    *string `json:"activation_time"`
}

type leg struct {
	DomainID *string `json:"mxl_domain_id"`
	FlowID   *string `json:"mxl_flow_id"`
}

type transportFile struct {
	Data *string `json:"data"`
	Type *string `json:"type"`
}

// endpointState is the body of /staged and /active.
type endpointState struct {
	SenderID        *string       `json:"sender_id"`
	MasterEnable    bool          `json:"master_enable"`
	Activation      activation    `json:"activation"`
	TransportFile   transportFile `json:"transport_file"`
	TransportParams []leg         `json:"transport_params"`
}

// Receiver is one MXL receiver of a media node.
type Receiver struct {
	ID string

	node   *Node
	number int

	mu      sync.Mutex
	version stamp
	changes int // counts versions, the first is 1
	posted  int // the change the registry was last told of
	staged  endpointState
	active  endpointState
	pending *time.Timer // a scheduled activation
}

func newReceiver(n *Node, id string, number int) *Receiver {
	r := &Receiver{ID: id, node: n, number: number, version: n.version, changes: 1}
	r.staged.TransportParams = []leg{{DomainID: pointer("auto")}}
	r.active.TransportParams = []leg{{}}
	if own := n.options.OwnDomain; own != "" { // nmos-cpp has it concrete from the start
		r.active.TransportParams[0].DomainID = &own
	}
	return r
}

func pointer(text string) *string { return &text }

func (r *Receiver) resource() map[string]any {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.document()
}

// document is the IS-04 receiver; the caller holds the mutex.
func (r *Receiver) document() map[string]any {
	what := receiverFormats[r.number%len(receiverFormats)]
	return map[string]any{
		"id": r.ID, "version": r.version.String(), "label": fmt.Sprintf("%s receiver %d", r.node.options.Label, r.number),
		"description": "", "tags": map[string]any{}, "device_id": r.node.DeviceID,
		"transport": MXLTransport, "format": "urn:x-nmos:format:" + what.format, "interface_bindings": []string{},
		"caps": map[string]any{
			"media_types": []string{what.media}, "version": r.node.version.String(),
			"constraint_sets": []any{map[string]any{"urn:x-nmos:cap:format:media_type": map[string]any{"enum": []string{what.media}}}},
		},
		"subscription": map[string]any{"active": r.active.MasterEnable, "sender_id": nil},
	}
}

// unpublished is the IS-04 document and the number of its change when the
// registry has not been told of it, else nil.
func (r *Receiver) unpublished() (map[string]any, int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.changes == r.posted {
		return nil, 0
	}
	return r.document(), r.changes
}

func (r *Receiver) published(change int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.posted = change
}

func (r *Receiver) state(active bool) endpointState {
	r.mu.Lock()
	defer r.mu.Unlock()
	if active {
		return r.active
	}
	return r.staged
}

// errUnresolved is an activation whose "auto" domain nothing resolves.
var errUnresolved = errors.New(`mxl_domain_id "auto" cannot be resolved`)

// activate makes staged the active state at the given instant. The caller
// holds the mutex.
func (r *Receiver) activate(at time.Time, how activation) error {
	target := r.staged.TransportParams[0]
	if target.DomainID != nil && *target.DomainID == "auto" {
		if r.node.options.OwnDomain == "" && r.staged.MasterEnable {
			return errUnresolved
		}
		target.DomainID = nil
		if own := r.node.options.OwnDomain; own != "" {
			target.DomainID = &own
		}
	}
	how.ActiveTime = pointer(stampOf(at).String())
	r.active = r.staged
	r.active.TransportParams = []leg{target}
	r.active.Activation = how
	r.staged.Activation = activation{}
	r.version = r.node.nextVersion(r.version)
	r.changes++
	r.node.changed()
	return nil
}

// Connect activates a connection at once, as PATCH /staged with
// activate_immediate does.
func (r *Receiver) Connect(c Connection) error {
	change := leg{}
	for _, id := range []struct {
		name, text string
		into       **string
	}{{"mxl_domain_id", c.DomainID, &change.DomainID}, {"mxl_flow_id", c.FlowID, &change.FlowID}} {
		if id.text == "" {
			continue
		}
		if !mxlIDPattern.MatchString(id.text) {
			return fmt.Errorf("%s %q is not an MXL id", id.name, id.text)
		}
		*id.into = pointer(id.text)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.unschedule()
	r.staged.MasterEnable = c.MasterEnable
	r.staged.TransportParams = []leg{change}
	return r.activate(time.Now(), activation{Mode: pointer("activate_immediate")})
}

// unschedule forgets a scheduled activation. The caller holds the mutex.
func (r *Receiver) unschedule() {
	if r.pending != nil {
		r.pending.Stop()
		r.pending = nil
		r.staged.Activation = activation{}
	}
}

func (r *Receiver) stop() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.unschedule()
}
