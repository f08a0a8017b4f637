package nmosstandin

import (
	"bytes"
	"encoding/json"
	"fmt"
	"sort"
	"time"
)

// kind is a resource type in its plural form, as in paths and topics.
type kind string

const (
	nodes     kind = "nodes"
	devices   kind = "devices"
	sources   kind = "sources"
	flows     kind = "flows"
	senders   kind = "senders"
	receivers kind = "receivers"
)

// kinds in registration order (NMOS reference §4.1).
var kinds = [...]kind{nodes, devices, sources, flows, senders, receivers}

// kindOf maps the singular type of a registration to its plural.
func kindOf(singular string) (kind, bool) {
	for _, k := range kinds {
		if string(k) == singular+"s" {
			return k, true
		}
	}
	return "", false
}

func isKind(plural string) bool {
	for _, k := range kinds {
		if string(k) == plural {
			return true
		}
	}
	return false
}

// parentOf names the attribute and kind a resource hangs on; nodes have none.
func parentOf(k kind) (attribute string, parent kind) {
	switch k {
	case nodes:
		return "", ""
	case devices:
		return "node_id", nodes
	default:
		return "device_id", devices
	}
}

type resource struct {
	kind    kind
	id      string
	doc     map[string]any
	raw     json.RawMessage
	version stamp
	created stamp
	updated stamp
	health  time.Time // nodes: last registration or heartbeat
}

// change is one step of one resource; pre and post are nil where there is none.
type change struct {
	kind      kind
	id        string
	pre, post *resource
	at        stamp
}

// store holds what is registered. It is not safe for concurrent use: the
// registry that owns it holds its lock around every call.
type store struct {
	byKind map[kind]map[string]*resource
	newest stamp
	emit   func(change)
	// repeats accepts changed content under an unchanged version, which
	// nmos-cpp refuses: nodes with coarse versions need it.
	repeats bool
}

func newStore(emit func(change)) *store {
	s := &store{byKind: map[kind]map[string]*resource{}, emit: emit}
	for _, k := range kinds {
		s.byKind[k] = map[string]*resource{}
	}
	return s
}

// next is a time stamp later than every one given out before: pages are cut by
// time stamps, so two resources never share one.
func (s *store) next(now time.Time) stamp {
	at := max(stampOf(now), s.newest+1)
	s.newest = at
	return at
}

// put adds or updates a resource whose document has passed checkResource.
func (s *store) put(k kind, doc map[string]any, now time.Time) (r *resource, created bool, err error) {
	id := doc["id"].(string)
	version, err := parseStamp(doc["version"].(string))
	if err != nil {
		return nil, false, err
	}
	raw, err := json.Marshal(doc)
	if err != nil {
		return nil, false, err
	}
	for _, other := range kinds {
		if other != k && s.byKind[other][id] != nil {
			return nil, false, fmt.Errorf("id %s is registered under %s", id, other)
		}
	}
	if attribute, parent := parentOf(k); parent != "" {
		if of, _ := doc[attribute].(string); s.byKind[parent][of] == nil {
			return nil, false, fmt.Errorf("%s %q is not registered", attribute, of)
		}
	}
	old := s.byKind[k][id]
	if old != nil {
		if version < old.version {
			return nil, false, fmt.Errorf("request for registration with version %v conflicts with the existing registration with version %v", version, old.version)
		}
		if version == old.version && !s.repeats && !bytes.Equal(raw, old.raw) {
			return nil, false, fmt.Errorf("request for registration changes the resource without changing version %v", version)
		}
	}
	at := s.next(now)
	r = &resource{kind: k, id: id, doc: doc, raw: raw, version: version, created: at, updated: at, health: now}
	if old != nil {
		r.created = old.created
	}
	s.byKind[k][id] = r
	s.emit(change{kind: k, id: id, pre: old, post: r, at: at})
	return r, old == nil, nil
}

// remove drops a resource and everything that hangs on it, children first.
func (s *store) remove(k kind, id string, now time.Time) bool {
	r := s.byKind[k][id]
	if r == nil {
		return false
	}
	for _, childKind := range kinds {
		attribute, parent := parentOf(childKind)
		if parent != k {
			continue
		}
		for childID, child := range s.byKind[childKind] {
			if child.doc[attribute] == id {
				s.remove(childKind, childID, now)
			}
		}
	}
	delete(s.byKind[k], id)
	s.emit(change{kind: k, id: id, pre: r, at: s.next(now)})
	return true
}

// heartbeat renews a node; false when it is not registered.
func (s *store) heartbeat(id string, now time.Time) bool {
	r := s.byKind[nodes][id]
	if r == nil {
		return false
	}
	r.health = now
	return true
}

// expire collects nodes whose last heartbeat is older than the limit and
// returns their ids. A node for which keep is true is left.
func (s *store) expire(now time.Time, limit time.Duration, keep func(id string) bool) (collected []string) {
	for id, r := range s.byKind[nodes] {
		if now.Sub(r.health) > limit && !keep(id) {
			collected = append(collected, id)
		}
	}
	sort.Strings(collected)
	for _, id := range collected {
		s.remove(nodes, id, now)
	}
	return collected
}

// matching lists a kind's resources that satisfy the filter, oldest first by
// update time (or creation time).
func (s *store) matching(k kind, filter filter, byCreation bool) []*resource {
	list := make([]*resource, 0, len(s.byKind[k]))
	for _, r := range s.byKind[k] {
		if filter.matches(r.doc) {
			list = append(list, r)
		}
	}
	sort.Slice(list, func(i, j int) bool { return list[i].stamp(byCreation) < list[j].stamp(byCreation) })
	return list
}

func (r *resource) stamp(byCreation bool) stamp {
	if byCreation {
		return r.created
	}
	return r.updated
}
