package fabrics

import (
	"errors"
	"fmt"

	"github.com/mxl-stack/mxl-fabrics-agent/fabrics/ofi"
)

// Version is the version of the libfabric in use, "major.minor".
func Version() string { return ofi.Version() }

// Providers lists the providers of MXL flows that libfabric offers here.
func Providers() []Provider {
	var found []Provider
	for _, p := range []Provider{Verbs, TCP} {
		if Probe(p) == nil {
			found = append(found, p)
		}
	}
	return found
}

// Probe tells whether p can be used on this host at all; the error says what is
// missing.
func Probe(p Provider) error {
	if err := checkProvider(p); err != nil {
		return err
	}
	info, err := ofi.GetInfo(ofi.Query{Provider: string(p), Role: ofi.Sender})
	if err != nil {
		return fmt.Errorf("libfabric %s offers no provider %s here: %w", ofi.Version(), p, err)
	}
	info.Close()
	return nil
}

// ErrNoInterface means that the provider knows no interface with the address.
var ErrNoInterface = errors.New("has no interface")

// ProviderError is what a provider could not do on an address, before anything of a
// flow was looked at: another provider may be able to.
type ProviderError struct{ Err error }

// Error is the reason.
func (e *ProviderError) Error() string { return e.Err.Error() }

// Unwrap returns the reason.
func (e *ProviderError) Unwrap() error { return e.Err }

func checkProvider(p Provider) error {
	if p != TCP && p != Verbs {
		return fmt.Errorf("provider %q is not one of tcp, verbs", p)
	}
	return nil
}

func interfaceError(p Provider, address string, err error) error {
	if errors.Is(err, ofi.ErrNoData) {
		return fmt.Errorf("provider %s %w for %s", p, ErrNoInterface, address)
	}
	return fmt.Errorf("provider %s %w for %s: %w", p, ErrNoInterface, address, err)
}
