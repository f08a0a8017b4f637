package config

import (
	"net/netip"
	"slices"
	"testing"
)

func TestDecodedTypes(t *testing.T) {
	c := load(t, "LOCAL_NODE_CIDRS=10.1.2.3/16, fd00::/64", "CPU_AFFINITY=2,3", `NMOS_TAGS={"urn:x":["a","b"]}`, "MIRROR_EXCLUDE_FLOWS=a,b").Config()
	for addr, want := range map[string]bool{"10.1.255.1": true, "10.2.0.1": false, "fd00::9": true, "::ffff:10.1.0.1": true, "fe80::1%eth0": false} {
		if got := c.LocalNodeCIDRs.Contains(netip.MustParseAddr(addr)); got != want {
			t.Errorf("%s: local %v, want %v", addr, got, want)
		}
	}
	if !slices.Equal(c.CPUAffinity, []int{2, 3}) {
		t.Errorf("CPU_AFFINITY: %v", c.CPUAffinity)
	}
	if !slices.Equal(c.NMOSTags["urn:x"], []string{"a", "b"}) {
		t.Errorf("NMOS_TAGS: %v", c.NMOSTags)
	}
	if !c.MirrorExcludeFlows.Has("b") || c.MirrorExcludeFlows.Has("c") {
		t.Errorf("MIRROR_EXCLUDE_FLOWS: %v", c.MirrorExcludeFlows)
	}
}

// TestMappedPrefixes: a prefix of IPv4-mapped addresses holds the IPv4 addresses in it.
func TestMappedPrefixes(t *testing.T) {
	for list, want := range map[string]map[string]bool{
		"::ffff:10.1.2.3/112":    {"10.1.255.1": true, "::ffff:10.1.0.1": true, "10.2.0.1": false},
		"::ffff:10.0.0.0/104":    {"10.200.0.1": true, "11.0.0.1": false},
		"::ffff:192.0.2.7/128":   {"192.0.2.7": true, "192.0.2.8": false},
		"::ffff:0:0/96":          {"192.0.2.7": true, "fd00::1": false},
		"::/0":                   {"fd00::1": true, "192.0.2.7": false},
		"fd00::/8, 192.0.2.0/24": {"fd00::1": true, "::ffff:192.0.2.1": true},
	} {
		cidrs := load(t, "LOCAL_NODE_CIDRS="+list).Config().LocalNodeCIDRs
		for addr, holds := range want {
			if got := cidrs.Contains(netip.MustParseAddr(addr)); got != holds {
				t.Errorf("%s holds %s: %v", list, addr, got)
			}
		}
	}
}

// TestKeysAreDescribed holds the table to what documents and the API need.
func TestKeysAreDescribed(t *testing.T) {
	for _, k := range Keys() {
		if k.Description == "" || k.Values == "" || k.check == nil {
			t.Errorf("%s lacks a description, its values or a check", k.Name)
		}
		if k.Default != "" && k.DefaultText != "" {
			t.Errorf("%s has two defaults", k.Name)
		}
	}
	runtime := []string{"MIRROR_MODE", "MIRROR_INCLUDE_DOMAINS", "MIRROR_INCLUDE_FLOWS", "MIRROR_EXCLUDE_DOMAINS", "MIRROR_EXCLUDE_FLOWS",
		"MIRROR_GRACE_S", "MIRROR_IDLE_GRACE_S", "MIRROR_CLEANUP_DRY_RUN", "MIRROR_STALE_MS", "TMPFS_RESERVE_MB", "PEERS",
		"PEER_POLL_INTERVAL_MS", "RELEASE_GRACE_MS", "METRICS_PER_FLOW"}
	for _, k := range Keys() {
		if k.Runtime != slices.Contains(runtime, k.Name) {
			t.Errorf("%s: runtime %v", k.Name, k.Runtime)
		}
	}
}
