package nmosstandin

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"
)

const connectionRoot = "/x-nmos/connection"

// connection answers the IS-05 Connection API (NMOS reference §9).
func (n *Node) connection(req *http.Request) reply {
	parts, ok := segments(req.URL.Path, connectionRoot)
	if !ok {
		return notFound()
	}
	if len(parts) == 0 {
		versions := []string{}
		for _, version := range n.options.Connection {
			versions = append(versions, version+"/")
		}
		return found(versions)
	}
	version := parts[0]
	if !slices.Contains(n.options.Connection, version) {
		return notFound()
	}
	hidden := version != "v1.2" && !n.options.AnyVersion
	switch rest := parts[1:]; {
	case len(rest) == 0:
		return found([]string{"bulk/", "single/"})
	case rest[0] == "bulk":
		if readable(req) && len(rest) == 2 {
			return notAllowed(http.MethodPost, http.MethodOptions)
		}
		return refuse(http.StatusNotImplemented, "bulk requests are not offered")
	case rest[0] != "single" || len(rest) > 4:
		return notFound()
	case len(rest) == 1:
		return found([]string{"senders/", "receivers/"})
	case rest[1] == "senders" && len(rest) == 2:
		return found([]string{})
	case rest[1] != "receivers":
		return notFound()
	case len(rest) == 2:
		list := []string{}
		for _, r := range n.receivers {
			if !hidden {
				list = append(list, r.ID+"/")
			}
		}
		return found(list)
	default:
		i := slices.IndexFunc(n.receivers, func(r *Receiver) bool { return r.ID == rest[2] })
		if i < 0 {
			return notFound()
		}
		if hidden {
			answer := refuse(http.StatusConflict, "%s request is not permitted for a v1.2 resource", version)
			answer.header = map[string]string{"Location": connectionRoot + "/v1.2/" + strings.Join(rest, "/")}
			return answer
		}
		if len(rest) == 3 {
			return found([]string{"constraints/", "staged/", "active/", "transporttype/"})
		}
		return n.receivers[i].answer(req, rest[3])
	}
}

func (r *Receiver) answer(req *http.Request, what string) reply {
	if what == "staged" && req.Method == http.MethodPatch {
		return r.patch(req)
	}
	var body any
	switch what {
	case "constraints":
		domain := map[string]any{}
		if own := r.node.options.OwnDomain; own != "" {
			domain["enum"] = []string{own}
		}
		body = []any{map[string]any{"mxl_domain_id": domain, "mxl_flow_id": map[string]any{}}}
	case "transporttype":
		body = MXLTransport
	case "staged":
		body = r.state(false)
	case "active":
		body = r.state(true)
	default:
		return notFound()
	}
	if !readable(req) {
		return notAllowed(http.MethodGet, http.MethodHead)
	}
	return found(body)
}

// patchRequest is the body of PATCH /staged; absent members stay as they are.
type patchRequest struct {
	MasterEnable *bool `json:"master_enable"`
	Activation   *struct {
		Mode          *string `json:"mode"`
		RequestedTime *string `json:"requested_time"`
	} `json:"activation"`
	SenderID        json.RawMessage              `json:"sender_id"`
	TransportFile   json.RawMessage              `json:"transport_file"`
	TransportParams []map[string]json.RawMessage `json:"transport_params"`
}

