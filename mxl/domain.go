package mxl

import (
	"os"

	"github.com/google/uuid"
)

// DefaultHistoryNS is the ring history of a domain without options.json, in nanoseconds.
const DefaultHistoryNS = 200_000_000

// FlowSuffix ends the name of every flow directory.
const FlowSuffix = ".mxl-flow"

// FlowDirName returns the directory name of a flow: the canonical lower-case id and FlowSuffix.
func FlowDirName(id uuid.UUID) string { return id.String() + FlowSuffix }

// Domain is a directory of flows. It is safe for concurrent use.
type Domain struct{ path string }

// DomainOption configures OpenDomain.
type DomainOption func(*Domain)

// WithAccessWatch makes the discrete writers of a domain share a watch with other domains. Without it each domain that
// has discrete writers uses an inotify instance of its own.
func WithAccessWatch(w *AccessWatch) DomainOption { return func(*Domain) {} }

// AccessWatch notices readers of the flows written by this process (MXL format reference §10).
// One inotify instance serves any number of flows and domains; it exists while there is a writer.
type AccessWatch struct{}

// NewAccessWatch returns a watch for WithAccessWatch.
func NewAccessWatch() *AccessWatch { return &AccessWatch{} }

// OpenDomain opens a directory. Its options.json is read once, here; a bad one gives the defaults (OptionsError says so).
func OpenDomain(path string, opts ...DomainOption) (*Domain, error) { return nil, ErrUnsupportedOperation }

// Path returns the canonical path.
func (d *Domain) Path() string { return d.path }

// HistoryNS returns the history of flows created here, in nanoseconds.
func (d *Domain) HistoryNS() uint64 { return DefaultHistoryNS }

// OptionsJSON returns the bytes of options.json as they were at OpenDomain, nil when there was none.
func (d *Domain) OptionsJSON() []byte { return nil }

// OptionsError says why options.json was not used, nil when it was or is absent.
func (d *Domain) OptionsError() error { return nil }

// Definition reads domain_def.json. errors.Is(err, fs.ErrNotExist) when there is none.
func (d *Domain) Definition() (*DomainDef, error) { return nil, ErrUnsupportedOperation }

// DomainDef is what domain_def.json says (MXL format reference §1.3). Missing or mistyped members are "".
type DomainDef struct {
	ID, Label, Description string
	Raw                    []byte
}

// ParseDomainDef parses a domain definition; only JSON that is not an object is an error.
func ParseDomainDef(text []byte) (*DomainDef, error) { return nil, ErrUnsupportedOperation }

// ReadDomainDef reads domain_def.json in a domain directory, at most 1 MiB, no symbolic link.
func ReadDomainDef(domainDir string) (*DomainDef, error) { return nil, ErrUnsupportedOperation }

// Flows lists the ids of the flow directories, sorted.
func (d *Domain) Flows() ([]uuid.UUID, error) { return nil, ErrUnsupportedOperation }

// ReadFlowDef returns the bytes of flow_def.json, at most 1 MiB, no symbolic link.
func (d *Domain) ReadFlowDef(id uuid.UUID) ([]byte, error) { return nil, ErrUnsupportedOperation }

// ReadFlowDefAt is ReadFlowDef for a flow directory.
func ReadFlowDefAt(flowDir string) ([]byte, error) { return nil, ErrUnsupportedOperation }

// FlowInfo reads the header of a flow.
func (d *Domain) FlowInfo(id uuid.UUID) (FlowInfo, error) { return FlowInfo{}, ErrUnsupportedOperation }

// IsActive reports whether a writer holds the flow. ErrFlowNotFound without data file.
func (d *Domain) IsActive(id uuid.UUID) (bool, error) { return false, ErrUnsupportedOperation }

// IsFlowActive is IsActive for a flow directory.
func IsFlowActive(flowDir string) (bool, error) { return false, ErrUnsupportedOperation }

// CollectGarbage removes the flows no writer holds and returns their ids.
func (d *Domain) CollectGarbage() ([]uuid.UUID, error) { return nil, ErrUnsupportedOperation }

// RemoveFlow removes a flow no writer holds; ErrConflict while one does.
func (d *Domain) RemoveFlow(id uuid.UUID) error { return ErrUnsupportedOperation }

// CreateOption configures the creation of a flow.
type CreateOption func(*creation)

type creation struct{}

// WithFileMode sets the permission bits of the files of a new flow instead of the umask; directories get the execute
// bit wherever the mode has the read bit.
func WithFileMode(mode os.FileMode) CreateOption { return func(*creation) {} }

// WithOwner sets the owner of the files and directories of a new flow; -1 keeps an id.
func WithOwner(uid, gid int) CreateOption { return func(*creation) {} }

// WithExactDepth makes an existing flow of another ring depth a difference.
func WithExactDepth() CreateOption { return func(*creation) {} }

// OpenDiscreteReader opens a flow of grains for reading.
func (d *Domain) OpenDiscreteReader(id uuid.UUID) (*DiscreteReader, error) { return nil, ErrUnsupportedOperation }

// OpenContinuousReader opens a flow of samples for reading.
func (d *Domain) OpenContinuousReader(id uuid.UUID) (*ContinuousReader, error) { return nil, ErrUnsupportedOperation }

// OpenDiscreteWriter opens an existing flow of grains for writing.
func (d *Domain) OpenDiscreteWriter(id uuid.UUID) (*DiscreteWriter, error) { return nil, ErrUnsupportedOperation }

// OpenContinuousWriter opens an existing flow of samples for writing.
func (d *Domain) OpenContinuousWriter(id uuid.UUID) (*ContinuousWriter, error) { return nil, ErrUnsupportedOperation }

// CreateDiscreteWriter opens the flow of a definition for writing, and creates it when it does not exist. An existing
// flow must have the same definition and geometry, else a *DifferenceError.
func (d *Domain) CreateDiscreteWriter(def []byte, opt FlowOptions, with ...CreateOption) (w *DiscreteWriter, created bool, err error) {
	return nil, false, ErrUnsupportedOperation
}

// CreateContinuousWriter is CreateDiscreteWriter for audio.
func (d *Domain) CreateContinuousWriter(def []byte, opt FlowOptions, with ...CreateOption) (w *ContinuousWriter, created bool, err error) {
	return nil, false, ErrUnsupportedOperation
}
