package nmosstandin

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
)

// seed is the name space of every id the stand-in makes up.
var seed = uuid.MustParse("6e6d6f73-7374-4e64-a96e-000000000000")

// NodeOptions describes one media node.
type NodeOptions struct {
	ID        string // default: UUIDv5 of the node's number
	Label     string // default: "media node <number>"
	Hostname  string // default: "<number>.media.test"
	Advertise string // host in endpoints and hrefs, an IP or a DNS name; default: the listen address
	Port      int    // 0: a free one
	Receivers int    // number of MXL receivers; 0: one, negative: none
	// ReceiverIDs are the ids of the first receivers; default UUIDv5.
	ReceiverIDs []string
	// OwnDomain is what "auto" resolves to; empty: "auto" cannot be resolved.
	OwnDomain string
	// Slash ends the node's and the control hrefs with a slash.
	Slash bool
	// Connection lists the IS-05 versions offered; default v1.1 and v1.2.
	Connection []string
	// AnyVersion answers for MXL receivers at every version. Otherwise versions
	// below v1.2 hide them behind a 409 (NMOS reference §9.2).
	AnyVersion bool
	// WholeSeconds makes resource versions without nanoseconds, as one program
	// of the field does: two changes in one second look the same.
	WholeSeconds bool
	// Unserved nodes are registered and kept alive, but nothing listens there.
	Unserved bool
}

// Node is a media node: one device with MXL receivers.
type Node struct {
	ID       string
	DeviceID string

	options   NodeOptions
	own       *StandIn
	server    *server
	receivers []*Receiver

	version stamp

	dirty  chan struct{} // capacity 1
	cancel context.CancelFunc
	done   chan struct{}
}

var receiverFormats = [...]struct{ format, media string }{
	{"video", "video/v210"}, {"audio", "audio/float32"}, {"data", "video/smpte291"},
}

func newNode(own *StandIn, number int, o NodeOptions) *Node {
	name := strconv.Itoa(number)
	made := func(what string) string { return uuid.NewSHA1(seed, []byte(name+" "+what)).String() }
	defaults := func(value *string, text string) {
		if *value == "" {
			*value = text
		}
	}
	defaults(&o.ID, made("node"))
	defaults(&o.Label, "media node "+name)
	defaults(&o.Hostname, name+".media.test")
	defaults(&o.Advertise, own.options.Host)
	if len(o.Connection) == 0 {
		o.Connection = []string{"v1.1", "v1.2"}
	}
	switch {
	case o.Receivers == 0:
		o.Receivers = 1
	case o.Receivers < 0:
		o.Receivers = 0
	}
	o.Receivers = max(o.Receivers, len(o.ReceiverIDs))
	n := &Node{ID: o.ID, DeviceID: made("device " + o.ID), options: o, own: own,
		dirty: make(chan struct{}, 1), done: make(chan struct{})}
	n.version = n.nextVersion(0)
	for i := range o.Receivers {
		id := made(fmt.Sprintf("receiver %s %d", o.ID, i))
		if i < len(o.ReceiverIDs) {
			id = o.ReceiverIDs[i]
		}
		n.receivers = append(n.receivers, newReceiver(n, id, i))
	}
	n.server = newServer("node", own.options.Host, o.Port, api("node", own.faults, own.counted, n.answer))
	return n
}

// Receivers lists the node's receivers.
func (n *Node) Receivers() []*Receiver { return slices.Clone(n.receivers) }

// Port is where the Node API and the Connection API are served.
func (n *Node) Port() int { return n.server.port() }

func (n *Node) start(ctx context.Context) error {
	if !n.options.Unserved {
		if err := n.server.open(); err != nil {
			return err
		}
	}
	ctx, n.cancel = context.WithCancel(ctx)
	go n.keepRegistered(ctx)
	return nil
}

// stop ends a node the way most programs do: without a DELETE.
func (n *Node) stop() {
	n.cancel()
	<-n.done
	for _, r := range n.receivers {
		r.stop()
	}
	n.server.close()
}

// port is the port the documents name; unserved nodes have a made-up one.
func (n *Node) port() int {
	if n.options.Unserved {
		return 8080
	}
	return n.server.port()
}

// URL is the origin of the node's Node API and Connection API.
func (n *Node) URL() string {
	return "http://" + net.JoinHostPort(n.options.Advertise, strconv.Itoa(n.port()))
}

func (n *Node) slash() string {
	if n.options.Slash {
		return "/"
	}
	return ""
}

// nextVersion is a version for a change made now, later than any before.
func (n *Node) nextVersion(last stamp) stamp {
	now := stampOf(time.Now())
	if n.options.WholeSeconds {
		return now / 1e9 * 1e9
	}
	return max(now, last+1)
}

