package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strconv"
	"time"

	"github.com/mxl-stack/mxl-fabrics-agent/tests/plant"
)

// outdated stands before an agent and takes from every message what an agent of
// release 1.3 lacks (agent API reference §21): head_index and our own members of
// the inventory, the 503 before the first scan, peer and mirror events, the boot
// id of a request, the origin's head of an answer, our key of a TargetInfo and
// every endpoint that came later. Whoever speaks through it speaks to such an
// agent.
func outdated(target *url.URL, dial http.RoundTripper) http.Handler {
	through := &httputil.ReverseProxy{
		Transport: dial,
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(target)
			if r.In.Method == http.MethodPost && r.In.URL.Path == "/api/v1/replications" {
				rewriteBody(&r.Out.Body, &r.Out.ContentLength, r.Out.Header, forgetRequest)
			}
		},
		ModifyResponse: func(r *http.Response) error {
			switch {
			case r.Request.URL.Path == "/api/v1/inventory":
				if r.StatusCode == http.StatusServiceUnavailable {
					r.StatusCode = http.StatusOK
					rewriteBody(&r.Body, &r.ContentLength, r.Header, func(any) any {
						return map[string]any{"revision": 0, "host_id": "unknown yet", "domains": []any{}}
					})
					return nil
				}
				rewriteBody(&r.Body, &r.ContentLength, r.Header, forgetInventory)
			case r.Request.URL.Path == "/api/v1/replications" && r.Request.Method == http.MethodPost:
				rewriteBody(&r.Body, &r.ContentLength, r.Header, forget("origin_head"))
			case r.Request.URL.Path == "/api/v1/info":
				rewriteBody(&r.Body, &r.ContentLength, r.Header, forget("providers", "mxl_root_tmpfs", "tai_offset_seconds"))
			}
			return nil
		},
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, _ error) {
			// Nobody behind: the connection ends as one that is refused.
			panic(http.ErrAbortHandler)
		},
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/api/v1/events":
			oldEvents(w, r)
		case "/api/v1/info", "/api/v1/inventory", "/api/v1/replications", "/livez", "/readyz", "/metrics", "/statusz", "/api/v1/peers":
			through.ServeHTTP(w, r)
		default:
			if r.Method == http.MethodDelete {
				through.ServeHTTP(w, r)
				return
			}
			http.NotFound(w, r)
		}
	})
}

// oldEvents is the stream of an older agent: an inventory event every pass, and
// silence after 200 of them.
func oldEvents(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/event-stream")
	flush := http.NewResponseController(w)
	for range 200 {
		if _, err := fmt.Fprint(w, "event: inventory\ndata: 1\n\n"); err != nil || flush.Flush() != nil {
			return
		}
		select {
		case <-r.Context().Done():
			return
		case <-time.After(200 * time.Millisecond):
		}
	}
	<-r.Context().Done()
}

// rewriteBody replaces a JSON body by what change makes of it; what is no JSON
// stays.
func rewriteBody(body *io.ReadCloser, length *int64, header http.Header, change func(any) any) {
	text, err := io.ReadAll(*body)
	_ = (*body).Close()
	var value any
	if err == nil && json.Unmarshal(text, &value) == nil {
		if changed, err := json.Marshal(change(value)); err == nil {
			text = changed
		}
	}
	*body = io.NopCloser(bytes.NewReader(text))
	*length = int64(len(text))
	header.Set("Content-Length", strconv.Itoa(len(text)))
}

// forget takes members out of an object.
func forget(members ...string) func(any) any {
	return func(value any) any {
		if object, ok := value.(map[string]any); ok {
			for _, m := range members {
				delete(object, m)
			}
		}
		return value
	}
}

func forgetInventory(value any) any {
	object, ok := forget("unusable")(value).(map[string]any)
	if !ok {
		return value
	}
	domains, _ := object["domains"].([]any)
	for _, d := range domains {
		domain, _ := forget("not_replicable")(d).(map[string]any)
		flows, _ := domain["flows"].([]any)
		for _, f := range flows {
			forget("head_index", "flow_def_text")(f)
		}
	}
	return object
}

// forgetRequest takes our own members out of a request for a replication.
func forgetRequest(value any) any {
	object, ok := forget("dest_boot_id")(value).(map[string]any)
	if !ok {
		return value
	}
	info, _ := object["target_info"].(string)
	var target map[string]json.RawMessage
	if json.Unmarshal([]byte(info), &target) == nil {
		delete(target, "mxlFabricsAgent")
		if text, err := json.Marshal(target); err == nil {
			object["target_info"] = string(text)
		}
	}
	return object
}

// listenAt serves a handler at a port of a host.
func listenAt(h *plant.Host, port int, handler http.Handler) (*http.Server, error) {
	var listener net.Listener
	err := h.Inside(func() (err error) {
		listener, err = net.Listen("tcp", net.JoinHostPort(h.Address.String(), strconv.Itoa(port)))
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("listen at %s: %w", h.HostID, err)
	}
	server := &http.Server{Handler: handler}
	go func() { _ = server.Serve(listener) }()
	return server, nil
}