// merge applies a patch to a staged state without touching the original.
func (p patchRequest) merge(staged endpointState) (endpointState, error) {
	if p.MasterEnable != nil {
		staged.MasterEnable = *p.MasterEnable
	}
	if p.SenderID != nil {
		staged.SenderID = nil
		if err := json.Unmarshal(p.SenderID, &staged.SenderID); err != nil {
			return staged, fmt.Errorf("sender_id: %w", err)
		}
		if staged.SenderID != nil && !idPattern.MatchString(*staged.SenderID) {
			return staged, fmt.Errorf("sender_id %q is not an id", *staged.SenderID)
		}
	}
	if p.TransportFile != nil {
		var file transportFile
		if err := json.Unmarshal(p.TransportFile, &file); err != nil || file.Data != nil || file.Type != nil {
			return staged, errors.New("transport_file: MXL has none")
		}
	}
	if p.TransportParams == nil {
		return staged, nil
	}
	if len(p.TransportParams) != 1 {
		return staged, fmt.Errorf("transport_params has %d legs, MXL has 1", len(p.TransportParams))
	}
	next := staged.TransportParams[0]
	for name, raw := range p.TransportParams[0] {
		var id *string
		if err := json.Unmarshal(raw, &id); err != nil {
			return staged, fmt.Errorf("%s: %w", name, err)
		}
		switch {
		case name != "mxl_domain_id" && name != "mxl_flow_id":
			return staged, fmt.Errorf("transport_params: unknown parameter %q", name)
		case id == nil, mxlIDPattern.MatchString(*id), *id == "auto" && name == "mxl_domain_id":
		default:
			return staged, fmt.Errorf("%s %q is not an MXL id", name, *id)
		}
		if name == "mxl_domain_id" {
			next.DomainID = id
		} else {
			next.FlowID = id
		}
	}
	staged.TransportParams = []leg{next}
	return staged, nil
}

// due says when an activation is to happen: the mode's rules of NMOS reference
// §9.4. scheduled is false for activate_immediate.
func due(mode string, requested *string, now time.Time) (at time.Time, scheduled bool, err error) {
	if mode == "activate_immediate" {
		return now, false, nil
	}
	if mode != "activate_scheduled_absolute" && mode != "activate_scheduled_relative" {
		return now, false, fmt.Errorf("activation.mode %q", mode)
	}
	if requested == nil {
		return now, false, errors.New("activation.requested_time is missing")
	}
	when, err := parseStamp(*requested)
	if err != nil {
		return now, false, fmt.Errorf("activation.requested_time: %w", err)
	}
	if mode == "activate_scheduled_relative" {
		return now.Add(time.Duration(when)), true, nil
	}
	return now.Add(time.Duration(when - stampOf(now))), true, nil
}

func (r *Receiver) patch(req *http.Request) reply {
	var raw json.RawMessage
	if refused := jsonObject(req, &raw); refused != nil {
		return *refused
	}
	var patch patchRequest
	strict := json.NewDecoder(bytes.NewReader(raw))
	strict.DisallowUnknownFields()
	if err := strict.Decode(&patch); err != nil {
		return refuse(http.StatusBadRequest, "%v", err)
	}
	now := time.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.pending != nil {
		if patch.Activation == nil || patch.Activation.Mode != nil {
			return refuse(http.StatusLocked, "a scheduled activation is pending")
		}
		r.unschedule()
	}
	staged, err := patch.merge(r.staged)
	if err != nil {
		return refuse(http.StatusBadRequest, "%v", err)
	}
	if patch.Activation == nil || patch.Activation.Mode == nil {
		r.staged = staged
		return found(r.staged)
	}
	mode, requested := *patch.Activation.Mode, patch.Activation.RequestedTime
	at, scheduled, err := due(mode, requested, now)
	if err != nil {
		return refuse(http.StatusBadRequest, "%v", err)
	}
	before := r.staged
	r.staged = staged
	how := activation{Mode: &mode, RequestedTime: requested}
	if !scheduled {
		if err := r.activate(now, how); err != nil {
			r.staged = before
			return refuse(http.StatusInternalServerError, "%v", err)
		}
		answer := r.staged
		answer.TransportParams = r.active.TransportParams
		answer.Activation = r.active.Activation
		return found(answer)
	}
	r.staged.Activation = how
	r.staged.Activation.ActiveTime = pointer(stampOf(at).String())
	var timer *time.Timer
	timer = time.AfterFunc(at.Sub(now), func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.pending != timer { // cancelled meanwhile
			return
		}
		r.pending = nil
		if err := r.activate(time.Now(), how); err != nil {
			r.node.own.options.Log.Warn("activation_failed", "receiver_id", r.ID, "error", err.Error())
		}
	})
	r.pending = timer
	return reply{status: http.StatusAccepted, body: r.staged}
}
