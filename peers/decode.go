package peers

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"strings"
)

// maxProviders is how many names of providers are taken; there are two.
const maxProviders = 16

// ParseInfo reads an /info answer. Only the object itself must be right; texts are
// cut as reasons are.
func ParseInfo(body []byte) (Info, error) {
	r, ok := parseRecord(body)
	if !ok {
		return Info{}, errors.New("info is not a JSON object")
	}
	text := func(key string) string { return clip(r.text(key)) }
	info := Info{
		BootID: text("boot_id"), HostID: text("host_id"), Version: text("version"),
		MXLVersion: text("mxl_version"), LibfabricVersion: text("libfabric_version"),
		MXLRootTmpfs: r.truth("mxl_root_tmpfs"),
	}
	seen := 0
	r.each("providers", func(raw json.RawMessage) bool {
		var name string
		if json.Unmarshal(raw, &name) == nil {
			info.Providers = append(info.Providers, clip(name))
		}
		seen++
		return seen < maxProviders
	})
	if n, ok := r.count("tai_offset_seconds"); ok && n < math.MaxInt32 {
		info.TAIOffsetSeconds = int(n)
	}
	return info, nil
}

// ParseInventory reads an /inventory answer. A record that cannot be used
// costs itself only and is listed in Problems; unknown members are ignored. A
// problem reads the same wherever in the list the record is: the log names it once.
func ParseInventory(body []byte) (*Inventory, error) {
	if err := checkRecords(body); err != nil {
		return nil, err
	}
	if inv, ok := plainInventory(body); ok {
		return inv, nil
	}
	return carefulInventory(body)
}

// carefulInventory reads an inventory record by record.
func carefulInventory(body []byte) (*Inventory, error) {
	r, ok := parseRecord(body)
	if !ok {
		return nil, errors.New("inventory is not a JSON object")
	}
	inv := &Inventory{Revision: r.countOrZero("revision"), HostID: clip(r.text("host_id")), Domains: []Domain{}}
	seen := make(map[string]bool)
	r.each("domains", func(raw json.RawMessage) bool {
		d, problem := parseDomain(raw, inv)
		if problem == "" && seen[d.ID] {
			problem = "the domain is listed twice"
		}
		if problem != "" {
			inv.blame(Problem{DomainID: d.ID, Reason: "domain record: " + problem})
			return true
		}
		seen[d.ID] = true
		inv.Domains = append(inv.Domains, d)
		return true
	})
	return inv, nil
}

// maxProblems is how many unusable records of one inventory are named: each is a
// line in the log.
const maxProblems = 100

// blame names a record that cannot be used, while there are few.
func (i *Inventory) blame(p Problem) {
	switch n := len(i.Problems); {
	case n < maxProblems:
		i.Problems = append(i.Problems, p)
	case n == maxProblems:
		i.Problems = append(i.Problems, Problem{Reason: fmt.Sprintf("more than %d records cannot be used, the rest is not named", maxProblems)})
	}
}

// maxDefinition is the longest definition and the longest options.json that are
// taken, in bytes, as of a flow of this host (mxl.Scanner): real ones have about
// 1 KiB.
const maxDefinition = 64 << 10

func parseDomain(raw json.RawMessage, inv *Inventory) (d Domain, problem string) {
	r, ok := asRecord(raw)
	if !ok {
		return d, "not an object"
	}
	id := r.text("domain_id")
	if !usableDomainID(id) {
		return d, fmt.Sprintf("domain_id %.80q cannot name a directory", id)
	}
	d = Domain{ID: id, Path: r.text("path"), Options: json.RawMessage("{}"), Flows: []Flow{}}
	if _, isObject := asRecord(r["options"]); isObject {
		d.Options = bytes.Clone(r["options"])
	}
	if n := len(d.Options); n > maxDefinition {
		return d, fmt.Sprintf("options of %d bytes, more than %d", n, maxDefinition)
	}
	seen := make(map[string]bool)
	r.each("flows", func(rawFlow json.RawMessage) bool {
		f, problem := parseFlow(rawFlow)
		if problem == "" && seen[strings.ToLower(f.ID)] {
			problem = "the flow is listed twice"
		}
		if problem != "" {
			inv.blame(Problem{DomainID: id, FlowID: f.ID, Reason: "flow record: " + problem})
			return true
		}
		seen[strings.ToLower(f.ID)] = true
		d.Flows = append(d.Flows, f)
		return true
	})
	return d, ""
}

