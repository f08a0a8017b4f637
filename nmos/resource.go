package nmos

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// kind is one of the three IS-04 resource types that are followed.
type kind int

const (
	kindNode kind = iota
	kindDevice
	kindReceiver
	kinds
)

// path is the Query API's resource_path; a grain's topic adds a slash.
func (k kind) path() string { return [...]string{"/nodes", "/devices", "/receivers"}[k] }

func (k kind) String() string { return [...]string{"node", "device", "receiver"}[k] }

// resource is one parsed entry of a collection. Exactly one pointer is set,
// none when bad; what they point at never changes.
type resource struct {
	id       string
	bad      bool // listed, but not understood: what was known of it is kept
	node     *nodeFacts
	device   *deviceFacts
	receiver *receiverFacts
}

type nodeFacts struct {
	label    string
	hostname string
	hosts    []string // api.endpoints[].host, else the host of href
	hostID   string   // of an agent
	control  string   // control url of an agent; empty: not an agent
}

type deviceFacts struct {
	nodeID   string
	controls []control // IS-05, in the order to try
}

// control is a base URL of a Connection API without trailing slash.
type control struct {
	minor int // of v1.x
	href  string
}

type receiverFacts struct {
	deviceID string
	label    string
	mxl      bool
	version  string
}

// What is kept of one foreign resource: real ones have a handful of each. A registry
// that sends 400,000 hosts of one node in 8 MiB must not cost memory or time for them.
const (
	maxText     = 256 // bytes
	maxHosts    = 64
	maxControls = 16
)

// short cuts a foreign text that is kept, in whole characters.
func short(s string) string {
	if len(s) <= maxText {
		return s
	}
	return strings.ToValidUTF8(s[:maxText], "")
}

// note says that a resource, or a part of it, was ignored and why.
type note struct {
	kind   kind
	id     string
	reason string
}

// parseResource reads one foreign resource. It never fails as a whole: the
// result may be bad (with or without an id), and the notes say what was ignored.
func parseResource(k kind, raw json.RawMessage) (resource, []note) {
	var (
		res   resource
		notes []string
		err   error
	)
	if res.id, err = resourceID(raw); err == nil {
		switch k {
		case kindNode:
			res.node, notes, err = parseNode(raw)
		case kindDevice:
			res.device, notes, err = parseDevice(raw)
		case kindReceiver:
			res.receiver, err = parseReceiver(raw)
		}
	}
	if err != nil {
		res.bad, res.node, res.device, res.receiver = true, nil, nil, nil
		notes = append(notes, err.Error())
	}
	out := make([]note, len(notes))
	for i, reason := range notes {
		out[i] = note{k, res.id, reason}
	}
	return res, out
}

func resourceID(raw json.RawMessage) (string, error) {
	var doc struct {
		ID *string `json:"id"`
	}
	if err := decode(raw, &doc); err != nil {
		return "", err
	}
	if doc.ID == nil {
		return "", errors.New("id is missing")
	}
	id, err := foreignID(*doc.ID)
	if err != nil {
		return "", fmt.Errorf("id: %w", err)
	}
	return id, nil
}

func parseNode(raw json.RawMessage) (*nodeFacts, []string, error) {
	var doc struct {
		Label    *string                    `json:"label"`
		Hostname *string                    `json:"hostname"`
		Href     *string                    `json:"href"`
		Tags     map[string]json.RawMessage `json:"tags"`
		API      struct {
			Endpoints []struct {
				Host string `json:"host"`
			} `json:"endpoints"`
		} `json:"api"`
		Services []struct {
			Href string `json:"href"`
			Type string `json:"type"`
		} `json:"services"`
	}
	if err := decode(raw, &doc); err != nil {
		return nil, nil, err
	}
	n := &nodeFacts{label: short(deref(doc.Label)), hostname: short(deref(doc.Hostname))}
	for _, e := range doc.API.Endpoints {
		if len(n.hosts) == maxHosts {
			break
		}
		if e.Host != "" && len(e.Host) <= maxText && !slices.Contains(n.hosts, e.Host) {
			n.hosts = append(n.hosts, e.Host)
		}
	}
	if len(n.hosts) == 0 {
		if u, err := checkHref(deref(doc.Href), "http", "https"); err == nil {
			n.hosts = []string{u.Hostname()}
		}
	}
	var notes []string
	for _, s := range doc.Services {
		if s.Type != ServiceType || n.control != "" || len(notes) == maxControls {
			continue
		}
		u, err := checkHref(s.Href, "http", "https")
		if err != nil {
			notes = append(notes, "agent service: "+err.Error())
			continue
		}
		n.control = strings.TrimRight(u.String(), "/")
	}
	if n.control == "" {
		return n, notes, nil
	}
	if tag, ok := doc.Tags[HostIDTag]; ok {
		var values []string
		if err := json.Unmarshal(tag, &values); err != nil || len(values) == 0 || values[0] == "" {
			notes = append(notes, "host-id tag is not an array with a non-empty string")
		} else {
			n.hostID = short(values[0])
		}
	}
	if n.hostID == "" {
		n.hostID = n.hostname
	}
	if n.hostID == "" {
		n.control = ""
		notes = append(notes, "agent service without host-id tag and hostname")
	}
	return n, notes, nil
}

