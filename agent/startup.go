package agent

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mxl-stack/mxl-fabrics-agent/agent/config"
	"github.com/mxl-stack/mxl-fabrics-agent/fabrics"
	"github.com/mxl-stack/mxl-fabrics-agent/fabrics/ofi"
)

// The provider probe at start: an RDMA device may need a moment after boot
// (agent API reference §12.5).
const (
	probeTries = 5
	probeWait  = 250 * time.Millisecond
)

// findProvider waits until the configured provider, or tcp where it may stand
// in, can be used. The error wraps ErrUnavailable: exit code 75.
func findProvider(ctx context.Context, cfg *config.Config, log *slog.Logger, probe func(fabrics.Provider) error) error {
	wanted := fabrics.Provider(cfg.DefaultProvider)
	var err error
	if !ofi.FramesChecked() {
		log.Warn("fabric_frames_unchecked")
	}
	for try := range probeTries {
		if err = probe(wanted); err == nil {
			return nil
		}
		if cfg.ProviderFallback == string(fabrics.TCP) && wanted != fabrics.TCP && probe(fabrics.TCP) == nil {
			log.Warn("provider_fallback_default", "from", wanted, "to", fabrics.TCP, "error", err)
			return nil
		}
		if try == probeTries-1 {
			break
		}
		if try == 0 {
			log.Info("fabric_provider_wait", "provider", wanted, "error", err)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(probeWait << try):
		}
	}
	log.Error("no_fabric_provider", "provider", wanted, "error", err)
	return fmt.Errorf("%w: DEFAULT_PROVIDER=%q: %w", ErrUnavailable, cfg.DefaultProvider, err)
}

// raiseFileLimit raises the soft limit of open files to the hard one: every
// grain of a mirror is a file.
func raiseFileLimit(log *slog.Logger) {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil || limit.Cur >= limit.Max {
		return
	}
	before := limit.Cur
	limit.Cur = limit.Max
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		log.Warn("open_file_limit_not_raised", "soft", before, "hard", limit.Max, "error", err)
	}
}

// capabilities names those of the effective capabilities that the agent has a
// use for.
func capabilities() string {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var sets [2]unix.CapUserData
	if err := unix.Capget(&header, &sets[0]); err != nil {
		return "unknown"
	}
	var have []string
	for _, c := range []struct {
		name string
		bit  uint
	}{{"sys_nice", unix.CAP_SYS_NICE}, {"ipc_lock", unix.CAP_IPC_LOCK}, {"sys_ptrace", unix.CAP_SYS_PTRACE}} {
		if sets[c.bit/32].Effective&(1<<(c.bit%32)) != 0 {
			have = append(have, c.name)
		}
	}
	if len(have) == 0 {
		return "none"
	}
	return strings.Join(have, ",")
}

// announceStart logs what an operator looks for first, and what is wrong with
// the host.
func (a *Agent) announceStart(cfg *config.Config) {
	if !a.root.tmpfs() {
		a.log.Warn("mxl_root_not_tmpfs", "path", cfg.ScanPath)
	}
	if a.tai == 0 {
		a.log.Warn("tai_offset_zero", "detail", "the kernel's TAI offset is 0: grain indexes are whole seconds off unless every host has the same; set it with PTP or chrony")
	}
	a.log.Info("startup", "version", Version, "host_id", cfg.HostID, "boot_id", a.bootID, "mxl", MXLVersion,
		"libfabric", fabrics.Version(), "capabilities", capabilities(), "root", cfg.ScanPath)
	a.logConfig()
}

// logConfig leaves the whole configuration in the log, as the export shows it: who
// reads a log months later has no other way to see it (contract, "Configuration").
func (a *Agent) logConfig() {
	var attrs []any
	for _, p := range a.store.Pairs() {
		attrs = append(attrs, p.Name, p.Value)
	}
	a.log.Info("config", attrs...)
}
