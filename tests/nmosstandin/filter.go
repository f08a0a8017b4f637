package nmosstandin

import (
	"fmt"
	"net/url"
	"strconv"
	"strings"
)

// filter is a basic query: dotted attribute names and the text they must have.
type filter map[string]string

// unsupportedError names a query feature this registry answers 501 to.
type unsupportedError struct{ parameter string }

func (e *unsupportedError) Error() string {
	return fmt.Sprintf("query parameter %q is not supported", e.parameter)
}

// parseFilter takes the basic query out of a query string: paging keys are
// left to parsePaging, query.downgrade is accepted without effect (everything
// here is v1.3), other query.* features are refused (NMOS reference §6).
func parseFilter(query url.Values) (filter, error) {
	f := filter{}
	for key, values := range query {
		switch {
		case strings.HasPrefix(key, "paging."), key == "query.downgrade":
		case strings.HasPrefix(key, "query."):
			return nil, &unsupportedError{key}
		default:
			f[key] = values[0]
		}
	}
	return f, nil
}

func (f filter) matches(doc map[string]any) bool {
	for key, want := range f {
		if !holds(doc, strings.Split(key, "."), want) {
			return false
		}
	}
	return true
}

// holds follows a dotted name into objects and, element by element, arrays.
func holds(value any, path []string, want string) bool {
	if list, ok := value.([]any); ok {
		for _, element := range list {
			if holds(element, path, want) {
				return true
			}
		}
		return false
	}
	if len(path) == 0 {
		return text(value) == want
	}
	object, ok := value.(map[string]any)
	if !ok {
		return false
	}
	member, ok := object[path[0]]
	return ok && holds(member, path[1:], want)
}

func text(value any) string {
	switch v := value.(type) {
	case string:
		return v
	case bool:
		return strconv.FormatBool(v)
	case float64:
		return strconv.FormatFloat(v, 'f', -1, 64)
	case nil:
		return "null"
	default:
		return fmt.Sprint(v)
	}
}
