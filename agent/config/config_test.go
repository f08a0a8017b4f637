package config

import (
	"bytes"
	"encoding/json"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// machine is a host without surprises: a name, one address, a state
// directory that exists.
func machine(t testing.TB, environ ...string) Machine {
	t.Helper()
	return Machine{
		Environ:  append([]string{"STATE_DIR=" + t.TempDir()}, environ...),
		Hostname: func() (string, error) { return "node-a", nil },
		Addrs: func() ([]net.Addr, error) {
			return []net.Addr{
				&net.IPNet{IP: net.ParseIP("127.0.0.1")}, &net.IPNet{IP: net.ParseIP("fd00::1")}, &net.IPNet{IP: net.ParseIP("192.0.2.10")},
			}, nil
		},
	}
}

func load(t testing.TB, environ ...string) *Store {
	t.Helper()
	s, err := Load(machine(t, environ...))
	if err != nil {
		t.Fatalf("Load(%q): %v", environ, err)
	}
	return s
}

// withFile is a machine whose state directory holds a file layer.
func withFile(t testing.TB, file string, environ ...string) Machine {
	t.Helper()
	m := machine(t, environ...)
	dir := strings.TrimPrefix(m.Environ[0], "STATE_DIR=")
	if err := os.WriteFile(filepath.Join(dir, "agent.json"), []byte(file), 0o600); err != nil {
		t.Fatal(err)
	}
	return m
}

func TestDefaults(t *testing.T) {
	c := load(t).Config()
	type row struct {
		name      string
		got, want any
	}
	for _, r := range []row{
		{"HOST_ID", c.HostID, "node-a"},
		{"MXL_DOMAIN_SCAN_PATH", c.ScanPath, "/Volumes/mxl"},
		{"SCAN_INTERVAL_MS", c.ScanInterval.Duration(), 2 * time.Second},
		{"MIRROR_MODE", c.MirrorMode, "eager"},
		{"MIRROR_INCLUDE_DOMAINS", len(c.MirrorIncludeDomains), 0},
		{"MIRROR_INCLUDE_FLOWS", len(c.MirrorIncludeFlows), 0},
		{"MIRROR_EXCLUDE_DOMAINS", len(c.MirrorExcludeDomains), 0},
		{"MIRROR_EXCLUDE_FLOWS", len(c.MirrorExcludeFlows), 0},
		{"MIRROR_GRACE_S", c.MirrorGrace.Duration(), 10 * time.Second},
		{"MIRROR_IDLE_GRACE_S", c.MirrorIdleGrace.Duration(), 300 * time.Second},
		{"MIRROR_CLEANUP_DRY_RUN", c.MirrorCleanupDryRun, false},
		{"MIRROR_STALE_MS", c.MirrorStale.Duration(), 2 * time.Second},
		{"MIRROR_ADMIN_REBUILD", c.MirrorAdminRebuild, false},
		{"TMPFS_RESERVE_MB", c.TmpfsReserveMB, 512},
		{"MXL_CLEANUP_ON_EXIT", c.CleanupOnExit, false},
		{"DEFAULT_PROVIDER", c.DefaultProvider, "verbs"},
		{"PROVIDER_FALLBACK", c.ProviderFallback, ""},
		{"FABRIC_INTERFACE", c.FabricInterface, ""},
		{"FABRIC_PORT_BASE", c.FabricPortBase, 23500},
		{"FABRIC_PORT_COUNT", c.FabricPortCount, 100},
		{"PEERS", len(c.Peers), 0},
		{"PEER_POLL_INTERVAL_MS", c.PeerPollInterval.Duration(), 2 * time.Second},
		{"RELEASE_GRACE_MS", c.ReleaseGrace.Duration(), 2 * time.Second},
		{"NMOS_ENABLE", c.NMOSEnable, true},
		{"NMOS_SEED", c.NMOSSeed, ""},
		{"NMOS_LABEL", c.NMOSLabel, "node-a"},
		{"NMOS_TAGS", len(c.NMOSTags), 0},
		{"NMOS_DNS_SD", c.NMOSDNSSD, false},
		{"NMOS_HOST_ADDRESS", c.NMOSHostAddress, "192.0.2.10"},
		{"NMOS_REGISTRY_ADDRESS", c.NMOSRegistryAddress, ""},
		{"NMOS_REGISTRY_PORT", c.NMOSRegistryPort, 3210},
		{"NMOS_QUERY_ADDRESS", c.NMOSQueryAddress, ""},
		{"NMOS_QUERY_PORT", c.NMOSQueryPort, 3211},
		{"NMOS_POLL_INTERVAL_MS", c.NMOSPollInterval.Duration(), time.Second},
		{"NMOS_PORT", c.NMOSPort, 3232},
		{"LOCAL_NODE_IDS", len(c.LocalNodeIDs), 0},
		{"LOCAL_NODE_HOSTNAMES", len(c.LocalNodeHostnames), 0},
		{"LOCAL_NODE_CIDRS", len(c.LocalNodeCIDRs), 0},
		{"WEB_PORT", c.WebPort, 8095},
		{"WEB_ENABLE", c.WebEnable, true},
		{"RT_PRIORITY", c.RTPriority, 0},
		{"CPU_AFFINITY", len(c.CPUAffinity), 0},
		{"FABRIC_ACK_TIMEOUT", c.FabricACKTimeout, 14},
		{"FABRIC_RETRY_COUNT", c.FabricRetryCount, 7},
		{"AUDIO_PASS_MS", c.AudioPass.Duration(), 2 * time.Millisecond},
		{"AUDIO_PIPELINE", c.AudioPipeline, false},
		{"LOG_LEVEL", c.LogLevel.Level().String(), "INFO"},
		{"METRICS_PER_FLOW", c.MetricsPerFlow, true},
		{"SHUTDOWN_TIMEOUT_S", c.ShutdownTimeout.Duration(), 10 * time.Second},
	} {
		if r.got != r.want {
			t.Errorf("%s: got %v, want %v", r.name, r.got, r.want)
		}
	}
	if got, want := len(Keys()), 51; got != want {
		t.Errorf("%d keys, want %d: the two paths and the rows above", got, want)
	}
}

// TestValues sets every key to values at and past its limits.
func TestValues(t *testing.T) {
	number := func(low, high string, bad ...string) (good, wrong []string) {
		return []string{low, high}, append([]string{"", "x", "1.5", "+5", " 5", "0x10", "99999999999999999999"}, bad...)
	}
	bools := []string{"1", "true", "TRUE", "yes", "0", "false", "FALSE", "no", ""}
	notBools := []string{"True", "on", "2", "nope"}
	registries := []string{"", "192.0.2.1", "2001:db8::1", "[2001:db8::1]", "registry", " registry ", "nmos_registry", "registry.example.", "reg-1.2x"}
	notRegistries := []string{"http://192.0.2.1:3210", "192.0.2.1:3210", "registry:80", "1.2.3.400", "1.2.3.4.5", "10", "a b", "u@h", "h/p", "-h", "a..b", "[192.0.2.1]", "[::1", "fe80::1%eth0", "[::1]:80", " "}
	type row struct {
		key       string
		good, bad []string
	}
	num := func(key, low, high string, bad ...string) row {
		g, b := number(low, high, bad...)
		return row{key, g, b}
	}
	for _, r := range []row{
		{"HOST_ID", []string{"a"}, []string{""}},
		{"MXL_DOMAIN_SCAN_PATH", []string{"/x"}, []string{""}},
		{"MXL_ROOT", []string{"/x"}, []string{""}},
		num("SCAN_INTERVAL_MS", "100", "600000", "99", "600001"),
		{"MIRROR_MODE", []string{"eager", "on-demand"}, []string{"", "lazy", "Eager"}},
		num("MIRROR_GRACE_S", "0", "86400", "-1", "86401"),
		num("MIRROR_IDLE_GRACE_S", "0", "31536000", "-1", "31536001"),
		{"MIRROR_CLEANUP_DRY_RUN", bools, notBools},
		num("MIRROR_STALE_MS", "0", "86400000", "-1"),
		{"MIRROR_ADMIN_REBUILD", bools, notBools},
		num("TMPFS_RESERVE_MB", "0", "1048576", "-1", "1048577"),
		{"MXL_CLEANUP_ON_EXIT", bools, notBools},
		{"CLEANUP_MIRRORS_ON_EXIT", bools, notBools},
		{"DEFAULT_PROVIDER", []string{"verbs", "tcp"}, []string{"", "shm", "TCP"}},
		{"PROVIDER_FALLBACK", []string{"", "tcp"}, []string{"verbs", "none"}},
		{"FABRIC_INTERFACE", []string{"", "192.0.2.1", "fd00::1", "fe80::1%eth0", "ens1f0np0", "eth0.100", "br-lan", "10.100"},
			[]string{"10.0.0.999", "1.2.3.400", "192.0.2.1/24", "192.0.2.1:80", "fd00::zz", "two words", "abcdefghijklmnop", "..", " "}},
		num("FABRIC_PORT_BASE", "1", "65436", "0", "65437", "65536"),
		num("FABRIC_PORT_COUNT", "1", "10000", "0", "10001"),
		{"PEERS", []string{"", "[]", `[{"host_id":"b","provider":"tcp","control_url":"http://b:8095/api/v1/"}]`, `[{"host_id":"b","control_url":"http://[fd00::1]:8095/api/v1"}]`,
			`[{"host_id":"b","local_fabric_addr":"ens1f0","remote_fabric_addr":"node-b.fabric.example"}]`, `[{"host_id":"b","local_fabric_addr":"","remote_fabric_addr":"","control_url":""}]`},
			[]string{"null", "{}", "[1]", "[null]", `[{"host_id":""}]`, `[{}]`, `[{"host_id":"b"},{"host_id":"b"}]`, `[{"host_id":"b","provider":"shm"}]`,
				`[{"host_id":"b","port":1}]`, `[{"host_id":1}]`, `[{"host_id":"b","control_url":"b:8095"}]`, `[]x`, "[",
				`[{"host_id":"b","control_url":"https://b:8095/api/v1"}]`, `[{"host_id":"b","control_url":"http://b:99999/api/v1"}]`, `[{"host_id":"b","control_url":"http://1.2.3.400/api/v1"}]`,
				`[{"host_id":"b","control_url":"http://b/api/v1?x=1"}]`, `[{"host_id":"b","control_url":"http://u@b/api/v1"}]`, `[{"host_id":"b","control_url":"http:///api/v1"}]`,
				`[{"host_id":"b","local_fabric_addr":"10.0.0.999"}]`, `[{"host_id":"b","local_fabric_addr":"192.0.2.1/24"}]`, `[{"host_id":"b","remote_fabric_addr":"http://b"}]`}},
		num("PEER_POLL_INTERVAL_MS", "100", "600000", "99", "600001"),
		num("RELEASE_GRACE_MS", "0", "600000", "-1", "600001"),
		{"NMOS_ENABLE", bools, notBools},
		{"NMOS_TAGS", []string{"", "{}", `{"urn:x":["a","b"],"e":[]}`}, []string{"null", "[]", `{"a":"b"}`, `{"a":[1]}`, `{"a":[null]}`, `{"a":null}`, "{"}},
		{"NMOS_DNS_SD", bools, notBools},
		{"NMOS_HOST_ADDRESS", []string{"192.0.2.1", "fd00::2"}, []string{"node-a", "127.0.0.1", "127.8.0.1", "::1", "0.0.0.0", "::", "::ffff:127.0.0.1", "fe80::1%eth0", "224.0.0.1", "ff02::1", "255.255.255.255", "192.0.2.1:80", "192.0.2.300"}},
		{"NMOS_REGISTRY_ADDRESS", registries, notRegistries},
		{"NMOS_QUERY_ADDRESS", registries, notRegistries},
		num("NMOS_REGISTRY_PORT", "1", "65534", "0", "65535", "65536"),
		num("NMOS_QUERY_PORT", "1", "65535", "0", "65536"),
		num("NMOS_POLL_INTERVAL_MS", "100", "600000", "99", "600001"),
		num("NMOS_PORT", "1", "65534", "0", "65535"),
		{"LOCAL_NODE_CIDRS", []string{"", "10.0.0.0/8", "10.1.2.3/16, fd00::/64,", "::ffff:10.0.0.0/104", "::/0"}, []string{"10.0.0.0", "::ffff:10.0.0.0/95", "10.0.0.0/33", "x/8"}},
		num("WEB_PORT", "1", "65535", "0", "65536", "3232", "3233"),
		{"WEB_ENABLE", bools, notBools},
		num("RT_PRIORITY", "0", "99", "-1", "100"),
		{"CPU_AFFINITY", []string{"", "0", "1, 2,1024"}, []string{"-1", "1025", "a", "1-3"}},
		num("FABRIC_ACK_TIMEOUT", "0", "24", "1", "3", "25", "-1"),
		num("FABRIC_RETRY_COUNT", "1", "7", "0", "8"),
		num("AUDIO_PASS_MS", "1", "4", "0", "5"),
		{"LOG_LEVEL", []string{"error", "warn", "info", "debug"}, []string{"", "INFO", "trace"}},
		{"METRICS_PER_FLOW", bools, notBools},
		{"AUDIO_PIPELINE", bools, notBools},
		num("SHUTDOWN_TIMEOUT_S", "1", "3600", "0", "3601"),
	} {
		for _, v := range r.good {
			if _, err := Load(machine(t, r.key+"="+v)); err != nil {
				t.Errorf("%s=%q: %v", r.key, v, err)
			}
		}
		for _, v := range r.bad {
			_, err := Load(machine(t, r.key+"="+v))
			var invalid *Error
			if !errors.As(err, &invalid) {
				t.Errorf("%s=%q: got %v, want an *Error", r.key, v, err)
				continue
			}
			k, _ := Lookup(r.key)
			related := map[string]string{"FABRIC_PORT_BASE": "FABRIC_PORT_COUNT"}
			if invalid.Key != k.Name && invalid.Key != related[r.key] {
				t.Errorf("%s=%q: the error names %s", r.key, v, invalid.Key)
			}
			if invalid.Key == k.Name && invalid.Value != v {
				t.Errorf("%s=%q: the error shows the value %q", r.key, v, invalid.Value)
			}
		}
	}
}

func TestPrecedence(t *testing.T) {
	for name, c := range map[string]struct {
		file    string
		environ []string
		key     string
		want    string
		origin  Origin
	}{
		"default":                 {`{}`, nil, "SCAN_INTERVAL_MS", "2000", OriginDefault},
		"file":                    {`{"SCAN_INTERVAL_MS":3000}`, nil, "SCAN_INTERVAL_MS", "3000", OriginFile},
		"file as text":            {`{"SCAN_INTERVAL_MS":"3000"}`, nil, "SCAN_INTERVAL_MS", "3000", OriginFile},
		"file as double":          {`{"SCAN_INTERVAL_MS":3e3}`, nil, "SCAN_INTERVAL_MS", "3000", OriginFile},
		"file bool":               {`{"WEB_ENABLE":false}`, nil, "WEB_ENABLE", "false", OriginFile},
		"environment over file":   {`{"SCAN_INTERVAL_MS":3000}`, []string{"SCAN_INTERVAL_MS=4000"}, "SCAN_INTERVAL_MS", "4000", OriginEnvironment},
		"alias in the file":       {`{"MXL_ROOT":"/f"}`, nil, "MXL_DOMAIN_SCAN_PATH", "/f", OriginFile},
		"alias shows the same":    {`{"MXL_ROOT":"/f"}`, nil, "MXL_ROOT", "/f", OriginFile},
		"environment alias wins":  {`{"MXL_DOMAIN_SCAN_PATH":"/f"}`, []string{"MXL_ROOT=/e"}, "MXL_DOMAIN_SCAN_PATH", "/e", OriginEnvironment},
		"both names equal":        {`{}`, []string{"MXL_ROOT=/e", "MXL_DOMAIN_SCAN_PATH=/e"}, "MXL_ROOT", "/e", OriginEnvironment},
		"alias left empty":        {`{}`, []string{"MXL_ROOT=", "MXL_DOMAIN_SCAN_PATH=/e"}, "MXL_ROOT", "/e", OriginEnvironment},
		"only the alias filled":   {`{}`, []string{"MXL_ROOT=/e", "MXL_DOMAIN_SCAN_PATH="}, "MXL_DOMAIN_SCAN_PATH", "/e", OriginEnvironment},
		"switch, alias empty":     {`{}`, []string{"MXL_CLEANUP_ON_EXIT=true", "CLEANUP_MIRRORS_ON_EXIT="}, "MXL_CLEANUP_ON_EXIT", "true", OriginEnvironment},
		"switch, only the alias":  {`{}`, []string{"MXL_CLEANUP_ON_EXIT=", "CLEANUP_MIRRORS_ON_EXIT=true"}, "MXL_CLEANUP_ON_EXIT", "true", OriginEnvironment},
		"alias empty in the file": {`{"MXL_ROOT":"","MXL_DOMAIN_SCAN_PATH":"/f"}`, nil, "MXL_ROOT", "/f", OriginFile},
		"switch, both empty":      {`{}`, []string{"MXL_CLEANUP_ON_EXIT=", "CLEANUP_MIRRORS_ON_EXIT="}, "MXL_CLEANUP_ON_EXIT", "false", OriginEnvironment},
		"unknown in environment":  {`{"NOT_A_KEY":1}`, []string{"ALSO_NOT=1"}, "WEB_PORT", "8095", OriginDefault},
		"list normal form":        {`{}`, []string{"LOCAL_NODE_IDS= a, ,b\tc ,"}, "LOCAL_NODE_IDS", "a,bc", OriginEnvironment},
		"boolean normal form":     {`{}`, []string{"WEB_ENABLE=yes"}, "WEB_ENABLE", "true", OriginEnvironment},
		"query follows registry":  {`{}`, []string{"NMOS_REGISTRY_PORT=8010", "NMOS_REGISTRY_ADDRESS=r"}, "NMOS_QUERY_PORT", "8011", OriginDefault},
		"query address follows":   {`{}`, []string{"NMOS_REGISTRY_ADDRESS=r"}, "NMOS_QUERY_ADDRESS", "r", OriginDefault},
		"label follows host id":   {`{"HOST_ID":"x"}`, nil, "NMOS_LABEL", "x", OriginDefault},
		"rebuild not by the file": {`{"MIRROR_ADMIN_REBUILD":true}`, nil, "WEB_PORT", "8095", OriginDefault},
	} {
		s, err := Load(withFile(t, c.file, c.environ...))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if got := s.Export()[c.key]; got != c.want {
			t.Errorf("%s: %s is %v, want %s", name, c.key, got, c.want)
		}
		if got := s.Origins()[c.key]; got != c.origin {
			t.Errorf("%s: origin %s, want %s", name, got, c.origin)
		}
		if s.Config().MirrorAdminRebuild {
			t.Errorf("%s: the rebuild hook was opened by a file", name)
		}
	}
}

func TestInvalidLayers(t *testing.T) {
	for name, c := range map[string]struct {
		file    string
		environ []string
		key     string
	}{
		"alias conflict in environment": {`{}`, []string{"MXL_ROOT=/a", "MXL_DOMAIN_SCAN_PATH=/b"}, "MXL_DOMAIN_SCAN_PATH"},
		"alias conflict in file":        {`{"CLEANUP_MIRRORS_ON_EXIT":true,"MXL_CLEANUP_ON_EXIT":false}`, nil, "MXL_CLEANUP_ON_EXIT"},
		"both names empty":              {`{}`, []string{"MXL_ROOT=", "MXL_DOMAIN_SCAN_PATH="}, "MXL_DOMAIN_SCAN_PATH"},
		"removed key in environment":    {`{}`, []string{"MIRROR_INCLUDE=x"}, "MIRROR_INCLUDE"},
		"removed key in file":           {`{"MIRROR_EXCLUDE":"x"}`, nil, "MIRROR_EXCLUDE"},
		"file is no JSON":               {`{"HOST_ID":`, nil, "AGENT_CONFIG_FILE"},
		"file is no object":             {`[]`, nil, "AGENT_CONFIG_FILE"},
		"file is null":                  {`null`, nil, "AGENT_CONFIG_FILE"},
		"file has a tail":               {`{} {}`, nil, "AGENT_CONFIG_FILE"},
		"null in the file":              {`{"HOST_ID":null}`, nil, "HOST_ID"},
		"fraction":                      {`{"WEB_PORT":80.5}`, nil, "WEB_PORT"},
		"list as JSON":                  {`{"CPU_AFFINITY":["1"]}`, nil, "CPU_AFFINITY"},
		"a label as JSON":               {`{"NMOS_LABEL":{"a":1}}`, nil, "NMOS_LABEL"},
		"names as JSON":                 {`{"MIRROR_INCLUDE_DOMAINS":["a","b"]}`, nil, "MIRROR_INCLUDE_DOMAINS"},
		"named file is missing":         {`{}`, []string{"AGENT_CONFIG_FILE=/nonexistent/agent.json"}, "AGENT_CONFIG_FILE"},
	} {
		_, err := Load(withFile(t, c.file, c.environ...))
		var invalid *Error
		if !errors.As(err, &invalid) || invalid.Key != c.key {
			t.Errorf("%s: got %v, want an error about %s", name, err, c.key)
		}
	}
}

// TestLastRegistryPort: the query port that follows from it does not exist, which the
// error says of the port that somebody has set.
func TestLastRegistryPort(t *testing.T) {
	_, err := Load(machine(t, "NMOS_REGISTRY_PORT=65535"))
	var invalid *Error
	if !errors.As(err, &invalid) || invalid.Key != "NMOS_REGISTRY_PORT" || invalid.Value != "65535" || !strings.Contains(err.Error(), "set NMOS_QUERY_PORT") {
		t.Errorf("got %v", err)
	}
	if c := load(t, "NMOS_REGISTRY_PORT=65535", "NMOS_QUERY_PORT=3211").Config(); c.NMOSRegistryPort != 65535 || c.NMOSQueryPort != 3211 {
		t.Errorf("ports %d and %d", c.NMOSRegistryPort, c.NMOSQueryPort)
	}
	_, err = Load(machine(t, "NMOS_REGISTRY_PORT=65535", "NMOS_QUERY_PORT=65536"))
	if !errors.As(err, &invalid) || invalid.Key != "NMOS_QUERY_PORT" {
		t.Errorf("a query port that was set: %v", err)
	}
}

func TestWarnings(t *testing.T) {
	s := load(t, "TRANSFER_PACING=off", "TRANSFER_PACING_MODE=even")
	if w := s.Warnings(); len(w) != 1 || w[0].Event != "transfer_pacing_removed" || w[0].Fields["value"] != "even" {
		t.Errorf("got %v, want one about TRANSFER_PACING_MODE", w)
	}
	m := machine(t)
	m.Environ = []string{"STATE_DIR=/proc/nowhere"}
	s, err := Load(m)
	if err != nil {
		t.Fatal(err)
	}
	if w := s.Warnings(); len(w) != 1 || w[0].Event != "state_dir_unwritable" || w[0].Fields["path"] != "/proc/nowhere" {
		t.Errorf("got %v, want state_dir_unwritable", w)
	}
	if _, err := s.Merge([]byte(`{"MIRROR_GRACE_S":11}`)); err != nil || s.Config().MirrorGrace.Duration() != 11*time.Second {
		t.Errorf("a setting must still apply where nothing can be saved: %v", err)
	}
	var save *SaveError
	if _, err := s.Merge([]byte(`{"MIRROR_GRACE_S":12,"LOG_LEVEL":"debug"}`)); !errors.As(err, &save) || s.RestartRequired() || s.Config().MirrorGrace.Duration() != 11*time.Second {
		t.Errorf("a setting of the next start that would be lost was taken: %v", err)
	}
}

func TestFileMembersThatMeanNothing(t *testing.T) {
	s, err := Load(withFile(t, `{"peers":[],"MIRROR_ADMIN_REBUILD":true,"STATE_DIR":"/elsewhere","AGENT_CONFIG_FILE":"/elsewhere/a.json","MIRROR_GRACE_S":7}`))
	if err != nil {
		t.Fatal(err)
	}
	want := []Warning{keyIgnored("MIRROR_ADMIN_REBUILD", "can only be set by the environment"), keyIgnored("peers", "is not a setting")}
	if diff := cmp.Diff(want, s.Warnings()); diff != "" {
		t.Errorf("warnings (-want +got):\n%s", diff)
	}
	for name, origin := range map[string]Origin{"STATE_DIR": OriginEnvironment, "AGENT_CONFIG_FILE": OriginDefault, "MIRROR_GRACE_S": OriginFile} {
		if got := s.Origins()[name]; got != origin {
			t.Errorf("%s comes from %s, want %s", name, got, origin)
		}
	}
	if got := s.Export()["AGENT_CONFIG_FILE"]; got != s.Path() {
		t.Errorf("the export says the file is %v, changes go to %s", got, s.Path())
	}
}

func TestWriteInvalid(t *testing.T) {
	_, err := Load(machine(t, "WEB_PORT=no"))
	var line bytes.Buffer
	if err := WriteInvalid(&line, err); err != nil {
		t.Fatal(err)
	}
	var got map[string]string
	if err := json.Unmarshal(line.Bytes(), &got); err != nil {
		t.Fatalf("%v in %s", err, line.Bytes())
	}
	want := map[string]string{"level": "error", "event": "invalid_config", "error": `WEB_PORT="no": must be a decimal integer`, "key": "WEB_PORT", "value": "no"}
	if diff := cmp.Diff(want, got); diff != "" || bytes.Count(line.Bytes(), []byte("\n")) != 1 {
		t.Errorf("line %q differs (-want +got):\n%s", line.Bytes(), diff)
	}
}

func TestCheckScanPath(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "f")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for path, ok := range map[string]bool{dir: true, file: false, filepath.Join(dir, "missing"): false} {
		if err := (&Config{ScanPath: path}).CheckScanPath(); (err == nil) != ok {
			t.Errorf("%s: %v", path, err)
		}
	}
}
