package nmosstandin

import (
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"
)

// Faults is how the stand-in misbehaves. The zero value is good behaviour.
type Faults struct {
	// Rules are tried in order; the first that fits a request applies.
	Rules []Rule `json:"rules,omitempty"`
	// Sockets is about Query API WebSockets.
	Sockets SocketFaults `json:"sockets"`
	// RefuseSubscriptions is the status POST /subscriptions is answered with
	// (501, 400, …); 0 grants them.
	RefuseSubscriptions int `json:"refuse_subscriptions,omitempty"`
}

// Rule spoils the answers to matching requests. What it does to the answer is
// applied in the order of the fields.
type Rule struct {
	Server  string   `json:"server,omitempty"`  // "registry", "query", "node"; empty: all
	Match   string   `json:"match,omitempty"`   // regular expression over the path; empty: all
	Methods []string `json:"methods,omitempty"` // empty: all
	Own     bool     `json:"own,omitempty"`     // hits requests of the stand-in's own nodes too
	Times   int      `json:"times,omitempty"`   // how often it applies; 0: always

	DelayMS int            `json:"delay_ms,omitempty"` // wait first
	Hang    bool           `json:"hang,omitempty"`     // no answer until the client or the fault goes
	Drop    bool           `json:"drop,omitempty"`     // close the connection without an answer
	Status  int            `json:"status,omitempty"`   // an error answer with this status
	Replace map[string]any `json:"replace,omitempty"`  // dotted member (in every element of a list) → value
	Remove  []string       `json:"remove,omitempty"`   // dotted members taken out
	Body    *string        `json:"body,omitempty"`     // this text as the body
	Pad     int            `json:"pad,omitempty"`      // so many blanks before the body
	Cut     int            `json:"cut,omitempty"`      // the body ends after so many bytes, Content-Length says so
	Break   int            `json:"break,omitempty"`    // the connection ends after so many bytes of the body
}

// SocketFaults spoils Query API WebSockets.
type SocketFaults struct {
	RefuseUpgrade int    `json:"refuse_upgrade,omitempty"` // status instead of 101
	Silent        bool   `json:"silent,omitempty"`         // connected, never a message
	DropAfter     int    `json:"drop_after,omitempty"`     // drop the connection inside the n-th message
	Garbage       string `json:"garbage,omitempty"`        // sent instead of every message
}

// ownAgent marks requests of the stand-in's own nodes.
const ownAgent = "nmos-standin-node"

type compiledRule struct {
	Rule
	pattern *regexp.Regexp
	left    int
}

// faultTable holds the faults in force.
type faultTable struct {
	mu      sync.Mutex
	faults  Faults
	rules   []*compiledRule
	changed chan struct{}
}

func newFaultTable() *faultTable { return &faultTable{changed: make(chan struct{})} }

func (t *faultTable) set(f Faults) error {
	rules := make([]*compiledRule, 0, len(f.Rules)+1)
	all := f.Rules
	if f.RefuseSubscriptions != 0 {
		all = append(slices.Clone(all), Rule{Server: "query", Match: "/subscriptions/?$", Methods: []string{http.MethodPost}, Status: f.RefuseSubscriptions})
	}
	for i, rule := range all {
		pattern, err := regexp.Compile(rule.Match)
		if err != nil {
			return fmt.Errorf("rules[%d].match: %w", i, err)
		}
		rules = append(rules, &compiledRule{Rule: rule, pattern: pattern, left: rule.Times})
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.faults, t.rules = f, rules
	close(t.changed) // lets go of whatever hangs
	t.changed = make(chan struct{})
	return nil
}

func (t *faultTable) current() Faults {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.faults
}

// match returns the rule for a request and a channel that is closed when the
// faults change; nil when the request is answered well.
func (t *faultTable) match(server string, r *http.Request) (*Rule, <-chan struct{}) {
	t.mu.Lock()
	defer t.mu.Unlock()
	own := r.UserAgent() == ownAgent
	for _, rule := range t.rules {
		if rule.Server != "" && rule.Server != server || own && !rule.Own ||
			len(rule.Methods) > 0 && !slices.Contains(rule.Methods, r.Method) ||
			!rule.pattern.MatchString(r.URL.Path) {
			continue
		}
		if rule.Times > 0 {
			if rule.left == 0 {
				continue
			}
			rule.left--
		}
		return &rule.Rule, t.changed
	}
	return nil, nil
}

// before does what a rule does instead of or ahead of the answer; done is true
// when nothing more is to be sent.
func (rule *Rule) before(w http.ResponseWriter, r *http.Request, released <-chan struct{}) (done bool) {
	if rule.DelayMS > 0 {
		delay := time.NewTimer(time.Duration(rule.DelayMS) * time.Millisecond)
		defer delay.Stop()
		select {
		case <-delay.C:
		case <-released:
		case <-r.Context().Done():
			return true
		}
	}
	if rule.Hang {
		select {
		case <-released:
		case <-r.Context().Done():
			return true
		}
	}
	if rule.Drop {
		panic(http.ErrAbortHandler)
	}
	return false
}

// spoil changes an answer.
func (rule *Rule) spoil(status int, body []byte) (int, []byte) {
	if rule.Status != 0 {
		status, body = rule.Status, encode(refuse(rule.Status, "as asked").body)
	}
	if len(rule.Remove) > 0 || len(rule.Replace) > 0 {
		var value any
		if json.Unmarshal(body, &value) == nil {
			for member, with := range rule.Replace {
				edit(value, strings.Split(member, "."), func(o map[string]any, key string) { o[key] = with })
			}
			for _, member := range rule.Remove {
				edit(value, strings.Split(member, "."), func(o map[string]any, key string) { delete(o, key) })
			}
			body = encode(value)
		}
	}
	if rule.Body != nil {
		body = []byte(*rule.Body)
	}
	if rule.Pad > 0 {
		body = append([]byte(strings.Repeat(" ", rule.Pad)), body...)
	}
	if rule.Cut > 0 {
		body = body[:min(rule.Cut, len(body))]
	}
	return status, body
}

// edit applies change to the last object of a dotted path, in every element of
// the arrays on the way.
func edit(value any, path []string, change func(object map[string]any, key string)) {
	switch v := value.(type) {
	case []any:
		for _, element := range v {
			edit(element, path, change)
		}
	case map[string]any:
		if len(path) == 1 {
			change(v, path[0])
			return
		}
		edit(v[path[0]], path[1:], change)
	}
}