// controlType is the IS-05 control type without its version.
const controlType = "urn:x-nmos:control:sr-ctrl/v1."

func parseDevice(raw json.RawMessage) (*deviceFacts, []string, error) {
	var doc struct {
		NodeID   *string `json:"node_id"`
		Controls []struct {
			Type string `json:"type"`
			Href string `json:"href"`
		} `json:"controls"`
	}
	if err := decode(raw, &doc); err != nil {
		return nil, nil, err
	}
	if doc.NodeID == nil {
		return nil, nil, errors.New("node_id is missing")
	}
	nodeID, err := foreignID(*doc.NodeID)
	if err != nil {
		return nil, nil, fmt.Errorf("node_id: %w", err)
	}
	d := &deviceFacts{nodeID: nodeID}
	var notes []string
	for _, c := range doc.Controls {
		if len(d.controls)+len(notes) == maxControls {
			break
		}
		digits, ok := strings.CutPrefix(c.Type, controlType)
		if !ok {
			continue
		}
		minor, err := strconv.ParseUint(digits, 10, 16)
		if err != nil {
			notes = append(notes, fmt.Sprintf("control type %q: bad version", clip(c.Type)))
			continue
		}
		u, err := checkHref(c.Href, "http", "https")
		if err != nil {
			notes = append(notes, "control "+clip(c.Type)+": "+err.Error())
			continue
		}
		d.controls = append(d.controls, control{int(minor), strings.TrimRight(u.String(), "/")})
	}
	slices.SortStableFunc(d.controls, func(a, b control) int { return cmp.Compare(a.order(), b.order()) })
	return d, notes, nil
}

// order: v1.2 (the version with MXL), then v1.1, then newer ones, then the rest.
func (c control) order() int {
	switch {
	case c.minor == 2:
		return 0
	case c.minor == 1:
		return 1
	case c.minor > 2:
		return 2
	default:
		return 3
	}
}

func parseReceiver(raw json.RawMessage) (*receiverFacts, error) {
	var doc struct {
		DeviceID  *string         `json:"device_id"`
		Label     *string         `json:"label"`
		Transport *string         `json:"transport"`
		Version   json.RawMessage `json:"version"`
	}
	if err := decode(raw, &doc); err != nil {
		return nil, err
	}
	if doc.Transport == nil {
		return nil, errors.New("transport is missing")
	}
	if !isMXL(*doc.Transport) {
		return &receiverFacts{}, nil
	}
	if doc.DeviceID == nil {
		return nil, errors.New("device_id is missing")
	}
	deviceID, err := foreignID(*doc.DeviceID)
	if err != nil {
		return nil, fmt.Errorf("device_id: %w", err)
	}
	// The version is compared for equality only; whatever it is, it tells change.
	return &receiverFacts{deviceID: deviceID, label: short(deref(doc.Label)), mxl: true, version: clip(string(doc.Version))}, nil
}

// isMXL accepts the transport and possible subclassifications of it; unknown
// parts of a URN must be tolerated (NMOS reference §1, §13).
func isMXL(transport string) bool {
	rest, ok := strings.CutPrefix(transport, TransportMXL)
	return ok && (rest == "" || rest[0] == '.' || rest[0] == '/')
}

// foreignID checks and lower-cases a UUID from elsewhere. Any version nibble
// goes: MXL ids are looser than those of IS-04 (NMOS reference §11, §15).
func foreignID(s string) (string, error) {
	if len(s) != 36 {
		return "", fmt.Errorf("%q is not a uuid", clip(s))
	}
	for i, c := range []byte(s) {
		if i == 8 || i == 13 || i == 18 || i == 23 {
			if c != '-' {
				return "", fmt.Errorf("%q is not a uuid", clip(s))
			}
			continue
		}
		if !('0' <= c && c <= '9' || 'a' <= c && c <= 'f' || 'A' <= c && c <= 'F') {
			return "", fmt.Errorf("%q is not a uuid", clip(s))
		}
	}
	return strings.ToLower(s), nil
}

// decode reads a JSON object and words the error with the member's name.
func decode(raw json.RawMessage, into any) error {
	if !bytes.HasPrefix(bytes.TrimLeft(raw, " \t\r\n"), []byte("{")) {
		return fmt.Errorf("not an object: %s", clip(string(raw[:min(len(raw), 100)])))
	}
	err := json.Unmarshal(raw, into)
	if te, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return fmt.Errorf("%s is a %s", te.Field, te.Value)
	}
	return err
}

func deref(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}
