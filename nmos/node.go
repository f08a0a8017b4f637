package nmos

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"strconv"
	"sync"
	"time"

	"github.com/google/uuid"
)

// nodeNamespace is the UUIDv5 namespace of agent nodes: the ASCII bytes
// "mxl-fabrics-agen" (interface reference §13.1).
var nodeNamespace = uuid.MustParse("6d786c2d-6661-6272-6963-732d6167656e")

// NodeID is the id of the agent's node for a seed (NMOS_SEED or HOST_ID):
// UUIDv5, so it survives restarts.
func NodeID(seed string) string {
	return uuid.NewSHA1(nodeNamespace, []byte(seed)).String()
}

// NodeConfig describes our Node.
type NodeConfig struct {
	HostID      string
	Seed        string              // empty: HostID
	Label       string              // empty: HostID
	Tags        map[string][]string // NMOS_TAGS; the host-id tag is added and wins
	HostAddress netip.Addr          // announced in href, endpoint and service
	Port        int                 // Node API port; the WebSocket is on Port+1
	WebPort     int                 // control API port
	Now         func() time.Time    // nil: time.Now
}

// Node is our IS-04 v1.3 Node resource: no devices, one service. The bytes
// served at /self and those registered are the same.
type Node struct {
	id  string
	now func() time.Time

	mu       sync.Mutex
	cfg      NodeConfig
	version  Timestamp
	document []byte
	changed  chan struct{}
}

type nodeDocument struct {
	ID          string              `json:"id"`
	Version     string              `json:"version"`
	Label       string              `json:"label"`
	Description string              `json:"description"`
	Tags        map[string][]string `json:"tags"`
	Href        string              `json:"href"`
	Hostname    string              `json:"hostname,omitempty"`
	API         nodeAPIDocument     `json:"api"`
	Caps        struct{}            `json:"caps"`
	Services    []nodeService       `json:"services"`
	Clocks      []struct{}          `json:"clocks"`
	Interfaces  []struct{}          `json:"interfaces"`
}

type nodeAPIDocument struct {
	Versions  []string       `json:"versions"`
	Endpoints []nodeEndpoint `json:"endpoints"`
}

type nodeEndpoint struct {
	Host          string `json:"host"`
	Port          int    `json:"port"`
	Protocol      string `json:"protocol"`
	Authorization bool   `json:"authorization"`
}

type nodeService struct {
	Href          string `json:"href"`
	Type          string `json:"type"`
	Authorization bool   `json:"authorization"`
}

// NewNode validates the configuration and builds the document. It does no I/O.
func NewNode(cfg NodeConfig) (*Node, error) {
	if err := cfg.complete(); err != nil {
		return nil, err
	}
	n := &Node{id: NodeID(cfg.Seed), now: cfg.Now, changed: make(chan struct{}, 1)}
	n.install(cfg)
	return n, nil
}

func (c *NodeConfig) complete() error {
	if c.HostID == "" {
		return errors.New("nmos node: host id is empty")
	}
	if c.Seed == "" {
		c.Seed = c.HostID
	}
	if c.Label == "" {
		c.Label = c.HostID
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if !c.HostAddress.IsValid() || c.HostAddress.IsUnspecified() {
		return fmt.Errorf("nmos node: host address %q is not a usable ip literal", c.HostAddress)
	}
	if c.Port < 1 || c.Port > 65534 {
		return fmt.Errorf("nmos node: port %d is not in 1-65534", c.Port)
	}
	if c.WebPort < 1 || c.WebPort > 65535 {
		return fmt.Errorf("nmos node: web port %d is not in 1-65535", c.WebPort)
	}
	return nil
}

// ID is the node's UUID in lower case.
func (n *Node) ID() string { return n.id }

// Document is the JSON of the resource as served at /self and registered.
func (n *Node) Document() []byte {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.document
}

// Version is the resource's current version.
func (n *Node) Version() Timestamp {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.version
}

// Update replaces the configuration. The version rises, and the node is
// registered again, only when an attribute really differs (NMOS reference §2.1). The seed must give the
// same id: a node's identity does not change while it runs.
func (n *Node) Update(cfg NodeConfig) error {
	if err := cfg.complete(); err != nil {
		return err
	}
	if id := NodeID(cfg.Seed); id != n.id {
		return fmt.Errorf("nmos node: update would change the id from %s to %s", n.id, id)
	}
	if n.install(cfg) {
		select {
		case n.changed <- struct{}{}:
		default:
		}
	}
	return nil
}

// changes fires after Update changed the document. It has one reader: the
// registration.
func (n *Node) changes() <-chan struct{} { return n.changed }

func (n *Node) install(cfg NodeConfig) (changed bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.document != nil && string(encodeNode(n.id, n.version, cfg)) == string(n.document) {
		n.cfg = cfg
		return false
	}
	version := TimestampAt(n.now())
	if last := n.version.next(); n.document != nil && version.Compare(last) < 0 {
		version = last
	}
	n.cfg, n.version, n.document = cfg, version, encodeNode(n.id, version, cfg)
	return true
}

func encodeNode(id string, version Timestamp, cfg NodeConfig) []byte {
	host := cfg.HostAddress.Unmap().WithZone("").String()
	tags := make(map[string][]string, len(cfg.Tags)+1)
	maps.Copy(tags, cfg.Tags)
	for name, values := range tags {
		if values == nil { // the schema wants an array, never null
			tags[name] = []string{}
		}
	}
	tags[HostIDTag] = []string{cfg.HostID}
	doc := nodeDocument{
		ID: id, Version: version.String(),
		Label: cfg.Label, Description: "mxl-fabrics-agent", Tags: tags,
		Href: "http://" + net.JoinHostPort(host, strconv.Itoa(cfg.Port)) + "/",
		API: nodeAPIDocument{
			Versions:  []string{"v1.3"},
			Endpoints: []nodeEndpoint{{Host: host, Port: cfg.Port, Protocol: "http"}},
		},
		Services: []nodeService{{
			Href: "http://" + net.JoinHostPort(host, strconv.Itoa(cfg.WebPort)) + "/api/v1",
			Type: ServiceType,
		}},
		Clocks: []struct{}{}, Interfaces: []struct{}{},
	}
	if cfg.HostAddress.Unmap().Is4() { // an IPv6 literal is not a valid host name
		doc.Hostname = host
	}
	b, err := json.Marshal(doc)
	if err != nil { // strings, ints and bools only: cannot happen
		panic(fmt.Sprintf("nmos: encoding our own node: %v", err))
	}
	return b
}
