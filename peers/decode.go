package peers

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"strconv"
	"strings"
)

// record is a JSON object of which every member may be missing or of another
// type than expected: a peer of another version is no reason to fail.
type record map[string]json.RawMessage

// asRecord reports false for anything but an object.
func asRecord(raw json.RawMessage) (record, bool) {
	var r record
	if err := json.Unmarshal(raw, &r); err != nil || r == nil {
		return nil, false
	}
	return r, true
}

// text is empty for a member that is missing or no string.
func (r record) text(key string) string {
	var s string
	if err := json.Unmarshal(r[key], &s); err != nil {
		return ""
	}
	return s
}

// truth is false for a member that is missing or no boolean.
func (r record) truth(key string) bool {
	var b bool
	return json.Unmarshal(r[key], &b) == nil && b
}

// count is a number from 0; ok is false for anything else. The original's
// numbers are doubles, so 2e3 and 2000.0 count.
func (r record) count(key string) (n uint64, ok bool) {
	literal := string(r[key])
	if n, err := strconv.ParseUint(literal, 10, 64); err == nil {
		return n, true
	}
	f, err := strconv.ParseFloat(literal, 64)
	// 2^64 as a double is the first value that does not fit.
	if err != nil || !(f >= 0) || f >= math.MaxUint64 {
		return 0, false
	}
	return uint64(f), true
}

func (r record) countOrZero(key string) uint64 {
	n, _ := r.count(key)
	return n
}

func (r record) rational(key string) (Rational, bool) {
	inner, ok := asRecord(r[key])
	if !ok {
		return Rational{}, false
	}
	n, okN := inner.count("numerator")
	d, okD := inner.count("denominator")
	if !okN || !okD || n > math.MaxInt64 || d > math.MaxInt64 {
		return Rational{}, false
	}
	return Rational{Numerator: int64(n), Denominator: int64(d)}, true
}

func (r record) list(key string) []json.RawMessage {
	var list []json.RawMessage
	if err := json.Unmarshal(r[key], &list); err != nil {
		return nil
	}
	return list
}

// ParseInfo reads an /info answer. Only the object itself must be right.
func ParseInfo(body []byte) (Info, error) {
	r, ok := asRecord(body)
	if !ok {
		return Info{}, errors.New("info is not a JSON object")
	}
	info := Info{
		BootID: r.text("boot_id"), HostID: r.text("host_id"), Version: r.text("version"),
		MXLVersion: r.text("mxl_version"), LibfabricVersion: r.text("libfabric_version"),
		MXLRootTmpfs: r.truth("mxl_root_tmpfs"),
	}
	for _, raw := range r.list("providers") {
		var name string
		if json.Unmarshal(raw, &name) == nil {
			info.Providers = append(info.Providers, name)
		}
	}
	if n, ok := r.count("tai_offset_seconds"); ok && n < math.MaxInt32 {
		info.TAIOffsetSeconds = int(n)
	}
	return info, nil
}

// ParseInventory reads an /inventory answer. A record that cannot be used
// costs itself only and is listed in Problems; unknown members are ignored. A
// problem reads the same wherever in the list the record is: the log names it once.
func ParseInventory(body []byte) (*Inventory, error) {
	if inv, ok := plainInventory(body); ok {
		return inv, nil
	}
	r, ok := asRecord(body)
	if !ok {
		return nil, errors.New("inventory is not a JSON object")
	}
	inv := &Inventory{Revision: r.countOrZero("revision"), HostID: r.text("host_id"), Domains: []Domain{}}
	seen := make(map[string]bool)
	for _, raw := range r.list("domains") {
		d, problem := parseDomain(raw, &inv.Problems)
		if problem == "" && seen[d.ID] {
			problem = "the domain is listed twice"
		}
		if problem != "" {
			inv.Problems = append(inv.Problems, Problem{DomainID: d.ID, Reason: "domain record: " + problem})
			continue
		}
		seen[d.ID] = true
		inv.Domains = append(inv.Domains, d)
	}
	if n := len(inv.Problems); n > maxProblems {
		inv.Problems = append(inv.Problems[:maxProblems:maxProblems],
			Problem{Reason: fmt.Sprintf("more than %d records cannot be used, the rest is not named", maxProblems)})
	}
	return inv, nil
}

// maxProblems is how many unusable records of one inventory are named: each is a
// line in the log.
const maxProblems = 100

func parseDomain(raw json.RawMessage, problems *[]Problem) (d Domain, problem string) {
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
		d.Options = r["options"]
	}
	seen := make(map[string]bool)
	for _, rawFlow := range r.list("flows") {
		f, problem := parseFlow(rawFlow)
		if problem == "" && seen[strings.ToLower(f.ID)] {
			problem = "the flow is listed twice"
		}
		if problem != "" {
			*problems = append(*problems, Problem{DomainID: id, FlowID: f.ID, Reason: "flow record: " + problem})
			continue
		}
		seen[strings.ToLower(f.ID)] = true
		d.Flows = append(d.Flows, f)
	}
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
		ID: id, Def: r["flow_def"], MediaType: r.text("media_type"), Format: "discrete",
		Active: r.truth("active"), Live: r.truth("live"),
		RingDepth: r.countOrZero("ring_depth"), PayloadSize: r.countOrZero("payload_size"),
	}
	def, ok := asRecord(f.Def)
	if !ok {
		return f, "flow_def is not an object"
	}
	if inner := def.text("id"); inner != "" && !strings.EqualFold(inner, id) {
		return f, fmt.Sprintf("flow_def has the id %.80q", inner)
	}
	if text := r.text("flow_def_text"); sameDocument([]byte(text), f.Def) {
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
	r, ok := asRecord(body)
	if !ok {
		return ReplicationAnswer{}, errors.New("replication answer is not a JSON object")
	}
	a := ReplicationAnswer{ReplicationID: r.text("replication_id"), State: clip(r.text("state")), Error: clip(r.text("error"))}
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
