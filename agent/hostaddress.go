package agent

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/mxl-stack/mxl-fabrics-agent/agent/config"
)

// A host may start this program before DHCP has given it an address.
const (
	addressWait = 30 * time.Second
	addressLook = 250 * time.Millisecond
)

// AwaitHostAddress waits, before New, for an address that the node can announce where
// NMOS_HOST_ADDRESS names none: nothing is wrong with the settings then. The error is
// ctx's, or wraps ErrUnavailable after 30 s: exit code 75, which a supervisor may
// start again.
func AwaitHostAddress(ctx context.Context, store *config.Store, log *slog.Logger) error {
	if cfg := store.Config(); !cfg.NMOSEnable || cfg.NMOSHostAddress != "" {
		return nil
	}
	return awaitHostAddress(ctx, store.LookForAddress, log)
}

func awaitHostAddress(ctx context.Context, look func() (bool, error), log *slog.Logger) error {
	log.Info("host_address_wait", "seconds", int(addressWait/time.Second))
	late := time.NewTimer(addressWait)
	defer late.Stop()
	again := time.NewTicker(addressLook)
	defer again.Stop()
	for {
		found, err := look()
		if found {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-late.C:
			const wanted = "NMOS_HOST_ADDRESS is not set, and this host has no IPv4 address to announce but loopback"
			if err != nil {
				return fmt.Errorf("%w: %s: %w", ErrUnavailable, wanted, err)
			}
			return fmt.Errorf("%w: %s, after %v: set NMOS_HOST_ADDRESS, or NMOS_ENABLE=false", ErrUnavailable, wanted, addressWait)
		case <-again.C:
		}
	}
}
