package config

import (
	"errors"
	"strconv"
)

// host is what the defaults need to know about the machine.
type host struct {
	name string // hostname
	ipv4 string // first non-loopback IPv4, may be empty
	file string // where the configuration is saved, may be empty
}

// resolve puts the layers on top of each other and fills in the defaults that
// depend on the host or on another setting.
func resolve(environment, file layer, h host) (map[string]string, map[string]Origin) {
	values := make(map[string]string, len(keys))
	origins := make(map[string]Origin, len(keys))
	for _, k := range keys {
		value, origin := k.Default, OriginDefault
		if v, ok := file[k.Name]; ok {
			value, origin = v, OriginFile
		}
		if v, ok := environment[k.Name]; ok {
			value, origin = v, OriginEnvironment
		}
		values[k.Name], origins[k.Name] = value, origin
	}
	unset := func(name string) bool { return origins[name] == OriginDefault }
	empty := func(name string) bool { return values[name] == "" }

	if unset("HOST_ID") {
		values["HOST_ID"] = h.name
	}
	if empty("STATE_DIR") {
		values["STATE_DIR"] = defaultStateDir
	}
	if empty("AGENT_CONFIG_FILE") {
		values["AGENT_CONFIG_FILE"] = h.file
	}
	if empty("NMOS_LABEL") {
		values["NMOS_LABEL"] = values["HOST_ID"]
	}
	if empty("NMOS_HOST_ADDRESS") {
		values["NMOS_HOST_ADDRESS"] = h.ipv4
	}
	if empty("NMOS_QUERY_ADDRESS") {
		values["NMOS_QUERY_ADDRESS"] = values["NMOS_REGISTRY_ADDRESS"]
	}
	if unset("NMOS_QUERY_PORT") {
		// A registry port that is no number is reported by its own check.
		port, err := integer(values["NMOS_REGISTRY_PORT"])
		if err != nil {
			port = 3210
		}
		values["NMOS_QUERY_PORT"] = strconv.FormatInt(port+1, 10)
	}
	return values, origins
}

// checkDerived refuses a setting of which no default of another one can be made: the
// error names what somebody has set.
func checkDerived(values map[string]string, origins map[string]Origin) error {
	if registry := values["NMOS_REGISTRY_PORT"]; origins["NMOS_QUERY_PORT"] == OriginDefault && values["NMOS_QUERY_PORT"] == "65536" {
		return &Error{Key: "NMOS_REGISTRY_PORT", Value: registry,
			Err: errors.New("is the last port there is, and NMOS_QUERY_PORT is the next one unless it is set: set NMOS_QUERY_PORT")}
	}
	return nil
}
