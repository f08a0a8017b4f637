package httpapi

import (
	"net/http"
	"net/url"
	"strings"
)

// Route is one method on one path. A path segment in braces stands for any
// one non-empty segment; "{name...}" as the last one for all that is left,
// at least one. Handlers read them with Request.PathValue, decoded.
type Route struct {
	Method string
	Path   string
	Handle http.HandlerFunc
}

// routes matches exactly: no cleaning of paths, no redirects, no trailing
// slashes. The first match wins. HEAD is answered by GET.
type routes []compiled

type compiled struct {
	method   string
	segments []string
	handle   http.HandlerFunc
}

func compile(list []Route) routes {
	out := make(routes, 0, len(list))
	for _, r := range list {
		out = append(out, compiled{method: r.Method, segments: strings.Split(r.Path, "/"), handle: r.Handle})
	}
	return out
}

func (rs routes) find(r *http.Request) (http.HandlerFunc, bool) {
	method := r.Method
	if method == http.MethodHead {
		method = http.MethodGet
	}
	// Split before decoding: an id may hold an encoded slash.
	path := strings.Split(r.URL.EscapedPath(), "/")
	for i, segment := range path {
		decoded, err := url.PathUnescape(segment)
		if err != nil {
			return nil, false
		}
		path[i] = decoded
	}
	for _, route := range rs {
		if route.method != method {
			continue
		}
		if values, ok := match(route.segments, path); ok {
			for name, value := range values {
				r.SetPathValue(name, value)
			}
			return route.handle, true
		}
	}
	return nil, false
}

func match(pattern, path []string) (values map[string]string, ok bool) {
	for i, want := range pattern {
		name, isWild := strings.CutPrefix(want, "{")
		name = strings.TrimSuffix(name, "}")
		if rest, isRest := strings.CutSuffix(name, "..."); isWild && isRest {
			if i >= len(path) || path[i] == "" {
				return nil, false
			}
			return with(values, rest, strings.Join(path[i:], "/")), true
		}
		if i >= len(path) {
			return nil, false
		}
		switch {
		case isWild && path[i] != "":
			values = with(values, name, path[i])
		case isWild || path[i] != want:
			return nil, false
		}
	}
	return values, len(pattern) == len(path)
}

func with(values map[string]string, name, value string) map[string]string {
	if values == nil {
		values = make(map[string]string)
	}
	values[name] = value
	return values
}
