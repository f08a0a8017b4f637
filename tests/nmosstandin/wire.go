package nmosstandin

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// taiOffset is TAI - UTC since 2017 (NMOS reference §1).
const taiOffset = 37 * time.Second

// stamp is an instant in TAI nanoseconds since the PTP epoch. Its text form is
// "<seconds>:<nanoseconds>" without padding (NMOS reference §1).
type stamp int64

func stampOf(t time.Time) stamp { return stamp(t.Add(taiOffset).UnixNano()) }

func (s stamp) String() string {
	return fmt.Sprintf("%d:%d", int64(s)/1e9, int64(s)%1e9)
}

// parseStamp reads "<seconds>:<nanoseconds>".
func parseStamp(text string) (stamp, error) {
	left, right, found := strings.Cut(text, ":")
	if !found {
		return 0, fmt.Errorf("timestamp %q has no colon", text)
	}
	sec, err := strconv.ParseInt(left, 10, 33)
	if err != nil || sec < 0 {
		return 0, fmt.Errorf("timestamp %q: bad seconds", text)
	}
	nsec, err := strconv.ParseInt(right, 10, 64)
	if err != nil || nsec < 0 || nsec > 999_999_999 {
		return 0, fmt.Errorf("timestamp %q: bad nanoseconds", text)
	}
	return stamp(sec*1e9 + nsec), nil
}

// reply is what an endpoint answers. A nil body sends no body; headers are
// added to the CORS ones every answer carries.
type reply struct {
	status int
	body   any
	header map[string]string
}

// errorBody is the error document of every NMOS API (NMOS reference §1).
type errorBody struct {
	Code  int     `json:"code"`
	Error string  `json:"error"`
	Debug *string `json:"debug"`
}

// refuse builds the error reply for a status. Text that says more than the
// status is appended the way nmos-cpp does it ("Conflict; …").
func refuse(status int, format string, args ...any) reply {
	text := http.StatusText(status)
	if detail := fmt.Sprintf(format, args...); detail != "" {
		text += "; " + detail
	}
	return reply{status: status, body: errorBody{Code: status, Error: text}}
}

func notFound() reply { return refuse(http.StatusNotFound, "") }

// notAllowed is the 405 for a path that exists with other methods only.
func notAllowed(methods ...string) reply {
	answer := refuse(http.StatusMethodNotAllowed, "")
	answer.header = map[string]string{"Allow": strings.Join(methods, ", ")}
	return answer
}

func found(body any) reply { return reply{status: http.StatusOK, body: body} }

// readable reports whether the request only reads.
func readable(r *http.Request) bool {
	return r.Method == http.MethodGet || r.Method == http.MethodHead
}

// segments splits a path below prefix; one trailing slash is accepted. ok is
// false when the path is not below the prefix or holds an empty segment.
func segments(path, prefix string) (parts []string, ok bool) {
	rest, below := strings.CutPrefix(path, prefix)
	if !below || rest != "" && rest[0] != '/' {
		return nil, false
	}
	rest = strings.TrimSuffix(strings.TrimPrefix(rest, "/"), "/")
	if rest == "" {
		return nil, true
	}
	parts = strings.Split(rest, "/")
	for _, part := range parts {
		if part == "" {
			return nil, false
		}
	}
	return parts, true
}

// cors sets what every response carries, preflights included.
func cors(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Access-Control-Allow-Origin", "*")
	h.Set("Access-Control-Expose-Headers", "Content-Length, Link, Location, X-Paging-Limit, X-Paging-Since, X-Paging-Until")
	if r.Method != http.MethodOptions {
		return
	}
	h.Set("Access-Control-Allow-Methods", "GET, HEAD, OPTIONS, POST, PUT, PATCH, DELETE")
	h.Set("Access-Control-Max-Age", "3600")
	if asked := r.Header.Get("Access-Control-Request-Headers"); asked != "" {
		h.Set("Access-Control-Allow-Headers", asked)
	}
}

// encode renders a reply body; nil gives no bytes.
func encode(body any) []byte {
	if body == nil {
		return nil
	}
	if raw, ok := body.(json.RawMessage); ok {
		return raw
	}
	text, err := json.Marshal(body)
	if err != nil {
		text, _ = json.Marshal(errorBody{Code: 500, Error: err.Error()})
	}
	return text
}
