package peers

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"strconv"
)

// record is a JSON object of which every member may be missing or of another
// type than expected: a peer of another version is no reason to fail. It holds
// the members that this package reads and no others, as parts of the text that
// they were read from: however a peer makes an object, a record of it is small.
type record map[string]json.RawMessage

// parseRecord reads foreign text; false for anything but an object.
func parseRecord(text []byte) (record, bool) {
	if !json.Valid(text) {
		return nil, false
	}
	return asRecord(text)
}

// asRecord is parseRecord for a part of a text that is known to be JSON.
func asRecord(raw json.RawMessage) (record, bool) {
	raw = bytes.TrimLeft(raw, whiteSpace)
	if len(raw) == 0 || raw[0] != '{' {
		return nil, false
	}
	r := make(record)
	eachPart(raw, func(key, value []byte) bool {
		if name, ok := memberName(key); ok {
			r[name] = value
		}
		return true
	})
	return r, true
}

// memberName knows the members that are read.
func memberName(key []byte) (name string, known bool) {
	if bytes.IndexByte(key, '\\') >= 0 {
		if json.Unmarshal(key, &name) != nil {
			return "", false
		}
	} else {
		name = string(key[1 : len(key)-1])
	}
	switch name {
	case "boot_id", "host_id", "version", "mxl_version", "libfabric_version", "mxl_root_tmpfs", "providers", "tai_offset_seconds",
		"revision", "domains", "domain_id", "path", "options", "flows",
		"flow_id", "flow_def", "flow_def_text", "id", "media_type", "format", "active", "live", "ring_depth", "payload_size",
		"grain_rate", "sample_rate", "numerator", "denominator", "head_index",
		"replication_id", "state", "error", "origin_head", "provider", "target_secret":
		return name, true
	}
	return "", false
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

// longestNumber is more than any count of ours has, in bytes.
const longestNumber = 40

// count is a number from 0; ok is false for anything else. The original's
// numbers are doubles, so 2e3 and 2000.0 count.
func (r record) count(key string) (n uint64, ok bool) {
	if len(r[key]) > longestNumber {
		return 0, false
	}
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

// each calls visit for the elements of a list until it returns false; anything
// else has none.
func (r record) each(key string, visit func(element json.RawMessage) bool) {
	raw := bytes.TrimLeft(r[key], whiteSpace)
	if len(raw) > 0 && raw[0] == '[' {
		eachPart(raw, func(_, value []byte) bool { return visit(value) })
	}
}

const whiteSpace = " \t\r\n"

// eachPart calls visit for the parts of an object or array until it returns
// false; key is nil in an array and has its quotes in an object. The text must be
// valid JSON.
func eachPart(text []byte, visit func(key, value []byte) bool) {
	object := text[0] == '{'
	at := 1
	skip := func(more string) {
		for at < len(text) && (bytes.IndexByte([]byte(whiteSpace), text[at]) >= 0 || more != "" && text[at] == more[0]) {
			at++
		}
	}
	for {
		skip(",")
		if at >= len(text) || text[at] == '}' || text[at] == ']' {
			return
		}
		var key []byte
		if object {
			end := partEnd(text, at)
			key = text[at:end]
			at = end
			skip(":")
		}
		end := partEnd(text, at)
		if !visit(key, text[at:end:end]) {
			return
		}
		at = end
	}
}

// partEnd is where the value that begins at a place ends.
func partEnd(text []byte, at int) int {
	depth := 0
	for ; at < len(text); at++ {
		switch text[at] {
		case '"':
			at = closingQuote(text, at)
			if depth == 0 {
				return min(at+1, len(text))
			}
		case '{', '[':
			depth++
		case '}', ']':
			if depth == 0 {
				return at // of a number or a word
			}
			if depth--; depth == 0 {
				return at + 1
			}
		case ',', ':', ' ', '\t', '\r', '\n':
			if depth == 0 {
				return at
			}
		}
	}
	return len(text)
}

// closingQuote is the place of the quote that ends the string beginning at a
// place, or the end of the text.
func closingQuote(text []byte, at int) int {
	for at++; at < len(text); at++ {
		switch text[at] {
		case '\\':
			at++
		case '"':
			return at
		}
	}
	return len(text)
}

// maxRecords is how many records an inventory may have. One with a definition that
// MXL accepts takes more than 512 bytes, so that an answer of the largest size has
// no more of them.
const maxRecords = maxAnswer / 512

// checkRecords refuses an answer whose lists have too many elements, before it is
// decoded: 8 MiB of empty records cost gigabytes otherwise. The text may be
// anything. The lists of an inventory are two and four levels down.
func checkRecords(text []byte) error {
	depth, records := 0, 0
	var list [5]bool // whether the bracket at a depth opens a list
	for at := 0; at < len(text); at++ {
		switch text[at] {
		case '"':
			at = closingQuote(text, at)
		case '{', '[':
			depth++
			if depth < len(list) {
				list[depth] = text[at] == '['
			}
		case '}', ']':
			depth = max(0, depth-1) // more may be closed than was opened
		case ',':
			if (depth == 2 || depth == 4) && list[depth] {
				if records++; records >= maxRecords {
					return &CallError{Word: ErrTooLarge, Cause: errors.New("more than " + strconv.Itoa(maxRecords) + " records")}
				}
			}
		}
	}
	return nil
}
