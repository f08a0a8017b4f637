package nmosstandin

import (
	"strings"
	"testing"
)

func TestCapturedResourcesPass(t *testing.T) {
	for name, k := range map[string]kind{
		"query/nodes.json": nodes, "query/devices.json": devices, "query/receivers.json": receivers,
		"second/nodes.json": nodes, "second/devices.json": devices, "second/receivers.json": receivers,
	} {
		var list []map[string]any
		fixture(t, name, &list)
		for _, doc := range list {
			if err := checkResource(k, doc); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
	if err := checkResource(nodes, sample(t)); err != nil {
		t.Error(err)
	}
}

// A document that breaks one rule of NMOS reference §2 or §12 is refused.
func TestNodeRules(t *testing.T) {
	iface := func(change func(map[string]any)) any {
		doc := map[string]any{"name": "eth0", "port_id": "02-00-00-00-00-01", "chassis_id": nil}
		change(doc)
		return []any{doc}
	}
	endpoint := func(change func(map[string]any)) any {
		doc := map[string]any{"host": "192.0.2.1", "port": 80.0, "protocol": "http"}
		change(doc)
		return map[string]any{"versions": []any{"v1.3"}, "endpoints": []any{doc}}
	}
	for _, tc := range []struct {
		name, member string
		value        any
	}{
		{"id with version nibble 7", "id", "6c7c9cb6-7445-7ea2-a152-a8c9937d4512"},
		{"id in upper case", "id", "6C7C9CB6-7445-5EA2-A152-A8C9937D4512"},
		{"version as fraction", "version", "1.5"},
		{"version as number", "version", 15.0},
		{"label null", "label", nil},
		{"tags not an object", "tags", []any{}},
		{"tag not an array", "tags", map[string]any{"a": "b"}},
		{"tag of numbers", "tags", map[string]any{"a": []any{1.0}}},
		{"href without scheme", "href", "192.0.2.1/"},
		{"caps missing", "caps", nil},
		{"services null", "services", nil},
		{"clocks null", "clocks", nil},
		{"interfaces null", "interfaces", nil},
		{"clock name", "clocks", []any{map[string]any{"name": "0", "ref_type": "internal"}}},
		{"clock twice", "clocks", []any{map[string]any{"name": "clk0", "ref_type": "internal"}, map[string]any{"name": "clk0", "ref_type": "internal"}}},
		{"clock reference", "clocks", []any{map[string]any{"name": "clk0", "ref_type": "gps"}}},
		{"port_id with colons", "interfaces", iface(func(d map[string]any) { d["port_id"] = "02:00:00:00:00:01" })},
		{"port_id of 20 octets", "interfaces", iface(func(d map[string]any) { d["port_id"] = strings.Repeat("02-", 19) + "02" })},
		{"chassis_id missing", "interfaces", iface(func(d map[string]any) { delete(d, "chassis_id") })},
		{"chassis_id empty", "interfaces", iface(func(d map[string]any) { d["chassis_id"] = "" })},
		{"port as text", "api", endpoint(func(d map[string]any) { d["port"] = "80" })},
		{"port 0", "api", endpoint(func(d map[string]any) { d["port"] = 0.0 })},
		{"protocol", "api", endpoint(func(d map[string]any) { d["protocol"] = "ftp" })},
		{"versions with slash", "api", map[string]any{"versions": []any{"v1.3/"}, "endpoints": []any{}}},
		{"endpoints missing", "api", map[string]any{"versions": []any{"v1.3"}}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			doc := sample(t)
			doc[tc.member] = tc.value
			if err := checkResource(nodes, doc); err == nil {
				t.Errorf("accepted %s = %v", tc.member, tc.value)
			}
		})
	}
}

func TestReceiverRules(t *testing.T) {
	for member, value := range map[string]any{
		"device_id": "x", "transport": nil, "format": 1.0, "caps": nil, "interface_bindings": nil,
		"subscription": map[string]any{"active": "yes", "sender_id": nil},
	} {
		var list []map[string]any
		fixture(t, "query/receivers.json", &list)
		list[0][member] = value
		if err := checkResource(receivers, list[0]); err == nil {
			t.Errorf("accepted %s = %v", member, value)
		}
	}
}
