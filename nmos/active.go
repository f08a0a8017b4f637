package nmos

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
)

// activeFacts is what /active says that matters: the MXL leg and the switch.
type activeFacts struct {
	masterEnable bool
	domainID     string // empty: unset
	flowID       string
}

// parseActive reads an IS-05 /active document. null, "" and "auto" are unset
// (NMOS reference §9.4). An enabled receiver whose document does not say what it
// is connected to (no leg, no MXL member, an id that is none) is an error, so
// that the last good answer stays: a malformed document must not end a
// replication. On a disabled one that is unset, and an id that is none comes back
// as a reason. sender_id and transport_file play no part for MXL.
func parseActive(body []byte) (activeFacts, []string, error) {
	var doc struct {
		MasterEnable    *bool             `json:"master_enable"`
		TransportParams []json.RawMessage `json:"transport_params"`
	}
	if err := decode(body, &doc); err != nil {
		return activeFacts{}, nil, fmt.Errorf("active: %w", err)
	}
	if doc.MasterEnable == nil {
		return activeFacts{}, nil, errors.New("active: master_enable is missing")
	}
	a := activeFacts{masterEnable: *doc.MasterEnable}
	if len(doc.TransportParams) == 0 {
		if a.masterEnable {
			return activeFacts{}, nil, errors.New("active: transport_params is empty or missing on an enabled receiver")
		}
		return a, nil, nil
	}
	var leg struct {
		Domain json.RawMessage `json:"mxl_domain_id"`
		Flow   json.RawMessage `json:"mxl_flow_id"`
	}
	if err := decode(doc.TransportParams[0], &leg); err != nil {
		return activeFacts{}, nil, fmt.Errorf("active: transport_params[0]: %w", err)
	}
	if a.masterEnable && leg.Domain == nil && leg.Flow == nil {
		return activeFacts{}, nil, errors.New("active: transport_params[0] has neither mxl_domain_id nor mxl_flow_id on an enabled receiver")
	}
	var reasons []string
	for _, p := range [...]struct {
		name string
		raw  json.RawMessage
		into *string
	}{{"mxl_domain_id", leg.Domain, &a.domainID}, {"mxl_flow_id", leg.Flow, &a.flowID}} {
		id, err := parseParameter(p.raw)
		if err != nil {
			reasons = append(reasons, fmt.Sprintf("active: %s: %v", p.name, err))
		}
		*p.into = id
	}
	if a.masterEnable && len(reasons) > 0 {
		return activeFacts{}, nil, errors.New(strings.Join(reasons, "; "))
	}
	return a, reasons, nil
}

func parseParameter(raw json.RawMessage) (string, error) {
	if len(raw) == 0 || string(raw) == "null" {
		return "", nil
	}
	var s string
	if err := json.Unmarshal(raw, &s); err != nil {
		return "", fmt.Errorf("%s is not a string", clip(string(raw)))
	}
	if s == "" || s == "auto" {
		return "", nil
	}
	return foreignID(s)
}

// activeResult is the outcome of one read.
type activeResult struct {
	id      string
	url     string // that answered, or the last one tried
	body    string
	facts   activeFacts
	reasons []string
	err     error
	// answered: there is somebody at the host, whatever the answer is worth.
	answered bool
}

// lastAnswer is the last good answer: most are the same again, and an equal body
// is not parsed twice.
type lastAnswer struct {
	url   string
	body  string
	facts activeFacts
}

// keptBody is the largest answer kept for comparison; real ones are ~400 bytes.
const keptBody = 4 << 10

// maxActiveTries bounds the requests of one read: the known URL, the fall-back
// version, one other href, one Location.
const maxActiveTries = 4

// activeURL joins a control href and a receiver id.
func activeURL(href, receiverID string) string {
	return strings.TrimRight(href, "/") + "/single/receivers/" + receiverID + "/active"
}

// readActive reads /active at the first URL that answers: the one that worked
// last, then the device's controls in order (v1.2, v1.1, others). A 409 names
// the right version in its Location (NMOS reference §9.2). After a time-out or a
// refused connection further URLs of the same host are not tried.
func readActive(ctx context.Context, c *http.Client, receiverID string, last lastAnswer, controls []control) activeResult {
	res := activeResult{id: receiverID, err: errors.New("device has no usable connection control")}
	var queue []string
	add := func(u string) {
		for _, q := range queue {
			if q == u {
				return
			}
		}
		queue = append(queue, u)
	}
	for _, ctl := range controls {
		if u := activeURL(ctl.href, receiverID); u == last.url {
			add(u) // only while the device still offers it
		}
	}
	for _, ctl := range controls {
		add(activeURL(ctl.href, receiverID))
	}
	silent := map[string]bool{}
	tries := 0
	res.answered = len(queue) == 0 // nobody was asked
	for i := 0; i < len(queue) && tries < maxActiveTries && ctx.Err() == nil; i++ {
		target := queue[i]
		if silent[hostOf(target)] {
			continue
		}
		tries++
		body, _, err := get(ctx, c, target)
		res.answered = res.answered || err == nil || statusOf(err) != 0 || errors.Is(err, ErrTooLarge)
		if err == nil {
			if last.body != "" && string(body) == last.body {
				res.url, res.body, res.facts, res.err = target, last.body, last.facts, nil
				return res
			}
			if res.facts, res.reasons, err = parseActive(body); err == nil {
				res.url, res.err = target, nil
				if len(body) <= keptBody {
					res.body = string(body)
				}
				return res
			}
		}
		if i == 0 || statusOf(res.err) == 0 { // the best version's answer tells most
			res.url, res.err = target, err
		}
		se, ok := errors.AsType[*StatusError](err)
		switch {
		case !ok:
			silent[hostOf(target)] = true
		case se.Code == http.StatusConflict && se.Location != "":
			if u := sameHostLocation(target, se.Location); u != "" {
				queue = append(queue[:i+1], append([]string{u}, queue[i+1:]...)...)
			}
		}
	}
	return res
}

func hostOf(target string) string {
	u, err := url.Parse(target)
	if err != nil {
		return ""
	}
	return u.Host
}

// sameHostLocation resolves a Location against the URL that gave it; another
// host or scheme is not followed.
func sameHostLocation(target, location string) string {
	base, err := url.Parse(target)
	if err != nil || base.Host == "" {
		return ""
	}
	ref, err := url.Parse(location)
	if err != nil {
		return ""
	}
	u := base.ResolveReference(ref)
	if u.Scheme != base.Scheme || u.Host != base.Host || u.User != nil || u.String() == target {
		return ""
	}
	return u.String()
}
