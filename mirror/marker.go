package mirror

import (
	"encoding/json"
	"errors"
	"fmt"
)

// markerMember is the member of domain_def.json that makes a domain a mirror
// (agent API reference §15.1). Sibling functions take it as write protection.
const markerMember = "x-mxl-fabrics-agent"

// largestText bounds what is read of domain_def.json and options.json of a
// root that others can write to.
const largestText = 1 << 20

// marker is what a domain_def.json says about whose mirror the directory is.
type marker struct {
	DomainID   string
	Mirror     bool
	SourceHost string
	OwnerHost  string
}

// errNoMarker reports a domain_def.json without our member: an origin domain.
var errNoMarker = errors.New("no " + markerMember + " marker")

// parseMarker reads a domain_def.json. Errors: not a JSON object, members of
// another type, errNoMarker.
func parseMarker(text []byte) (marker, error) {
	var def struct {
		ID   string           `json:"id"`
		Mark *json.RawMessage `json:"x-mxl-fabrics-agent"`
	}
	if err := json.Unmarshal(text, &def); err != nil {
		return marker{}, fmt.Errorf("domain_def.json: %w", err)
	}
	if def.Mark == nil {
		return marker{DomainID: def.ID}, errNoMarker
	}
	var mark struct {
		Mirror bool   `json:"mirror"`
		Source string `json:"source_host_id"`
		Owner  string `json:"owner_host_id"`
	}
	if err := json.Unmarshal(*def.Mark, &mark); err != nil {
		return marker{DomainID: def.ID}, fmt.Errorf("domain_def.json: %s: %w", markerMember, err)
	}
	return marker{DomainID: def.ID, Mirror: mark.Mirror, SourceHost: mark.Source, OwnerHost: mark.Owner}, nil
}

// claim says why a marker does not make the directory at path our mirror of a
// domain; nil when it does.
func (m marker) claim(path, domainID, hostID string) error {
	switch {
	case m.DomainID != domainID:
		return &ForeignError{Path: path, Existing: m.DomainID, Wanted: domainID, Why: "id"}
	case !m.Mirror:
		return &ForeignError{Path: path, Why: markerMember + " does not say mirror"}
	case m.OwnerHost != hostID:
		return &ForeignError{Path: path, Existing: m.OwnerHost, Wanted: hostID, Why: "owner_host_id"}
	}
	return nil
}

// definition is the domain_def.json of a mirror domain.
func definition(domainID, sourceHost, hostID string) ([]byte, error) {
	type mark struct {
		Mirror bool   `json:"mirror"`
		Source string `json:"source_host_id"`
		Owner  string `json:"owner_host_id"`
	}
	text, err := json.MarshalIndent(struct {
		ID          string              `json:"id"`
		Label       string              `json:"label"`
		Description string              `json:"description"`
		Tags        map[string][]string `json:"tags"`
		Mark        mark                `json:"x-mxl-fabrics-agent"`
	}{
		ID:          domainID,
		Label:       "mirror " + domainID,
		Description: fmt.Sprintf("Mirror of MXL domain %s on host %s, kept by mxl-fabrics-agent on host %s. Do not write here.", domainID, sourceHost, hostID),
		Tags:        map[string][]string{},
		Mark:        mark{Mirror: true, Source: sourceHost, Owner: hostID},
	}, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("domain_def.json of %s: %w", domainID, err)
	}
	return append(text, '\n'), nil
}
