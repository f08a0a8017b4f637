package fabrics

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
)

// Address formats that a TargetInfo may name (libfabric's rdma/fabric.h).
const (
	formatSockaddr   = 1
	formatIPv4       = 2
	formatIPv6       = 3
	formatInfiniband = 4
	formatString     = 9
	formatEFA        = 12
	formatSockaddrIP = 17
)

// maxRegions is the number of slots an immediate's 16 bits can name (MXL Fabrics reference §6.1).
const maxRegions = 1 << 16

// TargetInfo describes a target to an initiator (MXL Fabrics reference §2).
type TargetInfo struct {
	AddressFormat uint32 // libfabric address format of Address: 2 IPv4, 3 IPv6
	Address       []byte // raw socket address of the listener
	ID            uint64 // names the target for its owner; never on the wire
	Provider      string // tcp, verbs, efa, shm or unknown
	Regions       []Region
	Bounce        *Bounce // continuous flows only

	// Native is how many immediates may be in flight towards a target of this
	// package, under a key of its own that others ignore. 0 for other targets.
	Native uint32
	// Secret is what a target of this package wants to see from its initiator, under
	// the same key; zero when it asks for none.
	Secret [16]byte
}

// Region is one registered memory region of a target, in slot or entry order.
type Region struct{ Addr, Len, RKey uint64 }

// Bounce is a continuous target's bounce buffer (MXL Fabrics reference §7.1).
// EntrySize includes the entry's 16-byte header.
type Bounce struct{ EntryCount, EntrySize uint64 }

// FieldError names the field of a TargetInfo that cannot be used.
type FieldError struct {
	Field string
	Err   error
}

// Error names the field first.
func (e *FieldError) Error() string { return "target info: " + e.Field + ": " + e.Err.Error() }

// Unwrap returns the reason.
func (e *FieldError) Unwrap() error { return e.Err }

func fieldError(field, format string, args ...any) error {
	return &FieldError{Field: field, Err: fmt.Errorf(format, args...)}
}

var errMissing = errors.New("is missing")

// ParseTargetInfo reads the JSON form. Unknown keys are ignored. Every error is a
// *FieldError, or says that the text is not a JSON object. Stricter than the SDK,
// which takes "-1" and "12xyz" for numbers and text after the object.
func ParseTargetInfo(s string) (TargetInfo, error) {
	var top map[string]json.RawMessage
	if err := json.Unmarshal([]byte(s), &top); err != nil {
		return TargetInfo{}, fmt.Errorf("target info is not a JSON object: %w", err)
	}
	if top == nil {
		return TargetInfo{}, errors.New("target info is not a JSON object: null")
	}
	var t TargetInfo
	var err error
	if t.AddressFormat, err = addressFormat(top); err != nil {
		return TargetInfo{}, err
	}
	if t.Address, err = fabricAddress(top); err != nil {
		return TargetInfo{}, err
	}
	if t.ID, err = decimal(top, "", "id"); err != nil {
		return TargetInfo{}, err
	}
	if t.Provider, err = text(top, "", "provider"); err != nil {
		return TargetInfo{}, err
	}
	switch t.Provider {
	case "tcp", "verbs", "efa", "shm":
	default:
		t.Provider = "unknown"
	}
	if t.Regions, err = regions(top); err != nil {
		return TargetInfo{}, err
	}
	if t.Bounce, err = bounce(top); err != nil {
		return TargetInfo{}, err
	}
	t.Native, t.Secret = native(top)
	return t, nil
}

func addressFormat(top map[string]json.RawMessage) (uint32, error) {
	raw, ok := top["addressFormat"]
	if !ok {
		return 0, &FieldError{"addressFormat", errMissing}
	}
	var f uint32
	if err := json.Unmarshal(raw, &f); err != nil {
		return 0, fieldError("addressFormat", "%s is not a number", clip(raw))
	}
	switch f {
	case formatSockaddr, formatIPv4, formatIPv6, formatInfiniband, formatString, formatEFA, formatSockaddrIP:
		return f, nil
	}
	return 0, fieldError("addressFormat", "%d is not an address format", f)
}

func fabricAddress(top map[string]json.RawMessage) ([]byte, error) {
	s, err := text(top, "", "fabricAddress")
	if err != nil {
		return nil, err
	}
	b, err := base64.StdEncoding.Strict().DecodeString(s)
	if err != nil {
		return nil, &FieldError{"fabricAddress", err}
	}
	if len(b) == 0 {
		return nil, fieldError("fabricAddress", "is empty")
	}
	return b, nil
}

