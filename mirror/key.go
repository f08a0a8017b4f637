package mirror

import (
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/google/uuid"
)

const (
	// dirPrefix begins the directory name of every mirror domain.
	dirPrefix = "mirror-"
	// flowSuffix ends the directory name of every flow (MXL format reference §1.1).
	flowSuffix = ".mxl-flow"
	// longestDomainID leaves room for dirPrefix in a 255-byte file name.
	longestDomainID = 240
)

// Key names one mirror flow on this host.
type Key struct {
	DomainID string    // id inside the origin's domain_def.json
	FlowID   uuid.UUID // id of the flow, the same on both hosts
}

// String is "domain/flow", the form log lines and error texts use.
func (k Key) String() string { return k.DomainID + "/" + k.FlowID.String() }

// ErrDomainID reports a domain id that cannot be part of a directory name.
var ErrDomainID = errors.New("domain id is not usable as a directory name")

// CheckDomainID refuses ids that would not name one directory directly below
// the MXL root: empty, longer than 240 bytes, with a slash, a control
// character or bytes that are not UTF-8. The error wraps [ErrDomainID].
func CheckDomainID(id string) error {
	switch {
	case id == "":
		return fmt.Errorf("%w: it is empty", ErrDomainID)
	case len(id) > longestDomainID:
		return fmt.Errorf("%w: %d bytes, at most %d", ErrDomainID, len(id), longestDomainID)
	case !utf8.ValidString(id):
		return fmt.Errorf("%w: %q is not UTF-8", ErrDomainID, id)
	case strings.ContainsRune(id, '/') || strings.ContainsFunc(id, unicode.IsControl):
		return fmt.Errorf("%w: %q", ErrDomainID, id)
	}
	return nil
}

// domainDir is the directory name of a mirror domain.
func domainDir(domainID string) string { return dirPrefix + domainID }

// flowDir is the directory name of a flow inside its domain: canonical
// lower-case UUID plus suffix.
func flowDir(id uuid.UUID) string { return id.String() + flowSuffix }

// parseFlowDir is the inverse of flowDir; it accepts the canonical spelling only.
func parseFlowDir(name string) (uuid.UUID, bool) {
	stem, found := strings.CutSuffix(name, flowSuffix)
	if !found {
		return uuid.Nil, false
	}
	id, err := uuid.Parse(stem)
	if err != nil || id.String() != stem {
		return uuid.Nil, false
	}
	return id, true
}
