package config

import (
	"encoding/json"
	"strconv"
	"strings"
)

// normal brings a checked value into the form it is shown in: true and false,
// plain decimal numbers, comma lists without blanks, compact JSON.
func (k Key) normal(value string) string {
	switch k.kind {
	case flag:
		b, err := parseBool(value)
		if err != nil {
			return value
		}
		return strconv.FormatBool(b)
	case number:
		n, err := integer(value)
		if err != nil {
			return value
		}
		return strconv.FormatInt(n, 10)
	case list:
		var items List
		if err := items.UnmarshalText([]byte(value)); err != nil {
			return value
		}
		return strings.Join(items, ",")
	case document:
		return compact(k.document(value))
	}
	return value
}

// compact is a decoded document as JSON on one line. Peers and Tags hold only
// strings, which always encode.
func compact(document any) string {
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(document); err != nil {
		return ""
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// document is the decoded value of a setting whose text is JSON. Empty
// members of PEERS are left out.
func (k Key) document(value string) any {
	if k.Name == "NMOS_TAGS" {
		tags := Tags{}
		if err := tags.UnmarshalText([]byte(value)); err != nil || tags == nil {
			return Tags{}
		}
		return tags
	}
	peers := Peers{}
	if err := peers.UnmarshalText([]byte(value)); err != nil || peers == nil {
		return Peers{}
	}
	return peers
}
