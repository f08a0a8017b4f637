// Package config holds the agent's settings: environment over file over
// default, checked as a whole before anything of it is used (contract,
// "Configuration"; agent API reference §12).
package config

import (
	"fmt"
	"os"

	"github.com/caarlos0/env/v11"
)

// Config is the decoded configuration. It is a value: nothing in it changes
// after it was handed out.
type Config struct {
	HostID    string `env:"HOST_ID"`
	ScanPath  string `env:"MXL_DOMAIN_SCAN_PATH"`
	StateDir  string `env:"STATE_DIR"`
	File      string `env:"AGENT_CONFIG_FILE"`
	LogLevel  Level  `env:"LOG_LEVEL"`
	WebPort   int    `env:"WEB_PORT"`
	WebEnable bool   `env:"WEB_ENABLE"`

	ScanInterval    Milliseconds `env:"SCAN_INTERVAL_MS"`
	ShutdownTimeout Seconds      `env:"SHUTDOWN_TIMEOUT_S"`
	MetricsPerFlow  bool         `env:"METRICS_PER_FLOW"`

	MirrorMode           string       `env:"MIRROR_MODE"` // "eager" or "on-demand"
	MirrorIncludeDomains List         `env:"MIRROR_INCLUDE_DOMAINS"`
	MirrorIncludeFlows   List         `env:"MIRROR_INCLUDE_FLOWS"`
	MirrorExcludeDomains List         `env:"MIRROR_EXCLUDE_DOMAINS"`
	MirrorExcludeFlows   List         `env:"MIRROR_EXCLUDE_FLOWS"`
	MirrorGrace          Seconds      `env:"MIRROR_GRACE_S"`
	MirrorIdleGrace      Seconds      `env:"MIRROR_IDLE_GRACE_S"` // 0: never
	MirrorCleanupDryRun  bool         `env:"MIRROR_CLEANUP_DRY_RUN"`
	MirrorStale          Milliseconds `env:"MIRROR_STALE_MS"` // 0: never
	MirrorAdminRebuild   bool         `env:"MIRROR_ADMIN_REBUILD"`
	TmpfsReserveMB       int          `env:"TMPFS_RESERVE_MB"` // MiB
	CleanupOnExit        bool         `env:"MXL_CLEANUP_ON_EXIT"`

	DefaultProvider  string `env:"DEFAULT_PROVIDER"`  // "verbs" or "tcp"
	ProviderFallback string `env:"PROVIDER_FALLBACK"` // "" or "tcp"
	FabricInterface  string `env:"FABRIC_INTERFACE"`
	FabricPortBase   int    `env:"FABRIC_PORT_BASE"`
	FabricPortCount  int    `env:"FABRIC_PORT_COUNT"`
	FabricACKTimeout int    `env:"FABRIC_ACK_TIMEOUT"` // exponent, 0: rdma_cm's own
	FabricRetryCount int    `env:"FABRIC_RETRY_COUNT"`

	AudioPass     Milliseconds `env:"AUDIO_PASS_MS"`
	AudioPipeline bool         `env:"AUDIO_PIPELINE"`
	RTPriority    int          `env:"RT_PRIORITY"`
	CPUAffinity   CPUs         `env:"CPU_AFFINITY"`

	Peers            Peers        `env:"PEERS"`
	PeerPollInterval Milliseconds `env:"PEER_POLL_INTERVAL_MS"`
	ReleaseGrace     Milliseconds `env:"RELEASE_GRACE_MS"`

	NMOSEnable          bool         `env:"NMOS_ENABLE"`
	NMOSSeed            string       `env:"NMOS_SEED"` // empty: HOST_ID is the seed
	NMOSLabel           string       `env:"NMOS_LABEL"`
	NMOSTags            Tags         `env:"NMOS_TAGS"`
	NMOSDNSSD           bool         `env:"NMOS_DNS_SD"`
	NMOSHostAddress     string       `env:"NMOS_HOST_ADDRESS"` // empty only when the host has no IPv4
	NMOSRegistryAddress string       `env:"NMOS_REGISTRY_ADDRESS"`
	NMOSRegistryPort    int          `env:"NMOS_REGISTRY_PORT"`
	NMOSQueryAddress    string       `env:"NMOS_QUERY_ADDRESS"`
	NMOSQueryPort       int          `env:"NMOS_QUERY_PORT"`
	NMOSPollInterval    Milliseconds `env:"NMOS_POLL_INTERVAL_MS"`
	NMOSPort            int          `env:"NMOS_PORT"`
	LocalNodeIDs        List         `env:"LOCAL_NODE_IDS"`
	LocalNodeHostnames  List         `env:"LOCAL_NODE_HOSTNAMES"`
	LocalNodeCIDRs      CIDRs        `env:"LOCAL_NODE_CIDRS"`
}

// CheckScanPath reports, as an *Error, a scan path that is not a directory:
// exit code 78, like any other invalid setting.
func (c *Config) CheckScanPath() error {
	info, err := os.Stat(c.ScanPath)
	if err == nil && info.IsDir() {
		return nil
	}
	if err == nil {
		err = fmt.Errorf("is not a directory")
	}
	return &Error{Key: "MXL_DOMAIN_SCAN_PATH", Value: c.ScanPath, Err: err}
}

// decode turns checked values (canonical name to text) into a Config.
func decode(values map[string]string) (*Config, error) {
	for _, k := range keys {
		v := values[k.Name]
		if err := k.check(v); err != nil {
			return nil, &Error{Key: k.Name, Value: v, Err: err}
		}
	}
	c := new(Config)
	if err := env.ParseWithOptions(c, env.Options{Environment: values, FuncMap: parsers}); err != nil {
		return nil, fmt.Errorf("decode the configuration: %w", err)
	}
	return c, c.crossCheck()
}

func (c *Config) crossCheck() error {
	if end := c.FabricPortBase + c.FabricPortCount; end > 65_536 {
		return &Error{Key: "FABRIC_PORT_COUNT", Value: fmt.Sprint(c.FabricPortCount),
			Err: fmt.Errorf("FABRIC_PORT_BASE + FABRIC_PORT_COUNT is %d, more than 65536", end)}
	}
	if c.WebPort == c.NMOSPort || c.WebPort == c.NMOSPort+1 {
		return &Error{Key: "WEB_PORT", Value: fmt.Sprint(c.WebPort),
			Err: fmt.Errorf("is taken by NMOS_PORT %d or the WebSocket on %d", c.NMOSPort, c.NMOSPort+1)}
	}
	return nil
}
