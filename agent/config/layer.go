package config

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Origin is the layer a value comes from.
type Origin string

// The three layers, strongest first.
const (
	OriginEnvironment Origin = "env"
	OriginFile        Origin = "file"
	OriginDefault     Origin = "default"
)

// Warning is something about a configuration that works and should be said
// in the log once: the event name and its fields.
type Warning struct {
	Event  string
	Fields map[string]string
}

// layer is the settings of one layer under their canonical names.
type layer map[string]string

// environmentLayer reads KEY=value pairs. Variables that are no settings are
// ignored.
func environmentLayer(environ []string) (layer, []Warning, error) {
	named := make(map[string]string)
	for _, pair := range environ {
		name, value, ok := strings.Cut(pair, "=")
		if !ok {
			continue
		}
		named[name] = value
	}
	return canonical(named)
}

// canonical maps names and aliases to canonical names. Both names of a pair
// may be set when they say the same; one that is empty beside the other one is not
// set, as ${NAME:-} of a Compose file leaves it.
func canonical(named map[string]string) (layer, []Warning, error) {
	var warnings []Warning
	for name, value := range named {
		if reason, bad := rejectedKeys[name]; bad {
			return nil, nil, &Error{Key: name, Value: value, Err: fmt.Errorf("is no longer a setting, %s", reason)}
		}
		if strings.HasPrefix(name, ignoredPrefix) && value != "off" {
			warnings = append(warnings, Warning{Event: "transfer_pacing_removed",
				Fields: map[string]string{"value": value, "detail": name + " has no effect"}})
		}
	}
	l := make(layer)
	for _, k := range keys {
		value, set := named[k.Name]
		other, otherSet := named[k.Alias]
		if k.Alias != "" && otherSet {
			if value != "" && other != "" && value != other {
				return nil, nil, &Error{Key: k.Name, Value: value, Err: fmt.Errorf("and its alias %s=%q differ", k.Alias, other)}
			}
			value, set = cmp.Or(value, other), true
		}
		if set {
			l[k.Name] = value
		}
	}
	return l, warnings, nil
}

// parseObject reads a flat JSON object, keeping every value as it was written.
func parseObject(text []byte) (map[string]json.RawMessage, error) {
	dec := json.NewDecoder(bytes.NewReader(text))
	var object map[string]json.RawMessage
	if err := dec.Decode(&object); err != nil {
		return nil, fmt.Errorf("must be a JSON object: %w", err)
	}
	if object == nil {
		return nil, errors.New("must be a JSON object, not null")
	}
	if len(bytes.TrimSpace(text[dec.InputOffset():])) != 0 {
		return nil, errors.New("has text after the JSON object")
	}
	return object, nil
}

// fileLayer turns a file's object into settings. Names that are no settings
// stay in the file and mean nothing but a warning; a setting that only the
// environment may open is ignored (contract, "Test hook: rebuild one mirror"),
// and so is one that says where the file is.
func fileLayer(object map[string]json.RawMessage) (layer, []Warning, error) {
	var ignored []Warning
	named := make(map[string]string)
	for _, name := range slices.Sorted(maps.Keys(object)) {
		raw := object[name]
		_, rejected := rejectedKeys[name]
		k, known := Lookup(name)
		switch {
		case rejected || strings.HasPrefix(name, ignoredPrefix):
		case !known:
			ignored = append(ignored, keyIgnored(name, "is not a setting"))
			continue
		case k.EnvironmentOnly:
			ignored = append(ignored, keyIgnored(name, "can only be set by the environment"))
			continue
		case !k.inFile():
			continue
		}
		value, err := valueText(raw)
		if err != nil {
			return nil, nil, &Error{Key: name, Value: string(raw), Err: err}
		}
		// As text these would be a list of one odd item, or a label with brackets.
		if start := bytes.TrimSpace(raw)[0]; known && k.kind != document && (start == '[' || start == '{') {
			return nil, nil, &Error{Key: name, Value: value, Err: errors.New("must be a string, a number or a boolean; lists are separated by commas")}
		}
		named[name] = value
	}
	l, warnings, err := canonical(named)
	return l, append(ignored, warnings...), err
}

func keyIgnored(name, reason string) Warning {
	return Warning{Event: "config_key_ignored", Fields: map[string]string{"key": name, "reason": reason}}
}

// valueText is the text of a JSON value: strings as they are, numbers and
// booleans printed, arrays and objects compact.
func valueText(raw json.RawMessage) (string, error) {
	trimmed := bytes.TrimSpace(raw)
	if len(trimmed) == 0 {
		return "", errors.New("has no value")
	}
	switch trimmed[0] {
	case '"':
		var s string
		if err := json.Unmarshal(trimmed, &s); err != nil {
			return "", fmt.Errorf("is not a JSON string: %w", err)
		}
		if strings.ContainsRune(s, 0) {
			return "", errors.New("must not contain a NUL character, which no environment and no path can have")
		}
		return s, nil
	case '{', '[':
		var compact bytes.Buffer
		if err := json.Compact(&compact, trimmed); err != nil {
			return "", fmt.Errorf("is not JSON: %w", err)
		}
		return compact.String(), nil
	case 'n':
		return "", errors.New("must not be null")
	case 't', 'f':
		return string(trimmed), nil
	}
	return numberText(string(trimmed)), nil
}

// numberText prints a JSON number without exponent or fraction when it is a
// whole one, as writers that know only doubles print 2e3 or 2000.0.
func numberText(literal string) string {
	if _, err := strconv.ParseInt(literal, 10, 64); err == nil {
		return literal
	}
	f, err := strconv.ParseFloat(literal, 64)
	if err != nil || f != math.Trunc(f) || math.Abs(f) > 1<<53 {
		return literal
	}
	return strconv.FormatInt(int64(f), 10)
}