func (n *Node) self() map[string]any {
	return map[string]any{
		"id": n.ID, "version": n.version.String(), "label": n.options.Label, "description": "", "tags": map[string]any{},
		"href": n.URL() + n.slash(), "hostname": n.options.Hostname,
		"api": map[string]any{
			"versions":  []string{"v1.3"},
			"endpoints": []any{map[string]any{"host": n.options.Advertise, "port": n.port(), "protocol": "http"}},
		},
		"caps": map[string]any{}, "services": []any{},
		"clocks":     []any{map[string]any{"name": "clk0", "ref_type": "internal"}},
		"interfaces": []any{},
	}
}

func (n *Node) device() map[string]any {
	controls := []any{}
	for _, version := range n.options.Connection {
		controls = append(controls, map[string]any{
			"type": "urn:x-nmos:control:sr-ctrl/" + version,
			"href": n.URL() + connectionRoot + "/" + version + n.slash(),
		})
	}
	ids := []string{}
	for _, r := range n.receivers {
		ids = append(ids, r.ID)
	}
	return map[string]any{
		"id": n.DeviceID, "version": n.version.String(), "label": n.options.Label + " device", "description": "",
		"tags": map[string]any{}, "type": "urn:x-nmos:device:generic", "node_id": n.ID,
		"senders": []string{}, "receivers": ids, "controls": controls,
	}
}

// answer serves the Node API and the Connection API.
func (n *Node) answer(req *http.Request) reply {
	path := strings.TrimSuffix(req.URL.Path, "/")
	switch {
	case path == "/x-nmos":
		return found([]string{"node/", "connection/"})
	case path == connectionRoot || strings.HasPrefix(path, connectionRoot+"/"):
		return n.connection(req)
	case path == "/x-nmos/node":
		return found([]string{"v1.3/"})
	}
	parts, ok := segments(path, "/x-nmos/node/v1.3")
	if !ok || len(parts) > 2 {
		return notFound()
	}
	if !readable(req) {
		return notAllowed(http.MethodGet, http.MethodHead)
	}
	if len(parts) == 0 {
		return found([]string{"self/", "devices/", "sources/", "flows/", "senders/", "receivers/"})
	}
	if parts[0] == "self" && len(parts) == 1 {
		return found(n.self())
	}
	if !isKind(parts[0]) || parts[0] == string(nodes) {
		return notFound()
	}
	list := []map[string]any{}
	switch kind(parts[0]) {
	case devices:
		list = append(list, n.device())
	case receivers:
		for _, r := range n.receivers {
			list = append(list, r.resource())
		}
	}
	if len(parts) == 1 {
		return found(list)
	}
	for _, doc := range list {
		if doc["id"] == parts[1] {
			return found(doc)
		}
	}
	return notFound()
}

// changed tells the registration loop that a receiver has a new version.
func (n *Node) changed() {
	select {
	case n.dirty <- struct{}{}:
	default:
	}
}

// keepRegistered is the node's registration client (NMOS reference §4.1).
func (n *Node) keepRegistered(ctx context.Context) {
	defer close(n.done)
	heartbeat := time.NewTicker(n.own.options.Heartbeat)
	defer heartbeat.Stop()
	registered := n.register(ctx)
	retry := time.NewTicker(time.Second)
	defer retry.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-n.dirty:
			if registered {
				registered = n.postReceivers(ctx)
			}
		case <-heartbeat.C:
			if !registered {
				continue
			}
			status := n.post(ctx, "/health/nodes/"+n.ID, nil)
			if status != http.StatusOK {
				registered = status == http.StatusNotFound && n.register(ctx)
			}
		case <-retry.C:
			if !registered {
				registered = n.register(ctx)
			}
		}
	}
}

// register posts everything in the order of NMOS reference §4.1.
func (n *Node) register(ctx context.Context) bool {
	for _, r := range n.receivers {
		r.published(0)
	}
	return n.postResource(ctx, "node", n.self()) && n.postResource(ctx, "device", n.device()) && n.postReceivers(ctx)
}

func (n *Node) postReceivers(ctx context.Context) bool {
	for _, r := range n.receivers {
		doc, changes := r.unpublished()
		if doc == nil {
			continue
		}
		if !n.postResource(ctx, "receiver", doc) {
			return false
		}
		r.published(changes)
	}
	return true
}

func (n *Node) postResource(ctx context.Context, singular string, doc map[string]any) bool {
	status := n.post(ctx, "/resource", encode(map[string]any{"type": singular, "data": doc}))
	return status == http.StatusOK || status == http.StatusCreated
}

// registration is the origin of the Registration API that the node uses.
func (n *Node) registration() string {
	return cmp.Or(n.own.options.Registration, n.own.RegistryURL())
}

// post sends a request to the Registration API; 0 means that none came back.
func (n *Node) post(ctx context.Context, path string, body []byte) int {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	var content io.Reader = http.NoBody
	if body != nil {
		content = bytes.NewReader(body)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, n.registration()+registrationBase+path, content)
	if err != nil {
		return 0
	}
	req.Header.Set("User-Agent", ownAgent)
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := n.own.client.Do(req)
	if err != nil {
		return 0
	}
	defer resp.Body.Close()
	_, _ = io.Copy(io.Discard, resp.Body)
	return resp.StatusCode
}
