package nmos

import (
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
)

// nodeLists are the sub-resource collections of a Node; ours are all empty.
var nodeLists = [...]string{"devices", "sources", "flows", "senders", "receivers"}

// Handler serves the Node API, /x-nmos/node/v1.3 (NMOS reference §3). It routes
// by hand: http.ServeMux redirects slash forms and answers its own errors
// without CORS and error bodies (NMOS reference §15).
func (n *Node) Handler() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Access-Control-Allow-Origin", "*")
		body, methods := n.route(r.URL.Path)
		allow := strings.Join(methods, ", ")
		switch {
		case r.Method == http.MethodOptions:
			h.Set("Allow", allow)
			h.Set("Access-Control-Allow-Methods", allow)
			if asked := r.Header.Get("Access-Control-Request-Headers"); asked != "" {
				h.Set("Access-Control-Allow-Headers", asked)
			}
			h.Set("Access-Control-Max-Age", "3600")
			h.Set("Content-Length", "0")
			w.WriteHeader(http.StatusOK)
		case r.Method == http.MethodGet || r.Method == http.MethodHead:
			if body == nil {
				writeError(w, http.StatusNotFound, "no resource at "+clip(r.URL.Path))
				return
			}
			writeJSON(w, http.StatusOK, body)
		case body == nil:
			writeError(w, http.StatusNotFound, "no resource at "+clip(r.URL.Path))
		default:
			h.Set("Allow", allow)
			writeError(w, http.StatusMethodNotAllowed, "method "+clip(r.Method)+" is not offered here")
		}
	})
}

// route gives the 200 body of a path, nil for an unknown one, and its methods.
func (n *Node) route(path string) (body []byte, methods []string) {
	methods = []string{http.MethodGet, http.MethodHead, http.MethodOptions}
	path = strings.TrimSuffix(path, "/")
	switch path {
	case "":
		return []byte(`["x-nmos/"]`), methods
	case "/x-nmos":
		return []byte(`["node/"]`), methods
	case "/x-nmos/node":
		return []byte(`["v1.3/"]`), methods
	case "/x-nmos/node/v1.3":
		return []byte(`["self/","devices/","sources/","flows/","senders/","receivers/"]`), methods
	case "/x-nmos/node/v1.3/self":
		return n.Document(), methods
	}
	rest, ok := strings.CutPrefix(path, "/x-nmos/node/v1.3/")
	if !ok {
		return nil, methods
	}
	for _, list := range nodeLists {
		if rest == list {
			return []byte(`[]`), methods
		}
	}
	if strings.HasPrefix(rest, "receivers/") && strings.HasSuffix(rest, "/target") {
		// Deprecated; with no receivers every id is unknown (NMOS reference §3).
		return nil, []string{http.MethodPut, http.MethodOptions}
	}
	return nil, methods
}

// apiError is the error body of every NMOS HTTP API; all keys are required.
type apiError struct {
	Code  int     `json:"code"`
	Error string  `json:"error"`
	Debug *string `json:"debug"`
}

func writeError(w http.ResponseWriter, code int, debug string) {
	body, err := json.Marshal(apiError{Code: code, Error: http.StatusText(code), Debug: &debug})
	if err != nil {
		body = []byte(`{"code":500,"error":"Internal Server Error","debug":null}`)
		code = http.StatusInternalServerError
	}
	writeJSON(w, code, body)
}

func writeJSON(w http.ResponseWriter, code int, body []byte) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(code)
	_, _ = w.Write(body) // a client that went away is its own affair
}