func regions(top map[string]json.RawMessage) ([]Region, error) {
	raw, ok := top["regions"]
	if !ok {
		return nil, &FieldError{"regions", errMissing}
	}
	var list []map[string]json.RawMessage
	if err := json.Unmarshal(raw, &list); err != nil || list == nil {
		return nil, fieldError("regions", "%s is not an array of objects", clip(raw))
	}
	if len(list) > maxRegions {
		return nil, fieldError("regions", "%d regions, at most %d can be addressed", len(list), maxRegions)
	}
	out := make([]Region, len(list))
	for i, m := range list {
		name := "regions[" + strconv.Itoa(i) + "]."
		var err error
		if out[i].Addr, err = decimal(m, name, "addr"); err != nil {
			return nil, err
		}
		if out[i].Len, err = decimal(m, name, "len"); err != nil {
			return nil, err
		}
		if out[i].RKey, err = decimal(m, name, "rkey"); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func bounce(top map[string]json.RawMessage) (*Bounce, error) {
	raw, ok := top["bounceBufferInfo"]
	if !ok {
		return nil, nil
	}
	var m map[string]json.RawMessage
	if err := json.Unmarshal(raw, &m); err != nil || m == nil {
		return nil, fieldError("bounceBufferInfo", "%s is not an object", clip(raw))
	}
	var b Bounce
	var err error
	if b.EntryCount, err = decimal(m, "bounceBufferInfo.", "entryCount"); err != nil {
		return nil, err
	}
	if b.EntrySize, err = decimal(m, "bounceBufferInfo.", "entrySize"); err != nil {
		return nil, err
	}
	return &b, nil
}

// nativeKey is this package's own key. What is wrong with it only means that the
// target is treated like any other.
const nativeKey = "mxlFabricsAgent"

func native(top map[string]json.RawMessage) (receives uint32, s secret) {
	var m struct {
		Receives uint32 `json:"receives"`
		Secret   string `json:"secret"`
	}
	raw, ok := top[nativeKey]
	if !ok || json.Unmarshal(raw, &m) != nil {
		return 0, s
	}
	if b, err := hex.DecodeString(m.Secret); err == nil && len(b) == len(s) {
		s = secret(b)
	}
	return m.Receives, s
}

func text(m map[string]json.RawMessage, prefix, key string) (string, error) {
	raw, ok := m[key]
	if !ok {
		return "", &FieldError{prefix + key, errMissing}
	}
	var s *string
	if err := json.Unmarshal(raw, &s); err != nil || s == nil {
		return "", fieldError(prefix+key, "%s is not a string", clip(raw))
	}
	return *s, nil
}

func decimal(m map[string]json.RawMessage, prefix, key string) (uint64, error) {
	s, err := text(m, prefix, key)
	if err != nil {
		return 0, err
	}
	v, err := strconv.ParseUint(s, 10, 64)
	if err != nil {
		return 0, fieldError(prefix+key, "%q is not a decimal number below 2^64", clip([]byte(s)))
	}
	return v, nil
}

func clip(b []byte) string {
	if len(b) > 40 {
		return string(b[:40]) + "…"
	}
	return string(b)
}

// String is the JSON form: keys sorted, no spaces, "/" escaped as "\/", as the SDK
// writes it.
func (t TargetInfo) String() string {
	var b strings.Builder
	b.Grow(256 + 80*len(t.Regions))
	fmt.Fprintf(&b, `{"addressFormat":%d,`, t.AddressFormat)
	if t.Bounce != nil {
		fmt.Fprintf(&b, `"bounceBufferInfo":{"entryCount":"%d","entrySize":"%d"},`, t.Bounce.EntryCount, t.Bounce.EntrySize)
	}
	address := strings.ReplaceAll(base64.StdEncoding.EncodeToString(t.Address), "/", `\/`)
	fmt.Fprintf(&b, `"fabricAddress":"%s","id":"%d",`, address, t.ID)
	if t.Native > 0 {
		fmt.Fprintf(&b, `"%s":{"receives":%d`, nativeKey, t.Native)
		if secret(t.Secret).given() {
			fmt.Fprintf(&b, `,"secret":"%x"`, t.Secret)
		}
		b.WriteString("},")
	}
	fmt.Fprintf(&b, `"provider":"%s","regions":[`, t.Provider)
	for i, r := range t.Regions {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `{"addr":"%d","len":"%d","rkey":"%d"}`, r.Addr, r.Len, r.RKey)
	}
	b.WriteString("]}")
	return b.String()
}

// AddrPort is the address as IP address and port. The error names fabricAddress or
// addressFormat.
func (t TargetInfo) AddrPort() (netip.AddrPort, error) {
	switch t.AddressFormat {
	case formatIPv4, formatIPv6, formatSockaddr, formatSockaddrIP:
		ap, err := decodeSockaddr(t.Address)
		if err != nil {
			return netip.AddrPort{}, &FieldError{"fabricAddress", err}
		}
		if t.AddressFormat == formatIPv4 && !ap.Addr().Is4() || t.AddressFormat == formatIPv6 && ap.Addr().Is4() {
			return netip.AddrPort{}, fieldError("fabricAddress", "%s is not of address format %d", ap, t.AddressFormat)
		}
		return ap, nil
	}
	return netip.AddrPort{}, fieldError("addressFormat", "%d has no IP address", t.AddressFormat)
}
