package config

import (
	"bytes"
	"encoding/json"
	"errors"
)

// Tags is the JSON object of NMOS_TAGS: tag name to values.
type Tags map[string][]string

// UnmarshalText implements encoding.TextUnmarshaler. An empty text is an
// empty object.
func (t *Tags) UnmarshalText(text []byte) error {
	*t = nil
	if len(bytes.TrimSpace(text)) == 0 {
		return nil
	}
	var tags map[string][]*string
	if err := json.Unmarshal(text, &tags); err != nil || tags == nil {
		return errors.New("must be a JSON object of string arrays")
	}
	*t = make(Tags, len(tags))
	for name, values := range tags {
		if values == nil {
			return errors.New("must be a JSON object of string arrays, and " + name + " is null")
		}
		list := make([]string, 0, len(values))
		for _, v := range values {
			if v == nil {
				return errors.New("must be a JSON object of string arrays, and " + name + " holds null")
			}
			list = append(list, *v)
		}
		(*t)[name] = list
	}
	return nil
}
