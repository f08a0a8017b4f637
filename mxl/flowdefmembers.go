package mxl

import (
	"encoding/json"
	"fmt"
	"math"
)

// members are the members of a JSON object of a flow definition.
type members map[string]json.RawMessage

func (m members) has(name string) bool { _, ok := m[name]; return ok }

// bad is the error of a member.
func (m members) bad(name, reason string) error {
	if !m.has(name) {
		return &DefinitionError{Member: name, Reason: "is missing"}
	}
	return &DefinitionError{name, shorten(m[name]), reason}
}

// shorten keeps errors readable when the value is not.
func shorten(raw []byte) string {
	const most = 80
	if len(raw) > most {
		return fmt.Sprintf("%s… (%d bytes)", raw[:most], len(raw))
	}
	return string(raw)
}

func (m members) text(name string) (string, error) {
	var v any
	if !m.has(name) || json.Unmarshal(m[name], &v) != nil {
		return "", m.bad(name, "is not a string")
	}
	s, ok := v.(string)
	if !ok {
		return "", m.bad(name, "is not a string")
	}
	return s, nil
}

// integer truncates, as the SDK does: all numbers are doubles to it (MXL format reference §2).
func (m members) integer(name string, lowest, highest int) (int, error) {
	v, ok := number(m[name])
	if !ok {
		return 0, m.bad(name, "is not a number")
	}
	v = math.Trunc(v)
	if v < float64(lowest) || v > float64(highest) {
		return 0, m.bad(name, fmt.Sprintf("is not from %d to %d", lowest, highest))
	}
	return int(v), nil
}

// rational reads a rate, reduced. The SDK does not catch zero and negative rates and faults on them later; they are
// refused here (MXL format reference §2.1).
func (m members) rational(name string) (Rational, error) {
	var r members
	if !m.has(name) || json.Unmarshal(m[name], &r) != nil || r == nil {
		return Rational{}, m.bad(name, "is not a rate")
	}
	part := func(member string) (int64, error) {
		v, ok := number(r[member])
		// 2^53: above it a double does not hold every integer.
		if v = math.Trunc(v); !ok || v < 1 || v > 1<<53 {
			return 0, m.bad(name, "has no positive "+member)
		}
		return int64(v), nil
	}
	num, err := part("numerator")
	if err != nil {
		return Rational{}, err
	}
	den := int64(1)
	if r.has("denominator") {
		if den, err = part("denominator"); err != nil {
			return Rational{}, err
		}
	}
	return Rational{num, den}.Reduced(), nil
}
