package config

import (
	"errors"
	"reflect"

	"github.com/caarlos0/env/v11"
)

// parseBool knows the spellings of agent API reference §12.1; the empty
// string is false.
func parseBool(value string) (bool, error) {
	switch value {
	case "1", "true", "TRUE", "yes":
		return true, nil
	case "0", "false", "FALSE", "no", "":
		return false, nil
	}
	return false, errors.New("must be true or false")
}

var parsers = map[reflect.Type]env.ParserFunc{
	reflect.TypeFor[bool](): func(v string) (any, error) { return parseBool(v) },
}
