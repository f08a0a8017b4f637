package fabrics

import "github.com/mxl-stack/mxl-fabrics-agent/fabrics/ofi"

// CanRescan tells whether libfabric can look for interfaces again while the
// process runs (2.2 and later). The verbs provider of an earlier one knows only
// what was there when the process asked first.
func CanRescan() bool { return ofi.CanRescan() }

// Rescan makes libfabric look for p's interfaces again and reports whether one
// has the address: nil, or an error that wraps [ErrNoInterface]. What is open
// stays usable. Where [CanRescan] is false it only asks.
func Rescan(p Provider, address string) error { return look(p, address, true) }

// Look asks libfabric whether one of p's interfaces has the address, as far as it
// knows them: nil, or an error that wraps [ErrNoInterface].
func Look(p Provider, address string) error { return look(p, address, false) }

func look(p Provider, address string, again bool) error {
	if err := checkProvider(p); err != nil {
		return err
	}
	info, err := ofi.GetInfo(ofi.Query{Provider: string(p), Address: address, Role: ofi.Receiver, Rescan: again})
	if err != nil {
		return interfaceError(p, address, err)
	}
	info.Close()
	return nil
}
