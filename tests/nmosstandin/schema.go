package nmosstandin

import (
	"fmt"
	"net/url"
	"regexp"
)

// The patterns of the IS-04 v1.3 schemas (NMOS reference §1, §2).
var (
	idPattern      = regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-[1-5][0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`)
	macPattern     = regexp.MustCompile(`^([0-9a-f]{2}-){5}[0-9a-f]{2}$`)
	versionPattern = regexp.MustCompile(`^v[0-9]+\.[0-9]+$`)
	clockPattern   = regexp.MustCompile(`^clk[0-9]+$`)
)

// checkResource holds a document against the rules a registry of the field
// enforces: the IS-04 v1.3 schema's required keys, types and patterns. The
// laxities of nmos-cpp (NMOS reference §12) are kept: any text as host name.
func checkResource(k kind, doc map[string]any) error {
	c := &checker{}
	c.pattern(doc, "id", idPattern)
	if version := c.text(doc, "version"); c.err == nil {
		if _, err := parseStamp(version); err != nil {
			c.fail("version: %w", err)
		}
	}
	c.text(doc, "label")
	c.text(doc, "description")
	for name, value := range c.object(doc, "tags") {
		list, ok := value.([]any)
		if !ok {
			c.fail("tags.%s: not an array", name)
		}
		for _, element := range list {
			if _, ok := element.(string); !ok {
				c.fail("tags.%s: %v is not a string", name, element)
			}
		}
	}
	switch k {
	case nodes:
		c.node(doc)
	case devices:
		c.pattern(doc, "node_id", idPattern)
		c.text(doc, "type")
		c.list(doc, "senders")
		c.list(doc, "receivers")
		for _, control := range c.objects(doc, "controls") {
			c.text(control, "type")
			c.uri(control, "href")
		}
	case receivers:
		c.pattern(doc, "device_id", idPattern)
		c.text(doc, "transport")
		c.text(doc, "format")
		c.object(doc, "caps")
		c.list(doc, "interface_bindings")
		subscription := c.object(doc, "subscription")
		c.boolean(subscription, "active")
		if sender, ok := subscription["sender_id"]; !ok {
			c.fail("subscription.sender_id is missing")
		} else if text, ok := sender.(string); sender != nil && (!ok || !idPattern.MatchString(text)) {
			c.fail("subscription.sender_id %v is neither null nor an id", sender)
		}
	default:
		c.pattern(doc, "device_id", idPattern)
	}
	return c.err
}

// checker remembers the first thing that is wrong.
type checker struct{ err error }

func (c *checker) fail(format string, args ...any) {
	if c.err == nil {
		c.err = fmt.Errorf(format, args...)
	}
}

func (c *checker) text(doc map[string]any, key string) string {
	value, ok := doc[key].(string)
	if !ok {
		c.fail("%s: %v is not a string", key, doc[key])
	}
	return value
}

func (c *checker) pattern(doc map[string]any, key string, pattern *regexp.Regexp) {
	if value := c.text(doc, key); !pattern.MatchString(value) {
		c.fail("%s: %q does not match %s", key, value, pattern)
	}
}

func (c *checker) uri(doc map[string]any, key string) {
	value := c.text(doc, key)
	if parsed, err := url.Parse(value); err != nil || parsed.Scheme == "" {
		c.fail("%s: %q is not a URI", key, value)
	}
}

func (c *checker) boolean(doc map[string]any, key string) {
	if _, ok := doc[key].(bool); !ok {
		c.fail("%s: %v is not a boolean", key, doc[key])
	}
}

func (c *checker) object(doc map[string]any, key string) map[string]any {
	value, ok := doc[key].(map[string]any)
	if !ok {
		c.fail("%s: %v is not an object", key, doc[key])
	}
	return value
}

func (c *checker) list(doc map[string]any, key string) []any {
	value, ok := doc[key].([]any)
	if !ok {
		c.fail("%s: %v is not an array", key, doc[key])
	}
	return value
}

func (c *checker) objects(doc map[string]any, key string) (objects []map[string]any) {
	for _, element := range c.list(doc, key) {
		object, ok := element.(map[string]any)
		if !ok {
			c.fail("%s: %v is not an object", key, element)
			return nil
		}
		objects = append(objects, object)
	}
	return objects
}

func (c *checker) port(doc map[string]any, key string) {
	value, ok := doc[key].(float64)
	if !ok || value != float64(int(value)) || value < 1 || value > 65535 {
		c.fail("%s: %v is not a port", key, doc[key])
	}
}

// node holds the rules of NMOS reference §2.
func (c *checker) node(doc map[string]any) {
	c.uri(doc, "href")
	c.object(doc, "caps")
	api := c.object(doc, "api")
	for _, version := range c.list(api, "versions") {
		if text, ok := version.(string); !ok || !versionPattern.MatchString(text) {
			c.fail("api.versions: %v is not a version", version)
		}
	}
	for _, endpoint := range c.objects(api, "endpoints") {
		c.text(endpoint, "host")
		c.port(endpoint, "port")
		if protocol := c.text(endpoint, "protocol"); protocol != "http" && protocol != "https" {
			c.fail("api.endpoints: protocol %q", protocol)
		}
		if _, given := endpoint["authorization"]; given {
			c.boolean(endpoint, "authorization")
		}
	}
	for _, service := range c.objects(doc, "services") {
		c.text(service, "href")
		c.uri(service, "type")
	}
	clocks := map[string]bool{}
	for _, clock := range c.objects(doc, "clocks") {
		c.pattern(clock, "name", clockPattern)
		name, _ := clock["name"].(string)
		if clocks[name] {
			c.fail("clocks: name %q twice", name)
		}
		clocks[name] = true
		if ref := c.text(clock, "ref_type"); ref != "internal" && ref != "ptp" {
			c.fail("clocks: ref_type %q", ref)
		}
	}
	names := map[string]bool{}
	for _, device := range c.objects(doc, "interfaces") {
		name := c.text(device, "name")
		if names[name] {
			c.fail("interfaces: name %q twice", name)
		}
		names[name] = true
		c.pattern(device, "port_id", macPattern)
		if chassis, ok := device["chassis_id"]; !ok {
			c.fail("interfaces: chassis_id is missing")
		} else if text, ok := chassis.(string); chassis != nil && (!ok || text == "") {
			c.fail("interfaces: chassis_id %v is neither null nor a string", chassis)
		}
	}
}