func parseFlow(raw json.RawMessage) (f Flow, problem string) {
	r, ok := asRecord(raw)
	if !ok {
		return f, "not an object"
	}
	id := r.text("flow_id")
	if !isUUID(id) {
		return f, fmt.Sprintf("flow_id %.80q is not a UUID", id)
	}
	f = Flow{
		ID: id, Def: bytes.Clone(r["flow_def"]), MediaType: r.text("media_type"), Format: "discrete",
		Active: r.truth("active"), Live: r.truth("live"),
		RingDepth: r.countOrZero("ring_depth"), PayloadSize: r.countOrZero("payload_size"),
	}
	def, ok := asRecord(f.Def)
	if !ok {
		return f, "flow_def is not an object"
	}
	if n := len(f.Def); n > maxDefinition {
		return f, fmt.Sprintf("flow_def of %d bytes, more than %d", n, maxDefinition)
	}
	if inner := def.text("id"); inner != "" && !strings.EqualFold(inner, id) {
		return f, fmt.Sprintf("flow_def has the id %.80q", inner)
	}
	if text := r.text("flow_def_text"); len(text) <= maxDefinition && sameDocument([]byte(text), f.Def) {
		f.DefText = text
	}
	if r.text("format") == "continuous" {
		f.Format = "continuous"
	}
	f.GrainRate, _ = r.rational("grain_rate")
	if rate, ok := r.rational("sample_rate"); ok {
		f.SampleRate = &rate
	}
	if head, ok := r.count("head_index"); ok {
		f.HeadIndex = &head
	}
	return f, ""
}

// sameDocument reports whether two texts are one JSON document, spelled alike or
// not.
func sameDocument(a, b []byte) bool {
	if bytes.Equal(a, b) {
		return len(a) > 0
	}
	var x, y bytes.Buffer
	if json.Compact(&x, a) == nil && json.Compact(&y, b) == nil && bytes.Equal(x.Bytes(), y.Bytes()) {
		return true
	}
	return sameValue(a, b)
}

func sameValue(a, b []byte) bool {
	decode := func(text []byte) (any, bool) {
		var v any
		d := json.NewDecoder(bytes.NewReader(text))
		d.UseNumber()
		err := d.Decode(&v)
		return v, err == nil && !d.More()
	}
	x, ok := decode(a)
	if !ok {
		return false
	}
	y, ok := decode(b)
	return ok && reflect.DeepEqual(x, y)
}

// Definition is the flow's definition as its mirror is to have it: to the byte
// where the peer says so, else the JSON of the inventory.
func (f *Flow) Definition() []byte {
	if f.DefText != "" {
		return []byte(f.DefText)
	}
	return f.Def
}

// ParseReplicationAnswer reads the answer of POST /replications, also one
// with an error status.
func ParseReplicationAnswer(body []byte) (ReplicationAnswer, error) {
	r, ok := parseRecord(body)
	if !ok {
		return ReplicationAnswer{}, errors.New("replication answer is not a JSON object")
	}
	a := ReplicationAnswer{
		ReplicationID: clip(r.text("replication_id")), State: clip(r.text("state")), Error: clip(r.text("error")),
		Provider: clip(r.text("provider")), TargetSecret: r.truth("target_secret"),
	}
	if head, ok := r.count("origin_head"); ok {
		a.OriginHead = &head
	}
	return a, nil
}

// maxDomainID leaves room for "mirror-" in a file name of 255 bytes.
const maxDomainID = 200

// usableDomainID keeps a peer from naming anything but a plain directory: the
// mirror of a domain is called mirror-<id>.
func usableDomainID(id string) bool {
	if id == "" || len(id) > maxDomainID || id[0] == '.' {
		return false
	}
	for _, c := range []byte(id) {
		plain := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' || c == '_' || c == '.' || c == ':'
		if !plain {
			return false
		}
	}
	return true
}

// isUUID knows the 8-4-4-4-12 form, the only one MXL uses in file names.
func isUUID(id string) bool {
	if len(id) != 36 {
		return false
	}
	for i, c := range []byte(id) {
		switch i {
		case 8, 13, 18, 23:
			if c != '-' {
				return false
			}
		default:
			if !(c >= '0' && c <= '9' || c >= 'a' && c <= 'f' || c >= 'A' && c <= 'F') {
				return false
			}
		}
	}
	return true
}
