package config

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Export is the effective configuration as a flat object: every value a
// string, PEERS an array and NMOS_TAGS an object, both names of an alias
// pair. Settings that wait for a restart are in it with their new value.
func (s *Store) Export() map[string]any {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make(map[string]any, len(keys)+2)
	for _, k := range keys {
		if k.EnvironmentOnly {
			continue
		}
		var value any = k.normal(s.values[k.Name])
		if k.kind == document {
			value = k.document(s.values[k.Name])
		}
		out[k.Name] = value
		if k.Alias != "" {
			out[k.Alias] = value
		}
	}
	return out
}

// ExportText is Export as indented JSON.
func (s *Store) ExportText() ([]byte, error) {
	text, err := json.MarshalIndent(s.Export(), "", "  ")
	if err != nil {
		return nil, fmt.Errorf("encode the configuration: %w", err)
	}
	return append(text, '\n'), nil
}

// Pair is a setting and its value as text.
type Pair struct{ Name, Value string }

// Pairs is Export in byte order of the names, documents as compact JSON.
func (s *Store) Pairs() []Pair {
	object := s.Export()
	list := make([]Pair, 0, len(object))
	for _, name := range slices.Sorted(maps.Keys(object)) {
		value, isText := object[name].(string)
		if !isText {
			value = compact(object[name])
		}
		list = append(list, Pair{name, value})
	}
	return list
}

// Environment is Export as KEY=value lines in byte order of the keys, of which an
// agent can be started again: an AGENT_CONFIG_FILE that nobody has given has no value
// here, for one that is given must exist.
func (s *Store) Environment() string {
	given := s.environment["AGENT_CONFIG_FILE"] != ""
	var b strings.Builder
	for _, p := range s.Pairs() {
		if p.Name == "AGENT_CONFIG_FILE" && !given {
			p.Value = ""
		}
		// One setting is one line, whatever somebody wrote into a label.
		fmt.Fprintf(&b, "%s=%s\n", p.Name, strings.NewReplacer("\r", " ", "\n", " ").Replace(p.Value))
	}
	return b.String()
}

// Origins is the layer each shown setting comes from, under every name of it.
func (s *Store) Origins() map[string]Origin {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make(map[string]Origin, len(keys)+2)
	for _, k := range keys {
		if k.EnvironmentOnly {
			continue
		}
		out[k.Name] = s.origins[k.Name]
		if k.Alias != "" {
			out[k.Alias] = s.origins[k.Name]
		}
	}
	return out
}
