package fabrics

// TargetInfo is the description of a target an initiator connects to (MXL Fabrics reference §2).
type TargetInfo struct {
	AddressFormat uint32 // libfabric address format: 2 IPv4, 3 IPv6
	Address       []byte // raw socket address
	ID            uint64
	Provider      string
	Regions       []Region
	Bounce        *Bounce // continuous flows only
	Native        uint32  // receives this package's target keeps posted; 0 for others
}

// Region is one registered memory region of a target.
type Region struct{ Addr, Len, RKey uint64 }

// Bounce is a continuous target's bounce buffer; EntrySize includes the entry's
// 16-byte header.
type Bounce struct{ EntryCount, EntrySize uint64 }

// ParseTargetInfo reads the JSON form. The error names the field.
func ParseTargetInfo(s string) (TargetInfo, error) { return TargetInfo{}, nil }

// String is the JSON form, keys sorted, without spaces, "/" escaped as "\/", as
// the SDK writes it.
func (t TargetInfo) String() string { return "" }
